//! Orders, end to end. Starts a real service, a decider, a runner, and a separate runner for the `PCI` list, each as a
//! process. Sends a few hundred orders, and shows how they ended.

mod decider;
mod flow;
mod orders;
mod runner;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use baton_client::body::StartWorkflow;
use baton_client::{Client, Filter, Patience};
use baton_history::Payload;
use clap::{Parser, Subcommand};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::decider::OrderDecider;
use crate::orders::{Ending, Order};

/// Task list of the deciders, and of all activities that are not on `PCI`.
const LIST: &str = "orders";

/// Time limit for the whole example.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Parser)]
#[command(about = "Sends a few hundred orders through a workflow")]
struct Cli {
    /// URL of a running service; by default the example starts its own
    #[arg(long, global = true)]
    url: Option<String>,
    /// Use the decider written as a flow
    #[arg(long)]
    flow: bool,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Run only the decider
    Decider {
        /// Use the decider written as a flow
        #[arg(long)]
        flow: bool,
    },
    /// Run only a runner
    Runner {
        /// Task list to poll
        #[arg(long, default_value = LIST)]
        list: String,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let of_environment = std::env::var("BATON_URL").ok();
    let url = || cli.url.as_deref().or(of_environment.as_deref()).unwrap_or("http://127.0.0.1:7420");
    match &cli.role {
        None => demonstrate(cli.url.as_deref(), cli.flow).await,
        Some(Role::Decider { flow }) => {
            let cancel_window = baton_history::Duration::from_secs(1);
            let host = baton_decider_kit::Host::new(Client::new(url())?, LIST);
            let host = if *flow {
                host.register("order", flow::order_flow(cancel_window))
            } else {
                host.register("order", OrderDecider { cancel_window })
            };
            host.identity("order-decider").concurrency(16).run().await;
            Ok(())
        }
        Some(Role::Runner { list }) => {
            runner::host(Client::new(url())?, list).run().await;
            Ok(())
        }
    }
}

/// A child process that ends with this program.
struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    fn start(name: &'static str, program: &Path, args: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("{}", program.display()))?;
        println!("started   {name} (process {})", child.id().unwrap_or(0));
        Ok(Self { name, child })
    }

    /// Asks the process to stop, and waits until it has ended.
    async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the process has ended")?.to_string();
        // Uses the shell's builtin `kill`, because not every machine has a `kill` program.
        Command::new("sh").args(["-c", "kill -TERM \"$0\"", &id]).status().await?;
        let status = tokio::time::timeout(Duration::from_secs(20), self.child.wait()).await;
        let status = status.with_context(|| format!("{} has not stopped", self.name))??;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }
}

