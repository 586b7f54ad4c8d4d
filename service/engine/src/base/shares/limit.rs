//! What is configured: limits as an operator writes them down, and what is read of them.

use std::collections::HashMap;

use serde::Deserialize;

use super::{LimitKind, Whose};

/// The highest rate of requests. Ours: far more than a service answers.
pub const REQUESTS_PER_SECOND_MAX: u64 = 1_000_000;

/// The most requests at once. Ours, likewise.
pub const BURST_MAX: u64 = 1_000_000;

/// The lowest and the highest rate of bytes. Ours: below it one of the largest bodies would put its sender off for minutes.
pub const BYTES_PER_SECOND_MIN: u64 = 64 * 1024;
const BYTES_PER_SECOND_MAX: u64 = 10 * 1024 * 1024 * 1024;

/// The highest bound of open runs. Ours: more than any store was tried with.
pub const OPEN_RUNS_MAX: u64 = 1_000_000_000;

/// The highest bound of task lists. Source: so many are kept in memory beside those that are polled.
pub const TASK_LISTS_MAX: u64 = 10_000;

/// The highest bound of requests that wait. Ours: more than there can be connections.
pub const WATCHERS_MAX: u64 = 1_000_000;

/// Stands for each domain, or each credential, that no other entry names.
const EACH: &str = "*";

/// Limits of a domain or a credential, as an operator writes them down. What is absent is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Limit {
    /// The domain; `*` is each that no other entry names.
    pub domain: Option<String>,
    /// The name of the credential; `*` is each that no other entry names.
    pub credential: Option<String>,
    /// Requests a second, 1 to 1,000,000.
    pub requests_per_second: Option<u64>,
    /// Requests that may come at once after a rest, 1 to 1,000,000; as many as there may be in a second when absent.
    pub burst: Option<u64>,
    /// Bytes of bodies a second, in and out, from 65,536 on.
    pub bytes_per_second: Option<u64>,
    /// Runs that are open at once, 1 to 1,000,000,000. Of a domain.
    pub open_runs: Option<u64>,
    /// Task lists that are polled at once, 1 to 10,000. Of a domain.
    pub task_lists: Option<u64>,
    /// Requests that wait at once, 1 to 1,000,000.
    pub watchers: Option<u64>,
}

/// The numbers of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) requests_per_second: Option<u64>,
    pub(super) burst: Option<u64>,
    pub(super) bytes_per_second: Option<u64>,
    pub(super) open_runs: Option<u64>,
    pub(super) task_lists: Option<u64>,
    pub(super) watchers: Option<u64>,
}

impl Amounts {
    pub(super) fn of(&self, kind: LimitKind) -> Option<u64> {
        match kind {
            LimitKind::Requests => self.requests_per_second,
            LimitKind::Bytes => self.bytes_per_second,
            LimitKind::OpenRuns => self.open_runs,
            LimitKind::TaskLists => self.task_lists,
            LimitKind::Watchers => self.watchers,
        }
    }
}

/// All limits that were read together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareLimits {
    entries: HashMap<Whose, Amounts>,
    each_domain: Option<Amounts>,
    each_credential: Option<Amounts>,
}

impl ShareLimits {
    /// The domains that have limits by name.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().filter_map(|whose| match whose {
            Whose::Domain(name) => Some(&**name),
            Whose::Credential(_) => None,
        })
    }

    /// Takes limits as they were written down.
    ///
    /// # Errors
    ///
    /// For an entry of nobody or of two, one that limits nothing, a number out of its range, a limit that only domains have,
    /// and two entries of the same.
    pub fn read(limits: Vec<Limit>) -> Result<Self, String> {
        let mut read = Self::default();
        let is_each = |name: &Option<String>| name.as_deref() == Some(EACH);
        let has_each = limits.iter().any(|limit| is_each(&limit.domain) || is_each(&limit.credential));
        for limit in limits {
            let (whose, amounts) = read_one(limit)?;
            let name = whose.name();
            if amounts == Amounts::default() && (!has_each || &*name == EACH) {
                let known = "requests-per-second, bytes-per-second, open-runs, task-lists, watchers";
                return Err(format!("the limits of {whose} limit nothing; give one of: {known}"));
            }
            let is_second = if &*name != EACH {
                read.entries.insert(whose.clone(), amounts).is_some()
            } else if matches!(whose, Whose::Domain(_)) {
                read.each_domain.replace(amounts).is_some()
            } else {
                read.each_credential.replace(amounts).is_some()
            };
            if is_second {
                return Err(format!("there are two [[limits]] of {whose}; write them as one"));
            }
        }
        Ok(read)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.each_domain.is_none() && self.each_credential.is_none()
    }

    /// What limits somebody. An entry of their own stands in the place of the one for each.
    pub(super) fn of(&self, whose: &Whose) -> Option<Amounts> {
        let each = match whose {
            Whose::Domain(_) => self.each_domain,
            Whose::Credential(_) => self.each_credential,
        };
        self.entries.get(whose).copied().or(each)
    }
}

fn read_one(limit: Limit) -> Result<(Whose, Amounts), String> {
    let Limit { domain, credential, requests_per_second, burst, bytes_per_second, open_runs, task_lists, watchers } =
        limit;
    let whose = match (domain.as_deref(), credential.as_deref()) {
        (Some(""), None) | (None, Some("")) => {
            return Err("[[limits]] of an empty name; `*` is each domain, or each credential".to_owned());
        }
        (Some(domain), None) => Whose::domain(domain),
        (None, Some(credential)) => Whose::credential(credential),
        (None, None) => return Err("[[limits]] must say whose they are: domain or credential".to_owned()),
        (Some(_), Some(_)) => {
            return Err("[[limits]] are of a domain or of a credential; write two of them".to_owned());
        }
    };
    let ranges = [
        ("requests-per-second", requests_per_second, 1, REQUESTS_PER_SECOND_MAX),
        ("burst", burst, 1, BURST_MAX),
        ("bytes-per-second", bytes_per_second, BYTES_PER_SECOND_MIN, BYTES_PER_SECOND_MAX),
        ("open-runs", open_runs, 1, OPEN_RUNS_MAX),
        ("task-lists", task_lists, 1, TASK_LISTS_MAX),
        ("watchers", watchers, 1, WATCHERS_MAX),
    ];
    for (name, value, min, max) in ranges {
        if let Some(value) = value.filter(|value| !(min..=max).contains(value)) {
            return Err(format!("the limits of {whose}: `{name}` is {value}, expected {min} to {max}"));
        }
    }
    let is_credential = matches!(whose, Whose::Credential(_));
    if let Some(name) = [("open-runs", open_runs), ("task-lists", task_lists)]
        .iter()
        .find_map(|(name, value)| value.filter(|_| is_credential).map(|_| name))
    {
        return Err(format!("the limits of {whose}: `{name}` is for domains alone"));
    }
    if burst.is_some() && requests_per_second.is_none() {
        return Err(format!("the limits of {whose}: `burst` means nothing without `requests-per-second`"));
    }
    Ok((whose, Amounts { requests_per_second, burst, bytes_per_second, open_runs, task_lists, watchers }))
}
