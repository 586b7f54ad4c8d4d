//! The audit log.

use history::{CallerName, Timestamp};
use serde::{Deserialize, Serialize};

answers! {
    /// A page of the audit log, oldest entries first.
    AuditEntries {
        /// Each as it stands in its file.
        entries: Vec<AuditEntry>,
        /// What to pass as `after` for the next page; absent on the last one.
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
        of: Option<u64>,
        /// The status of its answer; absent where whoever asked did not wait for it.
        status: Option<u16>,
        /// Why it was refused.
        code: Option<String>,
        /// Who made it: the name of a credential; absent where nobody is asked for one.
        by: Option<CallerName>,
        /// The address that it came from.
        peer: Option<String>,
        /// The call: method and route, or the operation over SWF's wire.
        call: Option<String>,
        /// Who the caller says he is.
        identity: Option<String>,
        /// The domain.
        domain: Option<String>,
        /// The workflow id.
        workflow_id: Option<String>,
        /// The run.
        run_id: Option<String>,
        /// The type of a workflow.
        workflow_type: Option<String>,
        /// The type of an activity.
        activity_type: Option<String>,
        /// The decider's name for an activity.
        activity_id: Option<String>,
        /// The task list.
        task_list: Option<String>,
        /// The schedule.
        schedule_id: Option<String>,
        /// The update.
        update_id: Option<String>,
        /// Over SWF's wire the signal.
        signal_name: Option<String>,
        /// What has no other member: a domain or type that is made, a signal, an update.
        name: Option<String>,
        /// The version of a type that is made.
        version: Option<String>,
        /// Over SWF's wire the domain that is tagged.
        resource_arn: Option<String>,
        /// Names the request, in the access log and in the answer, too.
        request_id: Option<String>,
        /// The hash of the entry before it.
        previous: String,
        /// SHA-256 of the bytes of this entry before `,"hash"`.
        hash: String,
    }
}
