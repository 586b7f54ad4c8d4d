//! Notices: log lines for operators about runs, task lists, deliveries and the clock. Only this module writes them. It
//! limits their rate ([`rate_limit`]), so that an error that affects ten thousand runs does not fill the log. Other
//! modules report events to this module, which does not depend on runs or lists.

mod kinds;
mod rate_limit;

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use history::Timestamp;
use tokio::time::Instant;
use uuid::Uuid;

pub(crate) use kinds::{NoticeKind, NoticeList};
use rate_limit::{LineAllowed, Overdue, RateLimit};

/// Interval at which suppressed events are reported. Our choice: a small fraction of [`SPAN`].
pub(crate) const NOTICES_EVERY: Duration = Duration::from_secs(10);

/// Maximum number of characters of text from callers, such as a reason, in one log line. Our choice: enough to
/// recognize the text, while the line still fits a screen.
const TEXT_CHARS_MAX: usize = 200;

/// A run that has become failing, blocked or stuck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunNotice {
    pub(crate) kind: NoticeKind,
    pub(crate) workflow_id: String,
    pub(crate) run_id: Uuid,
    /// Cause, as a clause of an English sentence.
    pub(crate) why: String,
    /// Advice, as a sentence. The log line also contains the command that shows more information.
    pub(crate) advice: Option<String>,
}

/// Formats text from callers for one log line: escapes control characters and line separators, and truncates the text
/// to [`TEXT_CHARS_MAX`].
pub(crate) fn in_log(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(4 * TEXT_CHARS_MAX));
    let mut chars = text.chars();
    for c in chars.by_ref().take(TEXT_CHARS_MAX) {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// Formats an argument of a command line, with quotes if a shell requires them.
pub(crate) fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // `in_log` truncates a very long argument. In that case, the operator must complete the command.
    format!("'{}'", in_log(word).replace('\'', r"'\''"))
}

/// Writer of notices.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<RateLimit>);

impl Notices {
    fn lock(&self) -> MutexGuard<'_, RateLimit> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    fn admit(&self, kind: NoticeKind, list: Option<&NoticeList>, count: u64) -> Option<LineAllowed> {
        self.lock().admit(kind, list, count, Instant::now())
    }

    /// Reports that a run has become failing, blocked or stuck.
    pub(crate) fn of_run(&self, domain: &str, notice: &RunNotice) {
        let RunNotice { kind, workflow_id, run_id, why, advice } = notice;
        let Some(LineAllowed { left_out, .. }) = self.admit(*kind, None, 1) else { return };
        let what = match kind {
            NoticeKind::Failing => "failing",
            NoticeKind::Blocked => "blocked",
            _ => "stuck",
        };
        let advice = advice.as_ref().map(|advice| format!("{advice} ")).unwrap_or_default();
        let (of, id) = (in_shell(domain), in_shell(workflow_id));
        let left_out = (left_out > 0).then_some(left_out);
        tracing::warn!(
            domain, workflow_id, %run_id, suppressed = left_out,
            "a run is {what}: {why}. {advice}`baton workflow show {id} --domain {of}` shows more"
        );
    }

    /// Reports that tasks wait on a list without pollers. `since` is the time when the list's last poll ended.
    pub(crate) fn unpolled(&self, list: &NoticeList, tasks: usize, since: Timestamp) {
        let Some(LineAllowed { left_out, .. }) = self.admit(NoticeKind::Unpolled, Some(list), 1) else { return };
        let NoticeList { domain, side, name } = list;
        let who = if *side == "decider" { "decider" } else { "runner" };
        let (of, shown) = (in_shell(domain), in_shell(name));
        let left_out = (left_out > 0).then_some(left_out);
        tracing::warn!(
            domain = &**domain, task_list = &**name, kind = *side, tasks, %since, suppressed = left_out,
            "tasks wait on a list without a poller. Start a {who} for it; `baton workflow list --status open --domain \
             {of}` shows the runs, `baton doctor --domain {of}` whether {shown} is polled"
        );
    }

    /// Reports that a list is polled again, after [`unpolled`](Self::unpolled) was called for it.
    pub(crate) fn polled_again(&self, list: &NoticeList) {
        let Some(LineAllowed { left_out, .. }) = self.admit(NoticeKind::PolledAgain, Some(list), 1) else { return };
        let NoticeList { domain, side, name } = list;
        let left_out = (left_out > 0).then_some(left_out);
        tracing::info!(
            domain = &**domain,
            task_list = &**name,
            kind = *side,
            suppressed = left_out,
            "a list that had no poller is polled again"
        );
    }

    /// Reports that a task did not reach the poller that it was handed to.
    pub(crate) fn delivery_failed(&self, list: &NoticeList) {
        let Some(admitted) = self.admit(NoticeKind::DeliveryFailed, Some(list), 1) else { return };
        failed_deliveries(list, admitted.count, admitted.left_out);
    }

    /// Reports that the clock is doubted: it shows `found`, which is far ahead of the newest known time.
    pub(crate) fn clock_doubted(&self, newest: Timestamp, found: Timestamp) {
        if self.admit(NoticeKind::ClockSuspect, None, 0).is_some() {
            tracing::warn!(
                %newest, %found,
                "the clock is more than a day ahead of the newest time seen; retention deletes nothing until it is \
                 back or has run steadily for a day. If it is right, run `baton clock confirm`"
            );
        }
    }

    /// Writes a log line for suppressed events, if the rate limit now permits it.
    pub(crate) fn report_left_out(&self) {
        let overdue = self.lock().take_overdue(Instant::now());
        for Overdue { kind, list, count } in overdue {
            match (kind, list) {
                (NoticeKind::DeliveryFailed, Some(list)) => failed_deliveries(&list, count, 0),
                (NoticeKind::DeliveryFailed, None) => {
                    tracing::warn!(count, "further tasks did not reach their pollers, on lists that were not logged");
                }
                (NoticeKind::Failing, _) => of_more_runs("failing", count),
                (NoticeKind::Blocked, _) => of_more_runs("blocked", count),
                (NoticeKind::Stuck, _) => of_more_runs("stuck", count),
                (NoticeKind::Unpolled, _) => tracing::warn!(count, "further lists with tasks have no poller"),
                (NoticeKind::PolledAgain, _) => tracing::info!(count, "further lists are polled again"),
                (NoticeKind::ClockSuspect, _) => {}
            }
        }
    }
}

fn failed_deliveries(list: &NoticeList, count: u64, left_out: u64) {
    let NoticeList { domain, side, name } = list;
    let left_out = (left_out > 0).then_some(left_out);
    tracing::warn!(
        domain = &**domain,
        task_list = &**name,
        kind = *side,
        count,
        suppressed = left_out,
        "tasks did not reach their poller (cause DeliveryFailed): its connection was closed. Check for pollers that \
         end their requests early, and for proxies whose timeout is below the wait of a poll"
    );
}

fn of_more_runs(what: &str, count: u64) {
    tracing::warn!(count, "further runs have become {what}; `baton workflow list --status {what}` shows them");
}

#[cfg(test)]
mod tests;
