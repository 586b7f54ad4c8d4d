//! Limits of task lists from the configuration file, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::list_settings::DomainLists;

/// Limits in the configuration, and the domains for which they are stored.
#[derive(Debug, Default)]
pub(super) struct ConfiguredLimits {
    pub(super) by_domain: BTreeMap<String, DomainLists>,
    pub(super) stored: BTreeSet<String>,
}

/// Limits in the configuration of this node.
#[derive(Debug, Default)]
pub(crate) struct Configured(Mutex<ConfiguredLimits>);

impl Configured {
    pub(super) fn lock(&self) -> MutexGuard<'_, ConfiguredLimits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the limits of a domain must be stored when the domain is created again.
    pub(super) fn forget(&self, domain: &str) {
        self.lock().stored.remove(domain);
    }
}