/// Builds the service into the directory that contains this program.
async fn build_service(own: &Path) -> anyhow::Result<PathBuf> {
    let binary = own.with_file_name(format!("baton{}", std::env::consts::EXE_SUFFIX));
    let mut build = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    build.args(["build", "--package", "baton-service", "--bin", "baton"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    // The name of that directory is the build profile.
    for profile in ["release", "dist"] {
        if own.parent().is_some_and(|folder| folder.ends_with(profile)) {
            build.args(["--profile", profile]);
        }
    }
    let built = build.status().await;
    ensure!(built.is_ok_and(|status| status.success()) || binary.exists(), "cannot build the service");
    Ok(binary)
}

async fn demonstrate(url: Option<&str>, flow: bool) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let scratch = std::env::temp_dir().join(format!("baton-order-{}", std::process::id()));
    let mut processes = Vec::new();
    let url = match url {
        Some(url) => url.to_owned(),
        None => {
            let baton = build_service(&own).await?;
            std::fs::create_dir_all(&scratch)?;
            let (data, address) = (scratch.join("data"), scratch.join("address"));
            let (data_arg, address_arg) = (data.to_string_lossy(), address.to_string_lossy());
            let args = [
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--log",
                "warn",
                "--data-dir",
                &data_arg,
                "--port-file",
                &address_arg,
            ];
            processes.push(Process::start("service", &baton, &args)?);
            format!("http://{}", wait_for_file(&address).await?.trim())
        }
    };
    let decider: &[&str] = if flow { &["decider", "--flow", "--url", &url] } else { &["decider", "--url", &url] };
    processes.push(Process::start("decider", &own, decider)?);
    processes.push(Process::start("runner of `orders`", &own, &["runner", "--url", &url])?);
    processes.push(Process::start("runner of `PCI`", &own, &["runner", "--list", decider::PCI, "--url", &url])?);
    let client = Client::new(&url)?.patience(Patience::For(Duration::from_secs(30)));
    client.ready().await?;
    let outcome = send_orders(&client).await;
    for process in processes.into_iter().rev() {
        process.stop().await?;
    }
    drop(std::fs::remove_dir_all(&scratch));
    outcome
}

async fn wait_for_file(path: &Path) -> anyhow::Result<String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Ok(text) = std::fs::read_to_string(path) {
            return Ok(text);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("the service was not ready in time")
}

async fn send_orders(client: &Client) -> anyhow::Result<()> {
    let orders = Order::all()?;
    let began = Instant::now();
    // The workflow ids contain the process id, so that each run of the example creates new orders even on an existing
    // service.
    let batch = format!("batch-{}", std::process::id());
    let id = |order: &Order| format!("{batch}/{}", order.id);
    println!("sending   {} orders", orders.len());
    for order in &orders {
        let start = StartWorkflow {
            workflow_id: id(order),
            workflow_type: "order".to_owned(),
            task_list: Some(LIST.to_owned()),
            input: Some(Payload::of(order)?),
            tags: vec![batch.clone()],
            ..StartWorkflow::default()
        };
        client.start(&start, Some(&id(order))).await?;
        if order.cancels {
            client.signal(&id(order), "cancel", None, Some(&id(order))).await?;
        }
    }
    let counts = watch(client, &batch, orders.len() as u64, began).await?;
    println!("\n{:<10} {:>6}  {:>12}", "ended as", "orders", "charged");
    let expected = |endings: &[Ending]| {
        let matching: Vec<&Order> = orders.iter().filter(|order| endings.contains(&order.ending())).collect();
        let cents: u64 = matching.iter().filter(|it| it.ending() == Ending::Shipped).map(|order| order.cents).sum();
        (matching.len() as u64, cents)
    };
    let rows = [
        ("success", &[Ending::Shipped][..]),
        ("failed", &[Ending::Declined, Ending::Suspicious]),
        ("canceled", &[Ending::Canceled]),
    ];
    for (status, endings) in rows {
        let (count, cents) = expected(endings);
        let found = counts.get(status).copied().unwrap_or(0);
        println!("{status:<10} {found:>6}  {:>9}.{:02}", cents / 100, cents % 100);
        ensure!(found == count, "{found} orders ended with status {status}, expected {count}");
    }
    let interesting = orders.iter().find(|order| order.carrier_busy == 2 && order.ending() == Ending::Shipped);
    if let Some(order) = interesting {
        let events = client.events(&id(order), None).await?;
        println!(
            "\nthe history of {}, whose carrier was busy twice:\n\n{}\n",
            id(order),
            baton_tables::history(&events)
        );
    }
    println!("all {} orders ended as expected, in {:.1} s", orders.len(), began.elapsed().as_secs_f64());
    Ok(())
}

/// Shows progress until no order is open. Returns the number of orders per status.
async fn watch(
    client: &Client,
    batch: &str,
    total: u64,
    began: Instant,
) -> anyhow::Result<BTreeMap<&'static str, u64>> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let mut last = String::new();
    loop {
        let mut counts = BTreeMap::new();
        for status in ["success", "failed", "canceled"] {
            let filter = Filter { status: Some(status.to_owned()), tag: Some(batch.to_owned()), ..Filter::default() };
            counts.insert(status, client.count(&filter).await?.count);
        }
        let done: u64 = counts.values().sum();
        let count = |status: &str| counts.get(status).copied().unwrap_or(0);
        let line = format!(
            "progress  {done:>4} of {total}: {} success, {} failed, {} canceled",
            count("success"),
            count("failed"),
            count("canceled")
        );
        if is_terminal {
            print!("\r{line}");
        } else if line != last {
            println!("{line}");
        }
        std::io::stdout().flush()?;
        last = line;
        if done == total {
            if is_terminal {
                println!();
            }
            return Ok(counts);
        }
        ensure!(began.elapsed() < PATIENCE, "not all orders ended in time");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
