//! An order on the web, page by page. Every submitted page is an update of the order's workflow, and the answer to the
//! update determines the next page. With a running service: `cargo run -p baton-examples --bin order-page`, then open
//! the address that it prints. The optional arguments are the service's URL and the address to listen on.

mod flow;
mod page;
#[cfg(test)]
mod tests;

use baton_client::Client;
use baton_decider_kit::flow::Flow;
use baton_runner_kit::{ActivityContext, ActivityFailure, activity_fn};

/// Task list of the decider and of the activity.
const LIST: &str = "order-pages";

/// Simulates a lookup of an address, which takes 100 milliseconds.
async fn look_up_address(_: ActivityContext, street: String) -> Result<String, ActivityFailure> {
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    if street.to_lowercase().contains("nowhere") {
        return Err(ActivityFailure::new("unknown-address").details(&"There is no such place."));
    }
    Ok(street)
}

/// Runs the decider, the runner and the web server until the future is dropped.
async fn shop(client: Client, listener: tokio::net::TcpListener) -> anyhow::Result<()> {
    let decider = baton_decider_kit::Host::new(client.clone(), LIST).register("order-page", Flow::new(flow::order));
    let runner =
        baton_runner_kit::Host::new(client.clone(), LIST).register(activity_fn("look-up-address", look_up_address));
    let pages = axum::serve(listener, page::Shop::new(client, LIST).router());
    tokio::select! {
        () = decider.run() => Ok(()),
        () = runner.run() => Ok(()),
        served = pages => Ok(served?),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().or_else(|| std::env::var("BATON_URL").ok());
    let url = url.unwrap_or_else(|| "http://127.0.0.1:7420".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7430".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    shop(Client::new(&url)?, listener).await
}
