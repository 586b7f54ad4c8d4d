//! Registered domains, workflow types and activity types: their records in the store, and a cache of them.

pub(super) mod keeper;
pub(super) mod known;
pub(super) mod run_counts;

mod domain;
mod domains;
mod list_settings;
mod remembered;
mod types;

use std::sync::Arc;

use store::Store;

use crate::Clock;
use crate::base::records::Records;

pub use domain::{DEFAULT_DOMAIN, Domain};

use domain::KnownDomains;
use remembered::TypeCache;
pub use types::{TYPES_MAX, TypeKind, TypeRecord, split_type_name, type_name};

/// Registry of domains and types.
pub struct Registry {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// True if other nodes share the store and may change the records.
    is_shared: bool,
    records: Records,
    known: KnownDomains,
    types: TypeCache,
}

impl Registry {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, is_shared: bool) -> Self {
        let records = Records::new(Arc::clone(&store));
        Self { store, clock, is_shared, records, known: KnownDomains::default(), types: TypeCache::default() }
    }
}
