//! Bodies about the caller's identity and permissions, credentials and nodes, for the console.

use history::Timestamp;
use serde::{Deserialize, Serialize};

answers! {
    /// Permissions of a credential. Domains are named as in the configuration: `*` is all of them.
    CredentialLevels {
        /// Name of the credential; absent if callers are not authenticated.
        name: Option<String>,
        /// True if it may do everything.
        operator: bool,
        /// True if it may read the metrics.
        metrics: bool,
        /// Domains in which it may read everything.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        readers: Vec<String>,
        /// Domains in which it may read everything except payloads.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        readers_without_payloads: Vec<String>,
        /// Domains in which it may start, read, signal, query, update, cancel and terminate runs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        applications: Vec<String>,
        /// Domains that it may operate.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        operators: Vec<String>,
        /// Task lists, as `domain/list`, from which it may take and answer turns.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deciders: Vec<String>,
        /// Task lists, as `domain/list`, from which it may take and answer activities.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runners: Vec<String>,
    }
    /// Identity and permissions of the caller.
    SessionInfo {
        /// Permissions of the caller.
        permissions: CredentialLevels,
        /// Value of the `baton-csrf` header for requests that change something; only in a session.
        csrf_token: Option<String>,
        /// Latest time at which the session expires; only in a session.
        expires_at: Option<Timestamp>,
    }
    /// Credentials in force, without their secrets.
    CredentialList {
        /// Credentials by name, without token issuers and the callers that they vouch for.
        credentials: Vec<CredentialLevels>,
    }
    /// A node over a shared store.
    ListedNode {
        /// Address of the node.
        address: String,
        /// True for the node that responds.
        responding: bool,
        /// Version of the node; absent if the node has not reported it.
        version: Option<String>,
        /// Number of shards of the due index that the node handles. They contain timers, timeouts and retries.
        due_shards: u32,
    }
    /// Nodes over the store.
    NodeList {
        /// Live nodes by address, as known to the node that responds; empty if the store is not shared.
        nodes: Vec<ListedNode>,
        /// Total number of shards of the due index.
        due_shards: u32,
    }
}
