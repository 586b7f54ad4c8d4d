//! Settings of task lists. Those of a domain are in one record.

use store::{Cas, Head};

use super::Registry;
use crate::base::list_settings::DomainLists;
use crate::base::records::own_key;
use crate::{Limited, Refusal};

/// Returns the name of the record of a domain. Names of domains have no control characters.
fn record_name(domain: &str) -> String {
    format!("\u{1}task-lists\u{1}{domain}")
}

impl Registry {
    async fn read_list_settings(&self, domain: &str) -> Result<(Option<Head>, DomainLists), Refusal> {
        let Some(head) = self.records.load(&record_name(domain)).await? else {
            return Ok((None, DomainLists::default()));
        };
        let settings = history::read_json(&head.body)
            .map_err(|error| Refusal::Corrupt { what: format!("the settings of task lists of `{domain}`: {error}") })?;
        Ok((Some(head), settings))
    }

    /// Returns the settings of the domain's task lists.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub(crate) async fn list_settings(&self, domain: &str) -> Result<DomainLists, Refusal> {
        self.must_know(domain).await?;
        Ok(self.read_list_settings(domain).await?.1)
    }

    /// Changes the settings of the domain's task lists. Returns the new settings and the result of `change`.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], the error of `change`, [`Refusal::LimitExceeded`] if there are too many settings, or
    /// an error of the store. Nothing was recorded.
    pub(crate) async fn change_list_settings<T>(
        &self,
        domain: &str,
        change: impl Fn(&mut DomainLists) -> Result<T, Refusal> + Send,
    ) -> Result<(DomainLists, T), Refusal> {
        self.must_know(domain).await?;
        loop {
            let (head, mut settings) = self.read_list_settings(domain).await?;
            let changed = change(&mut settings)?;
            settings.remove_empty();
            settings.check_counts()?;
            let written = self.records.write(&record_name(domain), head.as_ref(), &settings).await;
            let written = written.map_err(|refusal| match refusal {
                Refusal::RunTooLarge { max, .. } => Refusal::LimitExceeded { what: Limited::ListSettingsBytes, max },
                refusal => refusal,
            });
            if written? == Cas::Won {
                return Ok((settings, changed));
            }
        }
    }

    /// Validates the number and the size of settings before they are stored.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`].
    pub(crate) fn check_list_settings(&self, settings: &DomainLists) -> Result<(), Refusal> {
        settings.check_counts()?;
        let bytes = serde_json::to_vec(settings).map_err(|error| Refusal::Corrupt { what: error.to_string() })?;
        let max = self.store.limits().head_hard;
        if bytes.len() > max {
            return Err(Refusal::LimitExceeded { what: Limited::ListSettingsBytes, max });
        }
        Ok(())
    }

    /// Deletes the settings of a domain that is being deleted.
    pub(super) async fn forget_list_settings(&self, domain: &str) -> Result<(), Refusal> {
        let name = record_name(domain);
        match self.records.load(&name).await? {
            Some(head) => Ok(self.store.drop_run(&own_key(&name), head.run).await?),
            None => Ok(()),
        }
    }
}
