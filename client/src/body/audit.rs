//! Bodies of the audit log.

use history::{CallerName, Timestamp};
use serde::{Deserialize, Serialize};

answers! {
    /// A page of the audit log, oldest entries first.
    AuditEntries {
        /// Entries, exactly as in the log file.
        entries: Vec<AuditEntry>,
        /// Value of `after` for the next page; absent on the last page.
        next: Option<u64>,
        /// Number of the newest entry in the log.
        last: u64,
    }

    /// An entry of the audit log. An entry without `requestSeq` is a requested change. An entry with `requestSeq` is
    /// the outcome of such a request.
    AuditEntry {
        /// Number of the entry: 1, 2, 3, …
        seq: u64,
        /// Time when the entry was written.
        at: Timestamp,
        /// Number of the entry with the request. Present only in the entry of an outcome.
        request_seq: Option<u64>,
        /// HTTP status of the response; absent if the caller disconnected before the response.
        status: Option<u16>,
        /// Code of the problem if the request was refused.
        code: Option<String>,
        /// Name of the caller's credential; absent if callers are not authenticated.
        by: Option<CallerName>,
        /// Network address of the caller.
        peer: Option<String>,
        /// Method and route of the call, the operation of the SWF protocol, or `configuration` with the section that
        /// makes the change.
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
        /// Activity id, chosen by the decider.
        activity_id: Option<String>,
        /// Task list.
        task_list: Option<String>,
        /// Id of the schedule.
        schedule_id: Option<String>,
        /// Limit group.
        group: Option<String>,
        /// Id of the batch.
        batch_id: Option<String>,
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
        /// Id of the request. The access log and the response contain the same id.
        request_id: Option<String>,
        /// Hash of the preceding entry.
        previous: String,
        /// SHA-256 of this entry's bytes before `,"hash"`.
        hash: String,
    }
}
