//! An application, a decider and a runner, each as a separate process, that export spans to a collector. Usage: `traced
//! application|decider|runner URL COLLECTOR`. All code for tracing is in `main` and `telemetry`.

use std::time::Duration;

use baton_client::{Client, body::StartWorkflow};
use baton_decider_kit::flow::{Context, Failure, Flow};
use baton_decider_kit::{Duration as Wait, RetryPolicy};
use baton_runner_kit::{ActivityContext as Work, activity_fn};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

const LIST: &str = "orders";

/// Configures this program to export its spans to a collector.
fn telemetry(name: &str, collector: &str) -> Result<SdkTracerProvider, Box<dyn std::error::Error>> {
    let exporter = SpanExporter::builder().with_http().with_endpoint(format!("{collector}/v1/traces")).build()?;
    let resource = Resource::builder_empty().with_service_name(name.to_owned()).build();
    let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("traced"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    Ok(provider)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [role, url, collector] = args.as_slice() else { return Err("expected ROLE URL COLLECTOR".into()) };
    let provider = telemetry(role, collector)?;
    let client = Client::new(url)?;
    let runtime = tokio::runtime::Runtime::new()?;
    match role.as_str() {
        "application" => runtime.block_on(check_out(client).instrument(tracing::info_span!("check-out")))?,
        "decider" => runtime.block_on(decide(client)),
        "runner" => runtime.block_on(run(client)),
        role => return Err(format!("`{role}` is nobody").into()),
    }
    provider.shutdown()?;
    Ok(())
}

/// Starts an order, signals its payment, and waits until it closes.
async fn check_out(client: Client) -> Result<(), baton_client::Error> {
    let start = StartWorkflow {
        workflow_id: "order-1".to_owned(),
        workflow_type: "order".to_owned(),
        task_list: Some(LIST.to_owned()),
        ..StartWorkflow::default()
    };
    let started = client.start(&start, Some("check-out")).await?;
    client.signal("order-1", "pay", None, Some("pay")).await?;
    client.result("order-1", Some(started.run_id), Duration::from_secs(60)).await?;
    Ok(())
}

async fn decide(client: Client) {
    let host = baton_decider_kit::Host::new(client, LIST);
    host.register("order", Flow::new(order)).register("parcel", Flow::new(parcel)).run().await;
}

async fn order(ctx: Context, (): ()) -> Result<(), Failure> {
    ctx.signals::<()>("pay").next().await?;
    let soon = RetryPolicy { initial_interval: Wait::from_millis(10), ..RetryPolicy::default() };
    ctx.activity::<()>("charge", &()).retry(soon).await?;
    ctx.sleep(Wait::from_millis(10)).await?;
    ctx.child::<()>("parcel", "parcel-1", &()).await?;
    Ok(())
}

async fn parcel(ctx: Context, (): ()) -> Result<(), Failure> {
    ctx.activity::<()>("ship", &()).await
}

async fn run(client: Client) {
    let (charge, ship) = (activity_fn("charge", charge), activity_fn("ship", ship));
    baton_runner_kit::Host::new(client, LIST).register(charge).register(ship).run().await;
}

/// Succeeds at the second attempt.
async fn charge(work: Work, (): ()) -> Result<(), baton_runner_kit::ActivityFailure> {
    let at_bank = tracing::info_span!("at-bank");
    async { if work.attempt == 1 { Err(baton_runner_kit::ActivityFailure::new("busy")) } else { Ok(()) } }
        .instrument(at_bank)
        .await
}

async fn ship(_: Work, (): ()) -> Result<(), baton_runner_kit::ActivityFailure> {
    Ok(())
}
