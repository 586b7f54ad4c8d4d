//! Workflows of three steps on Restate, and a load generator for them. The workflows are services that Restate's server
//! calls. `compare` alternates between them and Baton.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};
use restate_sdk::prelude::*;

/// Steps of a workflow.
const STEPS: u32 = 3;

/// A workflow with three steps in one handler, which journals their results.
struct Wf3;

#[service]
impl Wf3 {
    #[handler]
    async fn run(&self, context: Context<'_>, input: String) -> Result<String, HandlerError> {
        let mut value = input;
        for _ in 0..STEPS {
            let step = value.clone();
            value = context.run(|| async move { Ok(step) }).await?;
        }
        Ok(value)
    }
}

/// A step as a separate service, comparable to an activity.
struct Step;

#[service]
impl Step {
    #[handler]
    async fn run(&self, _context: Context<'_>, input: String) -> Result<String, HandlerError> {
        Ok(input)
    }
}

/// A workflow that calls the service `Step` three times.
struct Chain;

#[service]
impl Chain {
    #[handler]
    async fn run(&self, context: Context<'_>, input: String) -> Result<String, HandlerError> {
        let mut value = input;
        for _ in 0..STEPS {
            value = context.service_client::<StepClient>().run(value).call().await?;
        }
        Ok(value)
    }
}

#[derive(Parser)]
enum Peer {
    /// Serve the workflows and their step
    Serve { listen: SocketAddr },
    #[command(flatten)]
    Load(Load),
}

#[derive(Subcommand)]
enum Load {
    /// Start workflows, each after the one before has closed, and report their number per second
    Drive {
        ingress: String,
        what: What,
        #[arg(long, default_value_t = 5_000)]
        workflows: u64,
        #[arg(long, default_value_t = 64)]
        concurrency: u64,
        /// Bytes of each input and result
        #[arg(long, default_value_t = 100)]
        payload: usize,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Wf3,
    Chain,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    match Peer::parse() {
        Peer::Serve { listen } => {
            let endpoint = Endpoint::builder().bind(Wf3).bind(Step).bind(Chain).build();
            HttpServer::new(endpoint).listen_and_serve(listen).await;
            Ok(())
        }
        Peer::Load(Load::Drive { ingress, what, workflows, concurrency, payload }) => {
            let service = match what {
                What::Wf3 => "Wf3",
                What::Chain => "Chain",
            };
            let url = format!("{ingress}/restate/call/{service}/run");
            drive(&url, workflows, concurrency, payload).await
        }
    }
}

async fn drive(
    url: &str,
    workflows: u64,
    concurrency: u64,
    payload: usize,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let http = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build()?;
    let (next, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let body = format!("\"{}\"", "x".repeat(payload));
    let mut drivers = tokio::task::JoinSet::new();
    for _ in 0..concurrency.max(1) {
        let (http, next, url, body) = (http.clone(), Arc::clone(&next), url.to_owned(), body.clone());
        drivers.spawn(async move {
            let mut latencies = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < workflows {
                let began = Instant::now();
                let request = http.post(&url).header("content-type", "application/json").body(body.clone());
                let answer = request.send().await?.error_for_status()?.bytes().await?;
                if answer != body.as_bytes() {
                    return Err(format!("another answer: {answer:?}").into());
                }
                latencies.push(began.elapsed());
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(latencies)
        });
    }
    let mut latencies: Vec<Duration> = Vec::new();
    while let Some(done) = drivers.join_next().await {
        latencies.extend(done??);
    }
    let seconds = began.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let quantile = |of: f64| {
        let at = (latencies.len() as f64 * of) as usize;
        latencies.get(at.min(latencies.len().saturating_sub(1))).copied().unwrap_or_default().as_secs_f64() * 1_000.0
    };
    println!("{:.0} {:.2} {:.2}", workflows as f64 / seconds, quantile(0.5), quantile(0.99));
    Ok(())
}
