//! Bodies of the audit log.

use history::{CallerName, Timestamp};
use serde::{Deserialize, Serialize};

answers! {
    /// A page of the audit log, oldest entries first.
    AuditEntries {
        /// Entries exactly as in their file.
        entries: Vec<AuditEntry>,
        /// Value of `after` for the next page; absent on the last one.
        next: Option<u64>,
        /// Number of the newest entry in the log.
        last: u64,
    }

    /// An entry of the audit log: a requested change, or with `requestSeq` its outcome.
    AuditEntry {
        /// Number of the entry: 1, 2, 3, …
        seq: u64,
        /// Time when the entry was written.
        at: Timestamp,
        /// Number of the entry with the request of this outcome.
        request_seq: Option<u64>,
        /// HTTP status of the response; absent if the caller did not wait for it.
        status: Option<u16>,
        /// Code of the problem if the request was refused.
        code: Option<String>,
        /// Name of the caller's credential; absent if callers are not authenticated.
        by: Option<CallerName>,
        /// Network address of the caller.
        peer: Option<String>,
        /// Method and route of the call, or the operation of the SWF protocol.
        call: Option<String>,
        /// Identity that the caller sent.
        identity: Option<String>,
        /// Domain.
        domain: Option<String>,
        /// Workflow id.
        workflow_id: Option<String>,
        /// Run id.
        run_id: Option<String>,
        /// Workflow type.
        workflow_type: Option<String>,
        /// Activity type.
        activity_type: Option<String>,
        /// Name of the activity, chosen by the decider.
        activity_id: Option<String>,
        /// Task list.
        task_list: Option<String>,
        /// Id of the schedule.
        schedule_id: Option<String>,
        /// Id of the update.
        update_id: Option<String>,
        /// Name of the signal in the SWF protocol.
        signal_name: Option<String>,
        /// Name of the domain, type, signal or update.
        name: Option<String>,
        /// Version of the registered type.
        version: Option<String>,
        /// ARN of the tagged domain in the SWF protocol.
        resource_arn: Option<String>,
        /// Id of the request; also in the access log and in the response.
        request_id: Option<String>,
        /// Hash of the preceding entry.
        previous: String,
        /// SHA-256 of this entry's bytes before `,"hash"`.
        hash: String,
    }
}
