//! The access table: all calls of all protocols with the level that each needs. It is generated from the routes and
//! operations.

use super::Level;

/// Protocol of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// REST API.
    Rest,
    /// SWF protocol.
    Swf,
    /// Calls between nodes over one store, which are not part of the API.
    Nodes,
}

/// Effect of a call on stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// Changes nothing.
    Reads,
    /// Takes a task, reports a heartbeat of one, or appends output. If an event results, it records the caller.
    Takes,
    /// Changes something. If there is an audit log, an entry is written first.
    Changes,
    /// Relays a call between nodes.
    Relays,
}

impl CallEffect {
    /// Returns the effect's name in the documentation.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Takes => "takes",
            Self::Changes => "changes",
            Self::Relays => "relays",
        }
    }
}

/// Call, with the level that it needs and its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallAccess {
    /// Protocol of the call.
    pub wire: Wire,
    /// Method; `POST` for SWF.
    pub method: &'static str,
    /// Path with parameters in braces; for SWF, the operation.
    pub name: &'static str,
    /// Level that the call needs.
    pub level: Level,
    /// Effect on stored data.
    pub effect: CallEffect,
}
