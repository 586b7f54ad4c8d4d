//! `baton`: the service and its command-line tools in one binary.

extern crate baton_service as service;

#[cfg(feature = "mimalloc")]
mod allocator;
mod command;
mod config;
mod credentials;
mod descriptors;
mod dynamodb;
mod encryption;
mod memory;
mod notify;
mod serve;
mod settings;
mod shipping;
mod spans;
mod zoneinfo;

use std::pin::Pin;
use std::process::ExitCode;

fn main() -> ExitCode {
    let baton = command::Baton::read();
    // Commands other than the service need only one thread.
    let mut builder = if baton.is_service() {
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
    // The future is boxed without its type. Otherwise the compiler generates the code of all commands three times.
    let work: Pin<Box<dyn Future<Output = ExitCode>>> = Box::pin(baton.run());
    let code = runtime.block_on(work);
    // A blocked read of stdin or a socket must not keep the process alive.
    runtime.shutdown_background();
    code
}
