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

/// What a call does to what is kept here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// Nothing.
    Reads,
    /// Takes a task, or says that one is still being worked on. The history names who took it.
    Takes,
    /// Changes something: the audit log has an entry before it does.
    Changes,
    /// Passes on, between nodes, what a call to one of them is doing.
    Relays,
}

impl CallEffect {
    /// Its word in the docs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Takes => "takes",
            Self::Changes => "changes",
            Self::Relays => "relays",
        }
    }
}

/// A call, what it needs and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallAccess {
    /// How it is made.
    pub wire: Wire,
    /// The method; `POST` over SWF's wire.
    pub method: &'static str,
    /// The path, with what varies in braces; over SWF's wire the operation.
    pub name: &'static str,
    /// What it needs.
    pub level: Level,
    /// What it does.
    pub effect: CallEffect,
}
