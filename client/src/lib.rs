//! A client of Baton's REST API: the [bodies](body) of requests and responses, and a [`Client`] that sends them.
//!
//! The service uses the same bodies. While the service is unavailable, the client retries calls that are safe to
//! repeat. For every other failed call, the error says whether the call may have been recorded.

pub mod body;
mod error;
pub mod exchange;
mod http;
pub mod limits;
pub mod polls;
mod queries;
mod retry;
pub mod shutdown;
pub mod tasks;
mod tls;
pub mod trace;
mod unpolled;
mod updates;

pub use error::Error;
pub use history::TraceContext;
pub use http::{
    Access, ActivityOperation, Client, Filter, Order, OutputPosition, Page, RegisteredKind, TaskListKind, TypeDefaults,
};
pub use queries::{QueryResponse, Tag, Watch, Watched};
pub use retry::{Patience, Waits};
pub use tls::{ClientCertificate, TlsProblem};
pub use updates::UpdateResponse;
