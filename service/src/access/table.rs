//! The table: every call of every wire, with the level that it needs. Made of the routes and the operations themselves.

use super::Level;

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// The REST API.
    Rest,
    /// SWF's wire.
    Swf,
    /// What nodes over one store say to each other.
    Nodes,
}

/// A call, and what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// How it is made.
    pub wire: Wire,
    /// The method; `POST` over SWF's wire.
    pub method: &'static str,
    /// The path, with what varies in braces; over SWF's wire the operation.
    pub name: &'static str,
    /// What it needs.
    pub level: Level,
}

/// Every call.
pub fn table() -> Vec<Call> {
    let rest = crate::http::rows(Wire::Rest).into_iter();
    rest.chain(crate::swf::rows()).chain(crate::http::rows(Wire::Nodes)).collect()
}
