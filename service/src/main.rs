//! `baton`: the service, and the tools to look at it and to talk to it, in one binary.

extern crate baton_service as service;

#[cfg(feature = "mimalloc")]
mod allocator;
mod cli;
mod config;
mod credentials;
mod descriptors;
mod dynamodb;
mod encryption;
mod failed;
mod memory;
mod notify;
mod serve;
mod shipping;
mod spans;
mod zoneinfo;

use std::pin::Pin;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::read();
    // Only the service has more to do than one thread can.
    let mut builder = if cli.is_service() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    #[cfg(feature = "mimalloc")]
    builder.on_thread_park(allocator::return_unused);
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("baton: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    // A box without the type of what is in it: without it the compiler makes all commands three times.
    let work: Pin<Box<dyn Future<Output = ExitCode>>> = Box::pin(cli.run());
    let code = runtime.block_on(work);
    // What is still waiting on stdin or a socket must not keep the process.
    runtime.shutdown_background();
    code
}
