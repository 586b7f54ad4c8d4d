//! Calls of operators: settings of lists, limit groups, pauses.

use std::sync::Arc;
use std::time::Duration;

use history::Timestamp;
use history::event::OperatorAction;

use crate::base::list_settings::{DomainLists, ListPause, ListSettings, ListSide, STOPPED_LISTS_MAX, TaskLimits};
use crate::lists::hand_out::TaskLists;
use crate::{Limited, Refusal};

/// Pause after settings that could not be applied. Our choice.
const APPLY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A change of settings that may be stored and is not applied. When it is dropped in this state, the stored settings
/// are applied in the background: otherwise a list that an operator has resumed could stay paused.
struct UnappliedChange {
    lists: Arc<TaskLists>,
    domain: Arc<str>,
    is_applied: bool,
}

impl Drop for UnappliedChange {
    fn drop(&mut self) {
        if !self.is_applied && tokio::runtime::Handle::try_current().is_ok() {
            self.lists.apply_stored_soon(Arc::clone(&self.domain));
        }
    }
}

impl TaskLists {
    /// Applies the stored settings of all domains. Called before the first task is handed out.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub(crate) async fn restore_limits(self: &Arc<Self>) -> Result<(), Refusal> {
        for domain in self.registry.domains().await? {
            let settings = self.registry.list_settings(&domain.name).await?;
            self.set_limits(&domain.name.as_str().into(), &settings);
        }
        Ok(())
    }

    /// Returns the settings of the domain's task lists.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn settings(&self, domain: &str) -> Result<DomainLists, Refusal> {
        self.registry.list_settings(domain).await
    }

    /// If nodes share the store, makes the other nodes read the settings again. They do so within two heartbeats.
    async fn announce_settings(&self) -> Result<(), Refusal> {
        if self.nodes.is_shared() { self.nodes.announce_list_change().await } else { Ok(()) }
    }

    /// Changes the stored settings of a domain, and applies them. If the caller leaves or the outcome is unknown, the
    /// stored settings are applied in the background.
    pub(super) async fn change_settings<T>(
        self: &Arc<Self>,
        domain: &str,
        change: impl Fn(&mut DomainLists) -> Result<T, Refusal> + Send,
    ) -> Result<T, Refusal> {
        // Two changes are applied in the order in which they are written.
        let _guard = self.changing_limits.lock().await;
        let mut unapplied = UnappliedChange { lists: Arc::clone(self), domain: domain.into(), is_applied: false };
        let changed = self.registry.change_list_settings(domain, change).await;
        let (settings, changed) = match changed {
            Ok((settings, changed)) => (settings, Ok(changed)),
            Err(refusal @ Refusal::UnknownDomain { .. }) => {
                unapplied.is_applied = true;
                return Err(refusal);
            }
            // An earlier request or another node may have stored this change without applying it.
            Err(refusal) if !refusal.is_retryable() => (self.registry.list_settings(domain).await?, Err(refusal)),
            Err(refusal) => return Err(refusal),
        };
        self.set_limits(&domain.into(), &settings);
        self.announce_settings().await?;
        unapplied.is_applied = true;
        changed
    }

    /// Applies the stored settings of a domain, in the background. Repeats this until it succeeds.
    fn apply_stored_soon(self: &Arc<Self>, domain: Arc<str>) {
        let lists = Arc::clone(self);
        self.background.spawn_until_stopped(async move {
            let apply = async || {
                lists.apply_stored([Arc::clone(&domain)]).await?;
                lists.announce_settings().await
            };
            while let Err(refusal) = apply().await {
                tracing::warn!(%refusal, %domain, "the settings of task lists could not be applied yet");
                tokio::time::sleep(APPLY_AGAIN_AFTER).await;
            }
        });
    }

    /// Applies the stored settings of these domains.
    pub(super) async fn apply_stored(
        self: &Arc<Self>,
        domains: impl IntoIterator<Item = Arc<str>>,
    ) -> Result<(), Refusal> {
        let _guard = self.changing_limits.lock().await;
        for domain in domains {
            let settings = self.stored_settings(&domain).await?;
            self.set_limits(&domain, &settings);
        }
        Ok(())
    }

    /// Returns the stored settings of a domain's lists. A domain that does not exist has none.
    pub(super) async fn stored_settings(&self, domain: &str) -> Result<DomainLists, Refusal> {
        match self.registry.list_settings(domain).await {
            Err(Refusal::UnknownDomain { .. }) => Ok(DomainLists::default()),
            settings => settings,
        }
    }

    /// Replaces the limits of one side of a list. A pause stays. Running tasks are not affected by lower limits.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownLimitGroup`], [`Refusal::LimitExceeded`], a fault for an invalid
    /// field, or an error of the store.
    pub async fn set_list(
        self: &Arc<Self>,
        domain: &str,
        list: &ListSide,
        settings: &ListSettings,
    ) -> Result<ListSettings, Refusal> {
        history::admit::check_name("taskList", &list.name)?;
        settings.validate()?;
        self.change_settings(domain, |all| {
            if let Some(group) = settings.group.as_ref().filter(|group| !all.groups.contains_key(*group)) {
                return Err(Refusal::UnknownLimitGroup { domain: domain.to_owned(), group: group.clone() });
            }
            let known = all.lists.entry(list.clone()).or_default();
            *known = ListSettings { paused: known.paused.take(), ..settings.clone() };
            Ok(known.clone())
        })
        .await
    }

    /// Pauses one side of a list: tasks wait, and none starts. Running tasks continue. If the pause stops clocks, the
    /// schedule-to-start timeouts of the waiting tasks are stopped.
    ///
    /// # Errors
    ///
    /// As for [`set_list`](Self::set_list), [`Refusal::ListAlreadyPaused`], and a fault for an invalid reason.
    pub async fn pause_list(
        self: &Arc<Self>,
        domain: &str,
        list: &ListSide,
        pause: &ListPause,
    ) -> Result<ListSettings, Refusal> {
        history::admit::check_name("taskList", &list.name)?;
        let (identity, reason) = (pause.identity.clone(), pause.reason.clone());
        history::admit::check_operator(&OperatorAction { identity, reason })?;
        self.change_settings(domain, |all| {
            let known = all.lists.entry(list.clone()).or_default();
            if known.paused.is_some() {
                return Err(Refusal::ListAlreadyPaused { list: list.name.clone() });
            }
            known.paused = Some(pause.clone());
            let known = known.clone();
            all.forget_old_stops(pause.since);
            if pause.stop_clocks && all.stopped_lists() > STOPPED_LISTS_MAX {
                return Err(Refusal::LimitExceeded { what: Limited::StoppedLists, max: STOPPED_LISTS_MAX });
            }
            Ok(known)
        })
        .await
    }

    /// Resumes one side of a list.
    ///
    /// # Errors
    ///
    /// As for [`set_list`](Self::set_list), and [`Refusal::ListNotPaused`].
    pub async fn resume_list(self: &Arc<Self>, domain: &str, list: &ListSide) -> Result<ListSettings, Refusal> {
        self.change_settings(domain, |all| {
            let known = all.lists.get_mut(list);
            let resumed = known.and_then(|known| known.paused.take().map(|pause| (pause, known.clone())));
            let (pause, known) = resumed.ok_or_else(|| Refusal::ListNotPaused { list: list.name.clone() })?;
            let now = self.clock.now();
            all.end_pause(list, &pause, now);
            all.forget_old_stops(now);
            Ok(known)
        })
        .await
    }

    /// Creates or replaces the limits of a group.
    ///
    /// # Errors
    ///
    /// As for [`set_list`](Self::set_list).
    pub async fn set_group(self: &Arc<Self>, domain: &str, group: &str, limits: TaskLimits) -> Result<(), Refusal> {
        history::admit::check_name("group", group)?;
        limits.validate_group()?;
        self.change_settings(domain, |all| {
            all.groups.insert(group.to_owned(), limits);
            Ok(())
        })
        .await
    }

    /// Deletes a group.
    ///
    /// # Errors
    ///
    /// As for [`set_list`](Self::set_list), and [`Refusal::LimitGroupInUse`].
    pub async fn delete_group(self: &Arc<Self>, domain: &str, group: &str) -> Result<(), Refusal> {
        self.change_settings(domain, |all| {
            let user = all.lists.iter().find(|(_, own)| own.group.as_deref() == Some(group));
            if let Some((list, _)) = user {
                return Err(Refusal::LimitGroupInUse { group: group.to_owned(), list: list.name.clone() });
            }
            let unknown = || Refusal::UnknownLimitGroup { domain: domain.to_owned(), group: group.to_owned() };
            all.groups.remove(group).map(drop).ok_or_else(unknown)
        })
        .await
    }

    /// Deletes a domain with its registered types and the settings of its lists.
    ///
    /// # Errors
    ///
    /// As for [`Registry::delete_domain`](crate::Registry::delete_domain).
    pub async fn delete_domain(self: &Arc<Self>, domain: &str) -> Result<(), Refusal> {
        let _guard = self.changing_limits.lock().await;
        let mut unapplied = UnappliedChange { lists: Arc::clone(self), domain: domain.into(), is_applied: false };
        let deleted = self.registry.delete_domain(domain).await;
        if deleted.as_ref().is_err_and(|refusal| !refusal.is_retryable()) {
            unapplied.is_applied = true;
        }
        deleted?;
        self.configured.forget(domain);
        self.set_limits(&domain.into(), &DomainLists::default());
        self.announce_settings().await?;
        unapplied.is_applied = true;
        Ok(())
    }

    /// Returns the current time, which a pause records.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
