//! Domains, and the service's own secret: both live in the store under a domain name that no caller can use.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use bytes::Bytes;
use history::{Duration, Fault, Timestamp, limits};
use serde::{Deserialize, Serialize};
use store::{Cas, Expect, Head, HeadKey, Store};

use super::{Engine, Refusal};

/// The domain that is always there.
pub const DEFAULT_DOMAIN: &str = "default";

/// Where the service keeps its own records: callers' domains are never empty.
const OWN: &str = "";

/// Most domains. Ours: they are kept in one record and in memory.
const DOMAINS_MAX: usize = 1_000;

/// Longest description, in bytes. Source: SWF's 1,024 characters.
const DESCRIPTION_BYTES_MAX: usize = 1_024;

/// An isolation boundary: workflow ids and task lists of different domains have nothing to do with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Its name. 1 to 256 bytes.
    pub name: String,
    /// What it is for. At most 1,024 bytes.
    pub description: Option<String>,
    /// How long its runs stay readable after they closed, where their start does not say.
    pub retention: Duration,
    /// Since when.
    pub created_at: Timestamp,
}

/// The domains as last read.
#[derive(Default)]
pub(super) struct Domains {
    known: RwLock<Arc<BTreeMap<String, Domain>>>,
}

impl Domains {
    fn known(&self) -> Arc<BTreeMap<String, Domain>> {
        Arc::clone(&self.known.read().expect("no code panics while it holds this lock"))
    }

    fn set(&self, domains: BTreeMap<String, Domain>) {
        *self.known.write().expect("no code panics while it holds this lock") = Arc::new(domains);
    }
}

pub(super) fn own_key(name: &str) -> HeadKey {
    HeadKey { domain: OWN.into(), workflow_id: name.into() }
}

fn own_head(before: Option<&Head>, body: Bytes) -> Head {
    let version = before.map_or(1, |head| head.version + 1);
    Head { run: [0; 16], version, body, due: None, row: None, expires_at: None }
}

/// The secret that task tokens are made with; made at the first start, and the same ever after.
pub(super) async fn secret(store: &dyn Store, seed: Option<u64>) -> Result<Bytes, Refusal> {
    let key = own_key("secret");
    if let Some(head) = store.load(&key).await? {
        return Ok(head.body);
    }
    let mut secret = [0; 32];
    match seed {
        Some(seed) => fastrand::Rng::with_seed(seed).fill(&mut secret),
        None => getrandom::fill(&mut secret)
            .map_err(|error| Refusal::Unavailable { why: format!("no random numbers: {error}"), retry_after: None })?,
    }
    let head = own_head(None, Bytes::copy_from_slice(&secret));
    match store.commit(&key, Expect::Absent, &head, &[]).await? {
        Cas::Won => Ok(head.body),
        Cas::Lost(Some(other)) => Ok(other.body),
        Cas::Lost(None) => Err(Refusal::Unavailable { why: "the secret vanished".to_owned(), retry_after: None }),
    }
}

impl Engine {
    /// Writes one of the service's own records, if it still is as it was read.
    pub(super) async fn write_own(
        &self,
        name: &str,
        before: Option<&Head>,
        record: &impl Serialize,
    ) -> Result<Cas, Refusal> {
        let body = serde_json::to_vec(record).map_err(|error| Refusal::Corrupt { what: error.to_string() })?;
        let expect = match before {
            Some(head) => Expect::Exactly { run: head.run, version: head.version },
            None => Expect::Absent,
        };
        Ok(self.store.commit(&own_key(name), expect, &own_head(before, body.into()), &[]).await?)
    }

    async fn read_domains(&self) -> Result<(Option<Head>, BTreeMap<String, Domain>), Refusal> {
        let Some(head) = self.store.load(&own_key("domains")).await? else {
            return Ok((None, BTreeMap::new()));
        };
        let domains = serde_json::from_slice(&head.body)
            .map_err(|error| Refusal::Corrupt { what: format!("the record of domains: {error}") })?;
        Ok((Some(head), domains))
    }

    /// Creates a domain.
    ///
    /// # Errors
    ///
    /// [`Refusal::DomainExists`], or a fault for a field that is not acceptable. Nothing was recorded.
    pub async fn create_domain(&self, domain: Domain) -> Result<Domain, Refusal> {
        check_domain(&domain)?;
        loop {
            let (head, mut domains) = self.read_domains().await?;
            if domains.contains_key(&domain.name) {
                return Err(Refusal::DomainExists { domain: domain.name });
            }
            if domains.len() >= DOMAINS_MAX {
                let problem = format!("is one too many: there can be {DOMAINS_MAX} domains");
                return Err(Fault::Invalid { field: "name".to_owned(), problem }.into());
            }
            domains.insert(domain.name.clone(), domain.clone());
            if self.write_own("domains", head.as_ref(), &domains).await? == Cas::Won {
                self.domains.set(domains);
                return Ok(domain);
            }
        }
    }

    /// Every domain, by name.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn domains(&self) -> Result<Vec<Domain>, Refusal> {
        let (_, domains) = self.read_domains().await?;
        self.domains.set(domains.clone());
        Ok(domains.into_values().collect())
    }

    /// One domain.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or the store's.
    pub async fn domain(&self, name: &str) -> Result<Domain, Refusal> {
        if let Some(domain) = self.domains.known().get(name) {
            return Ok(domain.clone());
        }
        // Never say no from a cache.
        let (_, domains) = self.read_domains().await?;
        let found = domains.get(name).cloned();
        self.domains.set(domains);
        found.ok_or_else(|| Refusal::UnknownDomain { domain: name.to_owned() })
    }

    pub(super) async fn must_know(&self, name: &str) -> Result<(), Refusal> {
        if self.domains.known().contains_key(name) { Ok(()) } else { self.domain(name).await.map(drop) }
    }

    pub(super) async fn ensure_default_domain(&self) -> Result<(), Refusal> {
        let domain = Domain {
            name: DEFAULT_DOMAIN.to_owned(),
            description: Some("The domain that is always there".to_owned()),
            retention: limits::RETENTION_DEFAULT,
            created_at: self.clock.now(),
        };
        match self.create_domain(domain).await {
            Ok(_) => Ok(()),
            Err(Refusal::DomainExists { .. }) => self.domain(DEFAULT_DOMAIN).await.map(drop),
            Err(refusal) => Err(refusal),
        }
    }
}

fn check_domain(domain: &Domain) -> Result<(), Fault> {
    let invalid = |field: &str, problem: &str| Fault::Invalid { field: field.to_owned(), problem: problem.to_owned() };
    let (name, max) = (&domain.name, limits::NAME_BYTES_MAX);
    if name.is_empty() {
        return Err(invalid("name", "is empty"));
    }
    if name.len() > max {
        return Err(Fault::TooLarge { field: "name".to_owned(), found: name.len(), max });
    }
    if name.chars().any(char::is_control) {
        return Err(invalid("name", "contains a control character"));
    }
    let found = domain.description.as_ref().map_or(0, String::len);
    if found > DESCRIPTION_BYTES_MAX {
        return Err(Fault::TooLarge { field: "description".to_owned(), found, max: DESCRIPTION_BYTES_MAX });
    }
    if domain.retention > limits::SPAN_MAX {
        return Err(invalid("retention", &format!("is longer than {}", limits::SPAN_MAX)));
    }
    Ok(())
}
