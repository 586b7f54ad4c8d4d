//! Bodies of domains.

use std::collections::BTreeMap;

use history::limits::DOMAIN_TAGS_MAX;
use history::{Duration, Timestamp, bounded};
use serde::{Deserialize, Serialize};

bodies! {@request
    /// A domain to create.
    CreateDomain {
        /// Name. 1 to 256 characters.
        name: String,
        /// Description. At most 4,096 bytes.
        description: Option<String>,
        /// Time for which closed runs stay readable; 30 days by default.
        retention: Option<Duration>,
        /// Tags. At most 50, with keys of 1 to 128 characters and values of at most 256.
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
        /// Name.
        name: String,
        /// Description.
        description: Option<String>,
        /// Time for which closed runs stay readable.
        retention: Duration,
        /// Time of creation.
        created_at: Timestamp,
        /// Time of the deprecation, after which nothing can be started or registered in it; absent while it is in
        /// use.
        deprecated_at: Option<Timestamp>,
        /// Tags.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        tags: BTreeMap<String, String>,
    }
    /// All domains.
    Domains {
        /// Domains by name.
        domains: Vec<Domain>,
    }
}
