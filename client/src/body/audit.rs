//! The audit log.

use history::{CallerName, Timestamp};
use serde::{Deserialize, Serialize};

answers! {
    /// A page of the audit log, oldest entries first.
    AuditEntries {
        /// Each as it stands in its file.
        entries: Vec<AuditEntry>,
        /// What to pass as `after` for the next page; absent on the last one.
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
        /// The number of the newest entry of all.
        last: u64,
    }

    /// An entry: a change that somebody was about to make, or with `of` how one went.
    AuditEntry {
        /// Its number: 1, 2, 3, ...
        seq: u64,
        /// When it was written.
        at: Timestamp,
        /// How a change went: the number of the entry that announced it.
        #[serde(skip_serializing_if = "Option::is_none")]
        of: Option<u64>,
        /// The status of its answer; absent where whoever asked did not wait for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Why it was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
        /// Who made it: the name of a credential; absent where nobody is asked for one.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<CallerName>,
        /// The address that it came from.
        #[serde(skip_serializing_if = "Option::is_none")]
        peer: Option<String>,
        /// The call: method and route, or the operation over SWF's wire.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// Who the caller says he is.
        #[serde(skip_serializing_if = "Option::is_none")]
        identity: Option<String>,
        /// The domain.
        #[serde(skip_serializing_if = "Option::is_none")]
        domain: Option<String>,
        /// The workflow id.
        #[serde(skip_serializing_if = "Option::is_none")]
        workflow_id: Option<String>,
        /// The run.
        #[serde(skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
        /// The type of a workflow.
        #[serde(skip_serializing_if = "Option::is_none")]
        workflow_type: Option<String>,
        /// The type of an activity.
        #[serde(skip_serializing_if = "Option::is_none")]
        activity_type: Option<String>,
        /// The decider's name for an activity.
        #[serde(skip_serializing_if = "Option::is_none")]
        activity_id: Option<String>,
        /// The task list.
        #[serde(skip_serializing_if = "Option::is_none")]
        task_list: Option<String>,
        /// The schedule.
        #[serde(skip_serializing_if = "Option::is_none")]
        schedule_id: Option<String>,
        /// The update.
        #[serde(skip_serializing_if = "Option::is_none")]
        update_id: Option<String>,
        /// Over SWF's wire the signal.
        #[serde(skip_serializing_if = "Option::is_none")]
        signal_name: Option<String>,
        /// What has no other member: a domain or type that is made, a signal, an update.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The version of a type that is made.
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Over SWF's wire the domain that is tagged.
        #[serde(skip_serializing_if = "Option::is_none")]
        resource_arn: Option<String>,
        /// Names the request, in the access log and in the answer, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// The hash of the entry before it.
        previous: String,
        /// SHA-256 of the bytes of this entry before `,"hash"`.
        hash: String,
    }
}
