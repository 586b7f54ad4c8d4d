//! Configuration of limits: the form that operators write, and the validated form.

use std::collections::HashMap;

use serde::Deserialize;

use crate::base::admission::throttled::{LimitKind, QuotaHolder};

/// Largest configurable number of requests per second. Our choice: far more than the service can answer.
pub const REQUESTS_PER_SECOND_MAX: u64 = 1_000_000;

/// Largest configurable burst of requests. Our choice: equal to [`REQUESTS_PER_SECOND_MAX`].
pub const BURST_MAX: u64 = 1_000_000;

/// Smallest configurable number of bytes per second. Our choice: with a lower limit, the sender of one body of the
/// maximum size would be throttled for minutes.
pub const BYTES_PER_SECOND_MIN: u64 = 64 * 1024;
const BYTES_PER_SECOND_MAX: u64 = 10 * 1024 * 1024 * 1024;

/// Largest configurable number of open runs. Our choice: more than any store was tested with.
pub const OPEN_RUNS_MAX: u64 = 1_000_000_000;

/// Largest configurable number of polled task lists. Source: equal to the maximum number of lists without pollers that
/// are kept in memory.
pub const TASK_LISTS_MAX: u64 = 10_000;

/// Largest configurable number of waiting requests. Our choice: more than the maximum number of connections.
pub const WATCHERS_MAX: u64 = 1_000_000;

/// Configured name that stands for all domains, or all credentials, that have no entry.
const EACH: &str = "*";

/// Limits of a domain or a credential, in the form that operators write. An absent field means no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Limit {
    /// Name of the domain. `*` stands for every domain that has no entry, and limits each of them separately.
    pub domain: Option<String>,
    /// Name of the credential. `*` stands for every credential that has no entry, and limits each of them separately.
    pub credential: Option<String>,
    /// Maximum number of requests per second, 1 to 1,000,000.
    pub requests_per_second: Option<u64>,
    /// Maximum number of requests that may arrive together after idle time, 1 to 1,000,000. Defaults to the number of
    /// requests per second.
    pub burst: Option<u64>,
    /// Maximum number of bytes of request and response bodies per second, at least 65,536.
    pub bytes_per_second: Option<u64>,
    /// Maximum number of open runs, 1 to 1,000,000,000. Permitted only for a domain.
    pub open_runs: Option<u64>,
    /// Maximum number of task lists that are polled at the same time, 1 to 10,000. Permitted only for a domain.
    pub task_lists: Option<u64>,
    /// Maximum number of requests that wait at the same time, 1 to 1,000,000.
    pub watchers: Option<u64>,
}

/// Limits of one entry.
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

/// All limits of a configuration, validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    entries: HashMap<QuotaHolder, Amounts>,
    each_domain: Option<Amounts>,
    each_credential: Option<Amounts>,
}

impl QuotaLimits {
    /// Returns the names of the domains that have their own entries.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().filter_map(|whose| match whose {
            QuotaHolder::Domain(name) => Some(&**name),
            QuotaHolder::Credential(_) => None,
        })
    }

    /// Validates configured limits.
    ///
    /// # Errors
    ///
    /// * An entry that names both a domain and a credential, or none of them.
    /// * An entry without limits.
    /// * A number out of its range.
    /// * A limit that only domains can have, in the entry of a credential.
    /// * Two entries with the same name.
    pub fn read(limits: Vec<Limit>) -> Result<Self, String> {
        let mut read = Self::default();
        let is_each = |name: &Option<String>| name.as_deref() == Some(EACH);
        let has_each = limits.iter().any(|limit| is_each(&limit.domain) || is_each(&limit.credential));
        for limit in limits {
            let (whose, amounts) = read_one(limit)?;
            let name = whose.name();
            if amounts == Amounts::default() && (!has_each || &*name == EACH) {
                let known = "requests-per-second, bytes-per-second, open-runs, task-lists, watchers";
                return Err(format!("the limits of {whose} are empty; give at least one of: {known}"));
            }
            let is_second = if &*name != EACH {
                read.entries.insert(whose.clone(), amounts).is_some()
            } else if matches!(whose, QuotaHolder::Domain(_)) {
                read.each_domain.replace(amounts).is_some()
            } else {
                read.each_credential.replace(amounts).is_some()
            };
            if is_second {
                return Err(format!("there are two [[limits]] of {whose}; merge them"));
            }
        }
        Ok(read)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.each_domain.is_none() && self.each_credential.is_none()
    }

    /// Returns the limits of a domain or credential. If it has no entry, returns the limits of `*`.
    pub(super) fn of(&self, whose: &QuotaHolder) -> Option<Amounts> {
        let each = match whose {
            QuotaHolder::Domain(_) => self.each_domain,
            QuotaHolder::Credential(_) => self.each_credential,
        };
        self.entries.get(whose).copied().or(each)
    }
}

fn read_one(limit: Limit) -> Result<(QuotaHolder, Amounts), String> {
    let Limit { domain, credential, requests_per_second, burst, bytes_per_second, open_runs, task_lists, watchers } =
        limit;
    let whose = match (domain.as_deref(), credential.as_deref()) {
        (Some(""), None) | (None, Some("")) => {
            return Err("[[limits]] has an empty name; use `*` for each domain or each credential".to_owned());
        }
        (Some(domain), None) => QuotaHolder::domain(domain),
        (None, Some(credential)) => QuotaHolder::credential(credential),
        (None, None) => return Err("[[limits]] must name a `domain` or a `credential`".to_owned()),
        (Some(_), Some(_)) => {
            return Err("[[limits]] names a domain and a credential; write two entries".to_owned());
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
    let is_credential = matches!(whose, QuotaHolder::Credential(_));
    if let Some(name) = [("open-runs", open_runs), ("task-lists", task_lists)]
        .iter()
        .find_map(|(name, value)| value.filter(|_| is_credential).map(|_| name))
    {
        return Err(format!("the limits of {whose}: `{name}` is only for domains"));
    }
    if burst.is_some() && requests_per_second.is_none() {
        return Err(format!("the limits of {whose}: `burst` requires `requests-per-second`"));
    }
    Ok((whose, Amounts { requests_per_second, burst, bytes_per_second, open_runs, task_lists, watchers }))
}
