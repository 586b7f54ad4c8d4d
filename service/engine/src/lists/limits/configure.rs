//! Limits of task lists from the configuration file. They are stored like those that operators set over REST. The
//! limits for a domain that does not exist yet are stored when the domain is created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::list_settings::DomainLists;
use crate::lists::hand_out::TaskLists;
use crate::lists::limits::configured::ConfiguredLimits;
use crate::{Domain, Refusal};

impl TaskLists {
    /// Replaces the limits in the configuration, by domain. They take effect when [`store_configured`] is called, or
    /// when their domain is created.
    ///
    /// [`store_configured`]: Self::store_configured
    pub fn configure(&self, by_domain: BTreeMap<String, DomainLists>) {
        *self.configured.lock() = ConfiguredLimits { by_domain, stored: BTreeSet::new() };
    }

    /// Returns the configured limits that are not stored yet, by domain.
    pub fn not_stored(&self) -> Vec<(String, DomainLists)> {
        let configured = self.configured.lock();
        let rest = configured.by_domain.iter().filter(|(domain, _)| !configured.stored.contains(*domain));
        rest.map(|(domain, limits)| (domain.clone(), limits.clone())).collect()
    }

    /// Returns the part of these limits that differs from the stored limits of the domain. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::LimitExceeded`] if the domain would have too many settings, or an error
    /// of the store.
    pub async fn differing(&self, domain: &str, limits: &DomainLists) -> Result<DomainLists, Refusal> {
        let mut settings = self.registry.list_settings(domain).await?;
        let differing = limits.differing_from(&settings);
        settings.replace_limits(limits);
        self.registry.check_list_settings(&settings)?;
        Ok(differing)
    }

    /// Stores the configured limits of a domain, if they differ from the stored ones. Pauses, and lists that the
    /// configuration does not name, stay.
    ///
    /// # Errors
    ///
    /// As for [`differing`](Self::differing). Nothing was recorded.
    pub async fn store_configured(self: &Arc<Self>, domain: &str) -> Result<(), Refusal> {
        let Some(limits) = self.configured.lock().by_domain.get(domain).cloned() else { return Ok(()) };
        if !self.differing(domain, &limits).await?.is_empty() {
            self.change_settings(domain, |all| {
                all.replace_limits(&limits);
                Ok(())
            })
            .await?;
        }
        let mut configured = self.configured.lock();
        if configured.by_domain.get(domain) == Some(&limits) {
            configured.stored.insert(domain.to_owned());
        }
        Ok(())
    }

    /// Creates a domain, with the limits that the configuration has for its lists. If these cannot be stored, the
    /// domain is created without them, and [`not_stored`](Self::not_stored) still returns them.
    ///
    /// # Errors
    ///
    /// As for [`Registry::create_domain`](crate::Registry::create_domain).
    pub async fn create_domain(self: &Arc<Self>, domain: Domain) -> Result<Domain, Refusal> {
        let domain = self.registry.create_domain(domain).await?;
        // Another node may have deleted the domain.
        self.configured.forget(&domain.name);
        if let Err(refusal) = self.store_configured(&domain.name).await {
            let name = &domain.name;
            tracing::warn!(%refusal, domain = name, "the configured limits of task lists could not be stored yet");
        }
        Ok(domain)
    }
}
