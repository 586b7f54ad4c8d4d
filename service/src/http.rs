//! Common parts of every HTTP endpoint: connections, authentication, admission, bodies, refusals, and request logs.
//!
//! `ARCHITECTURE.md` lists the path of a request through these modules, in order.

mod accept;
mod admission;
mod answer;
mod asset;
mod audit;
mod auth;
mod body;
mod body_filter;
mod call;
mod connection;
mod console;
mod delivery;
mod docs;
mod drain;
mod guard;
mod handshake;
mod in_flight;
mod measure;
mod middleware;
mod paths;
mod problem;
mod record;
mod routes;
mod segment;
mod server;
mod session;
mod socket;
mod trace;
mod unfinished;
mod write_timeout;

pub use audit::with_audit_log;
pub use console::Console;
pub use guard::Hosts;
pub use record::with_request_log;
pub use server::{Server, ServerLimits, listen};

pub(crate) use accept::names as names_accepted;
pub(crate) use admission::{Admission, Interrupted};
pub(crate) use answer::{Answer, AppState, bytes_of_json, json};
pub(crate) use audit::{AuditEach, Audited, Route, of_token};
pub(crate) use auth::{Gate, GateLayer, NODE_SCHEME};
pub(crate) use body::{
    BODY_BYTES_MAX, IMPORT_BYTES_MAX, Json, POLL_BYTES_MAX, TURN_BYTES_MAX, must_not_be_encoded, parsed,
    read as read_body,
};
pub(crate) use console::{ROOT as CONSOLE_ROOT, routes as console_routes};
pub(crate) use delivery::{task as task_response, tasks as task_stream};
pub(crate) use docs::routes as docs_routes;
pub(crate) use guard::check as check_host;
pub(crate) use in_flight::hold as hold_answer;
pub(crate) use measure::{SwfOperation, measure};
pub(crate) use middleware::MiddlewareLayer;
pub(crate) use paths::{Paths, other_segments};
pub(crate) use problem::Refused;
pub(crate) use record::{Code, RequestId, RequestNotes};
pub(crate) use routes::{Routes, with_options};
pub(crate) use segment::named;
pub(crate) use session::SignIn;
pub(crate) use socket::PeerPresence;
pub(crate) use trace::trace_of;
pub use write_timeout::MayAnswer;
