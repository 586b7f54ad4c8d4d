//! The access table: every call of every protocol with its level, derived from the routes and operations.

use super::Level;

/// Protocol of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// REST API.
    Rest,
    /// SWF protocol.
    Swf,
    /// Calls between nodes over one store.
    Nodes,
}

/// Effect of a call on stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// Changes nothing.
    Reads,
    /// Takes a task, or extends its lease. The history records who took it.
    Takes,
    /// Changes something. The audit log has an entry first.
    Changes,
    /// Relays a call between nodes.
    Relays,
}

impl CallEffect {
    /// Returns its word in the docs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Takes => "takes",
            Self::Changes => "changes",
            Self::Relays => "relays",
        }
    }
}

/// Call with its level and its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallAccess {
    /// Protocol.
    pub wire: Wire,
    /// Method; `POST` for SWF.
    pub method: &'static str,
    /// Path with parameters in braces; for SWF, the operation.
    pub name: &'static str,
    /// Level that it needs.
    pub level: Level,
    /// Effect on stored data.
    pub effect: CallEffect,
}
