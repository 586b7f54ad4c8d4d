//! Bodies of domains.

use std::collections::BTreeMap;

use history::limits::DOMAIN_TAGS_MAX;
use history::{Duration, Timestamp, bounded};
use serde::{Deserialize, Serialize};

bodies! {@request
    /// A domain to create.
    CreateDomain {
        /// Name of the domain. 1 to 256 characters.
        name: String,
        /// Description of the domain. At most 4,096 bytes.
        description: Option<String>,
        /// Time for which closed runs stay readable; 30 days by default.
        retention: Option<Duration>,
        /// Tags of the domain. At most 50, with keys of 1 to 128 characters and values of at most 256 characters.
        #[serde(
            default,
            skip_serializing_if = "BTreeMap::is_empty",
            deserialize_with = "bounded::map::<DOMAIN_TAGS_MAX, _>"
        )]
        #[at_most_members(DOMAIN_TAGS_MAX)]
        tags: BTreeMap<String, String>,
    }
    /// Changes of a domain's tags.
    TagDomain {
        /// Tags to add or to replace. At most 50.
        #[serde(
            default,
            skip_serializing_if = "BTreeMap::is_empty",
            deserialize_with = "bounded::map::<DOMAIN_TAGS_MAX, _>"
        )]
        #[at_most_members(DOMAIN_TAGS_MAX)]
        add: BTreeMap<String, String>,
        /// Keys of tags to remove. At most 50.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "bounded::list::<DOMAIN_TAGS_MAX, _, _>"
        )]
        #[at_most(DOMAIN_TAGS_MAX)]
        remove: Vec<String>,
    }
}

answers! {
    /// A domain.
    Domain {
        /// Name of the domain.
        name: String,
        /// Description of the domain.
        description: Option<String>,
        /// Time for which closed runs stay readable.
        retention: Duration,
        /// Time when the domain was created.
        created_at: Timestamp,
        /// Time when the domain was deprecated; absent if it is not. In a deprecated domain, no run can be started and
        /// no type registered.
        deprecated_at: Option<Timestamp>,
        /// Tags of the domain.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        tags: BTreeMap<String, String>,
    }
    /// All domains.
    Domains {
        /// Domains, sorted by name.
        domains: Vec<Domain>,
    }
}
