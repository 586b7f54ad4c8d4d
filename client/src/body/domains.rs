//! Domains.

use std::collections::BTreeMap;

use history::limits::DOMAIN_TAGS_MAX;
use history::{Duration, Timestamp, bounded};
use serde::{Deserialize, Serialize};

bodies! {@request
    /// Creates a domain.
    CreateDomain {
        /// Its name. 1 to 256 characters.
        name: String,
        /// What it is for. At most 4,096 bytes.
        description: Option<String>,
        /// How long its runs stay readable after they closed; 30 days when absent.
        retention: Option<Duration>,
        /// Tags: at most 50, keys of 1 to 128 characters, values of at most 256.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "bounded::map::<DOMAIN_TAGS_MAX, _>")]
        #[at_most_members(DOMAIN_TAGS_MAX)]
        tags: BTreeMap<String, String>,
    }
    /// Changes the tags of a domain.
    TagDomain {
        /// Tags to add, or to replace. At most 50.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "bounded::map::<DOMAIN_TAGS_MAX, _>")]
        #[at_most_members(DOMAIN_TAGS_MAX)]
        add: BTreeMap<String, String>,
        /// Keys of tags to take off. At most 50.
        #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list::<DOMAIN_TAGS_MAX, _, _>")]
        #[at_most(DOMAIN_TAGS_MAX)]
        remove: Vec<String>,
    }
}

answers! {
    /// A domain.
    Domain {
        /// Its name.
        name: String,
        /// What it is for.
        description: Option<String>,
        /// How long its runs stay readable after they closed.
        retention: Duration,
        /// Since when.
        created_at: Timestamp,
        /// Since when nothing can be started or registered in it; absent while it is in use.
        deprecated_at: Option<Timestamp>,
        /// Its tags.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        tags: BTreeMap<String, String>,
    }
    /// Every domain.
    Domains {
        /// By name.
        domains: Vec<Domain>,
    }
}
