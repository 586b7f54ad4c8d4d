//! `baton`: the service and the command-line tools in one program.

extern crate baton_service as service;

#[cfg(feature = "mimalloc")]
mod allocator;
mod command;
mod config;
mod credentials;
mod descriptors;
mod dynamodb;
mod encryption;
mod list_limits;
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
    // One thread suffices for all commands except the service.
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
            eprintln!("baton: cannot start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    // The future is boxed as a trait object. Otherwise the compiler would generate the code of all commands three
    // times.
    let work: Pin<Box<dyn Future<Output = ExitCode>>> = Box::pin(baton.run());
    let code = runtime.block_on(work);
    // Does not wait for blocking operations, such as a read of standard input, so that the process can exit.
    runtime.shutdown_background();
    code
}
