//! Bodies about the caller's identity and permissions, about credentials and about nodes. The console uses them.

use history::Timestamp;
use serde::{Deserialize, Serialize};

answers! {
    /// Permissions of a credential. Domains are named as in the configuration. The name `*` means all domains.
    CredentialLevels {
        /// Name of the credential; absent if callers are not authenticated.
        name: Option<String>,
        /// True if the credential may do everything.
        operator: bool,
        /// True if the credential may read the metrics.
        metrics: bool,
        /// Domains in which the credential may read everything.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        readers: Vec<String>,
        /// Domains in which the credential may read everything except payloads.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        readers_without_payloads: Vec<String>,
        /// Domains in which the credential may start, read, signal, query, update, cancel and terminate runs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        applications: Vec<String>,
        /// Domains that the credential may operate.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        operators: Vec<String>,
        /// Task lists, as `domain/list`, from which the credential may take and answer turns.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deciders: Vec<String>,
        /// Task lists, as `domain/list`, from which the credential may take and answer activities.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runners: Vec<String>,
    }
    /// Identity and permissions of the caller.
    SessionInfo {
        /// Permissions of the caller.
        permissions: CredentialLevels,
        /// Value of the `baton-csrf` header for requests that change something. Present only in a session.
        csrf_token: Option<String>,
        /// Latest time at which the session expires. Present only in a session.
        expires_at: Option<Timestamp>,
    }
    /// Credentials that are currently valid, without their secrets.
    CredentialList {
        /// Credentials, sorted by name. Does not include token issuers, or callers that authenticate with a token.
        credentials: Vec<CredentialLevels>,
    }
    /// A node that shares the store with other nodes.
    ListedNode {
        /// Address of the node.
        address: String,
        /// True for the node that responds to this request.
        responding: bool,
        /// Version of the node; absent if the node has not reported it.
        version: Option<String>,
        /// Number of shards of the due index that the node handles. The due index contains timers, timeouts and
        /// retries.
        due_shards: u32,
    }
    /// Nodes that share the store.
    NodeList {
        /// Live nodes, sorted by address, as known to the node that responds; empty if the store is not shared.
        nodes: Vec<ListedNode>,
        /// Total number of shards of the due index.
        due_shards: u32,
    }
}
