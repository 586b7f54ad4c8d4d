//! Who asks, what they may do, and who else may: for the console.

use history::Timestamp;
use serde::{Deserialize, Serialize};

answers! {
    /// What a credential may do. Domains are named as in the configuration: `*` is all of them.
    CredentialLevels {
        /// Its name; absent where nobody is asked for a credential.
        name: Option<String>,
        /// May do everything.
        operator: bool,
        /// May read the metrics.
        metrics: bool,
        /// Domains in which it may read everything.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        readers: Vec<String>,
        /// Domains in which it may read everything but payloads.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        readers_without_payloads: Vec<String>,
        /// Domains in which it may start, read, signal, query, update, cancel and terminate.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        applications: Vec<String>,
        /// Domains that it may operate.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        operators: Vec<String>,
        /// Task lists, as `domain/list`, where it may take and answer turns.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deciders: Vec<String>,
        /// Task lists where it may take and answer activities.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runners: Vec<String>,
    }
    /// Who asks.
    SessionInfo {
        /// What they may do.
        may: CredentialLevels,
        /// Of a session: what to send as `baton-csrf` with whatever changes something.
        csrf_token: Option<String>,
        /// Of a session: it is good until then at the latest.
        expires_at: Option<Timestamp>,
    }
    /// The credentials in force, without what they are known by.
    CredentialList {
        /// By name. Issuers of tokens and their callers are not among them.
        credentials: Vec<CredentialLevels>,
    }
    /// A node over a store that several share.
    ListedNode {
        /// Its address.
        address: String,
        /// Whether it is the one that answers.
        answers: bool,
        /// Its version; absent where it has not said it.
        version: Option<String>,
        /// How many shards of what falls due it looks after: timers, timeouts and what is to be done again of their runs.
        due_shards: u32,
    }
    /// The nodes over the store.
    NodeList {
        /// Those that are alive, as far as the one knows that answers, by address; none where the store is not shared.
        nodes: Vec<ListedNode>,
        /// How many shards there are of what falls due; the nodes share them.
        due_shards: u32,
    }
}
