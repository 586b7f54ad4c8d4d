//! Limits of task lists in the configuration file: the sections that operators write, their validation, and storing
//! them in the service.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::body::{SetKeyLimits, SetStartRate};
use client::limits::{key_limits, starts_per_second};
use engine::list_settings::{DomainLists, KeySettings, ListSettings, ListSide, StartRate, TaskLimits};
use engine::{Refusal, TaskLists};
use history::{Factor, Fault};
use serde::{Deserialize, Deserializer};
use service::audit::{Announced, AuditLog, Change, Names};

/// Side of a task list, as operators write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// List of runners.
    Activities,
    /// List of deciders.
    Deciders,
}

/// Rate of starts, as operators write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RateText(Factor);

impl<'de> Deserialize<'de> for RateText {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
        let text = String::deserialize(file)?;
        starts_per_second(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Limits of a key, as operators write them. The key is empty.
#[derive(Debug, Clone, PartialEq)]
struct KeyText(SetKeyLimits);

impl<'de> Deserialize<'de> for KeyText {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
        let text = String::deserialize(file)?;
        key_limits("", &text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Section with the limits of a task list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct TaskListSection {
    domain: String,
    name: String,
    kind: Kind,
    max_running: Option<u32>,
    rate: Option<RateText>,
    burst: Option<u32>,
    per_key_max_running: Option<u32>,
    per_key_rate: Option<RateText>,
    per_key_burst: Option<u32>,
    #[serde(default)]
    keys: BTreeMap<String, KeyText>,
    group: Option<String>,
}

/// Section with the limits of a limit group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct LimitGroupSection {
    domain: String,
    name: String,
    max_running: Option<u32>,
    rate: Option<RateText>,
    burst: Option<u32>,
}

/// Returns the key in the file for a field of the settings.
fn key_in_file(field: &str) -> String {
    match field {
        "maxRunning" => "max-running".to_owned(),
        "rate.perSecond" => "rate".to_owned(),
        "rate.burst" => "burst".to_owned(),
        "perKey.maxRunning" => "per-key-max-running".to_owned(),
        "perKey.rate.perSecond" => "per-key-rate".to_owned(),
        "perKey.rate.burst" => "per-key-burst".to_owned(),
        "limits" => "keys".to_owned(),
        field => {
            // A field of a key, such as `limits[visa].maxRunning`.
            let of_key = field.strip_prefix("limits[").and_then(|rest| rest.rsplit_once(']'));
            of_key.map_or_else(|| field.to_owned(), |(key, _)| format!("keys.{key}"))
        }
    }
}

/// Describes an invalid setting with its key in the file.
fn in_file(fault: Fault) -> String {
    let fault = match fault {
        Fault::Invalid { field, problem } => Fault::Invalid { field: key_in_file(&field), problem },
        Fault::TooLarge { field, found, max, unit } => Fault::TooLarge { field: key_in_file(&field), found, max, unit },
        fault => fault,
    };
    fault.to_string()
}

/// Returns the limits that these keys of a section set. The prefix is the beginning of their names.
fn limits(
    prefix: &str,
    max_running: Option<u32>,
    rate: Option<RateText>,
    burst: Option<u32>,
) -> Result<TaskLimits, String> {
    if burst.is_some() && rate.is_none() {
        return Err(format!("`{prefix}burst` requires `{prefix}rate`"));
    }
    Ok(TaskLimits { max_running, rate: rate.map(|RateText(per_second)| StartRate::new(per_second, burst)) })
}

impl TaskListSection {
    /// Returns the name of the section in error texts.
    fn title(&self) -> String {
        let Self { domain, name, kind, .. } = self;
        let kind = match kind {
            Kind::Activities => "activities",
            Kind::Deciders => "deciders",
        };
        format!("[[task-lists]] for `{name}` ({kind}) in domain `{domain}`")
    }

    fn settings(&self) -> Result<ListSettings, String> {
        let key = |(key, KeyText(own)): (&String, &KeyText)| {
            let rate = own.rate.as_ref().map(|SetStartRate { per_second, burst }| StartRate::new(*per_second, *burst));
            let limits = TaskLimits { max_running: own.max_running, rate };
            (key.clone(), KeySettings { limits, weight: own.weight })
        };
        let settings = ListSettings {
            limits: limits("", self.max_running, self.rate, self.burst)?,
            per_key: limits("per-key-", self.per_key_max_running, self.per_key_rate, self.per_key_burst)?,
            keys: self.keys.iter().map(key).collect(),
            group: self.group.clone(),
            paused: None,
        };
        history::admit::check_name("domain", &self.domain).map_err(in_file)?;
        history::admit::check_name("name", &self.name).map_err(in_file)?;
        settings.validate().map_err(in_file)?;
        Ok(settings)
    }
}

impl LimitGroupSection {
    /// Returns the name of the section in error texts.
    fn title(&self) -> String {
        format!("[[limit-groups]] for `{}` in domain `{}`", self.name, self.domain)
    }

    fn limits(&self) -> Result<TaskLimits, String> {
        let limits = limits("", self.max_running, self.rate, self.burst)?;
        if limits.is_empty() {
            return Err("expected `max-running`, `rate` or both".to_owned());
        }
        history::admit::check_name("domain", &self.domain).map_err(in_file)?;
        history::admit::check_name("name", &self.name).map_err(in_file)?;
        limits.validate_group().map_err(in_file)?;
        Ok(limits)
    }
}

/// Limits of task lists in a configuration file, validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListLimits(BTreeMap<String, DomainLists>);

impl ListLimits {
    /// Validates the sections of a file.
    pub(crate) fn read(lists: &[TaskListSection], groups: &[LimitGroupSection]) -> Result<Self, String> {
        let mut read = BTreeMap::<String, DomainLists>::new();
        for section in groups {
            let title = section.title();
            let limits = section.limits().map_err(|error| format!("{title}: {error}"))?;
            let of_domain = read.entry(section.domain.clone()).or_default();
            if of_domain.groups.insert(section.name.clone(), limits).is_some() {
                return Err(format!("there are two {title}; merge them"));
            }
        }
        for section in lists {
            let title = section.title();
            let settings = section.settings().map_err(|error| format!("{title}: {error}"))?;
            let of_domain = read.entry(section.domain.clone()).or_default();
            if let Some(group) = settings.group.as_ref().filter(|group| !of_domain.groups.contains_key(*group)) {
                return Err(format!(
                    "{title}: the group `{group}` is not in the file; add [[limit-groups]] for it, or correct `group`"
                ));
            }
            let side = ListSide { name: section.name.clone(), is_decider: section.kind == Kind::Deciders };
            if of_domain.lists.insert(side, settings).is_some() {
                return Err(format!("there are two {title}; merge them"));
            }
        }
        for (domain, of_domain) in &read {
            of_domain.check_counts().map_err(|refusal| too_many(domain, &refusal))?;
        }
        Ok(Self(read))
    }

    /// Returns the domains that the sections name.
    pub(crate) fn domains(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Validates the limits together with those that are already stored, before any of them is stored. Errors of the
    /// store are ignored here, because the file is not their cause.
    pub(crate) async fn check(&self, lists: &TaskLists) -> Result<(), String> {
        for (domain, limits) in &self.0 {
            if let Err(refusal @ Refusal::LimitExceeded { .. }) = lists.differing(domain, limits).await {
                return Err(too_many(domain, &refusal));
            }
        }
        Ok(())
    }

    /// Lets the service use these limits from now on. They are stored by [`store()`].
    pub(crate) fn configure(&self, lists: &TaskLists) {
        lists.configure(self.0.clone());
    }

    /// Describes the lists and groups of these sections that are not in the sections of `now`, each with the command
    /// that removes its limits.
    pub(crate) fn removed(&self, now: &Self) -> Vec<String> {
        let nothing = DomainLists::default();
        let mut removed = Vec::new();
        for (domain, before) in &self.0 {
            let now = now.0.get(domain).unwrap_or(&nothing);
            for side in before.lists.keys().filter(|side| !now.lists.contains_key(*side)) {
                let (name, kind) = (&side.name, if side.is_decider { "deciders" } else { "activities" });
                removed.push(format!(
                    "the task list `{name}` ({kind}) of domain `{domain}` keeps its limits; to remove them, run `baton \
                     task-list limit {name} --{kind} --remove --domain {domain}`"
                ));
            }
            for name in before.groups.keys().filter(|name| !now.groups.contains_key(*name)) {
                removed.push(format!(
                    "the limit group `{name}` of domain `{domain}` still exists; to delete it, run `baton limit-group \
                     delete {name} --domain {domain}`"
                ));
            }
        }
        removed
    }
}

fn too_many(domain: &str, refusal: &Refusal) -> String {
    format!("[[task-lists]] and [[limit-groups]] of domain `{domain}`: {refusal}")
}

/// Reason why limits were not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStored {
    #[error("the audit log cannot be written")]
    Audit,
    #[error("domain `{0}`: {1}")]
    Refused(String, Refusal),
}

/// Writes an audit entry for each list and group whose limits are about to change.
async fn announce(log: &AuditLog, domain: &str, changing: &DomainLists) -> Result<Vec<Announced>, NotStored> {
    let of_domain = || Names { domain: Some(domain.to_owned()), ..Names::default() };
    let group = |name: &String| ("configuration [[limit-groups]]", Names { group: Some(name.clone()), ..of_domain() });
    let list = |ListSide { name, is_decider }: &ListSide| {
        let deciders = "configuration [[task-lists]] deciders";
        let call = if *is_decider { deciders } else { "configuration [[task-lists]] activities" };
        (call, Names { task_list: Some(name.clone()), ..of_domain() })
    };
    let id = uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid();
    let entries = changing.groups.keys().map(group).chain(changing.lists.keys().map(list)).map(|(call, names)| {
        let (call, request_id) = (call.to_owned(), id.to_string());
        log.announce(Change { by: None, peer: None, call, names, request_id })
    });
    futures_util::future::try_join_all(entries).await.map_err(|_| NotStored::Audit)
}

/// Stores the configured limits of all domains that exist, unless they are already stored.
pub(crate) async fn store(lists: &Arc<TaskLists>, audit_log: Option<&AuditLog>) -> Result<(), NotStored> {
    for (domain, limits) in lists.not_stored() {
        let refused = |refusal| NotStored::Refused(domain.clone(), refusal);
        let changing = match lists.differing(&domain, &limits).await {
            Err(Refusal::UnknownDomain { .. }) => continue,
            changing => changing.map_err(refused)?,
        };
        let announced = match audit_log {
            Some(log) => announce(log, &domain, &changing).await?,
            None => Vec::new(),
        };
        let stored = lists.store_configured(&domain).await;
        for entry in announced {
            match &stored {
                Ok(()) => entry.tell(200, None),
                Err(refusal) => entry.tell(refusal.row().status, Some(refusal.row().code)),
            }
        }
        stored.map_err(refused)?;
        if !changing.is_empty() {
            let (lists, groups) = (changing.lists.len(), changing.groups.len());
            tracing::info!(domain, lists, groups, "limits of task lists in the configuration were stored");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
