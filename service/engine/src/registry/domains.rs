//! Operations on domains. All domains are in one record.

use std::collections::BTreeMap;

use history::limits::{self, DOMAIN_TAGS_MAX};
use history::{Duration, Fault, Unit};
use store::{Cas, Head, ListQuery};

use super::Registry;
use super::domain::{DEFAULT_DOMAIN, Domain};
use crate::base::records::{has_schedules, open_batches};
use crate::{Limited, Refusal, SwfQuotas};

/// Maximum number of domains. Our choice: all of them are in one record and in memory.
const DOMAINS_MAX: usize = 1_000;

/// Minimum time between deprecation and deletion of a domain. Our choice: longer than a start takes. Starts that were
/// admitted before the deprecation are then recorded.
const DELETE_AFTER: Duration = Duration::from_secs(60);

/// Maximum length of a description in bytes. Source: SWF permits 1,024 characters, each of which may take four bytes.
pub(super) const DESCRIPTION_BYTES_MAX: usize = 4_096;

/// Maximum length of a tag's key in characters. Source: SWF's API reference.
const TAG_KEY_CHARS_MAX: usize = 128;

/// Maximum length of a tag's value in characters. Source: SWF's API reference.
const TAG_VALUE_CHARS_MAX: usize = 256;

impl Registry {
    /// Writes the record with all domains, unless it was changed since it was read.
    async fn write_domains(&self, before: Option<&Head>, domains: &BTreeMap<String, Domain>) -> Result<Cas, Refusal> {
        self.records.write("domains", before, domains).await.map_err(|refusal| match refusal {
            Refusal::RunTooLarge { max, .. } => Refusal::LimitExceeded { what: Limited::DomainBytes, max },
            refusal => refusal,
        })
    }

    async fn read_domains(&self) -> Result<(Option<Head>, BTreeMap<String, Domain>), Refusal> {
        let Some(head) = self.records.load("domains").await? else {
            return Ok((None, BTreeMap::new()));
        };
        let domains = history::read_json(&head.body)
            .map_err(|error| Refusal::Corrupt { what: format!("the record of domains: {error}") })?;
        Ok((Some(head), domains))
    }

    /// Enforces SWF's maximum number of domains when a domain is registered with SWF's protocol.
    ///
    /// # Errors
    ///
    /// [`Refusal::LimitExceeded`], or an error of the store.
    pub async fn must_have_room_for_domain(&self, quotas: Option<&SwfQuotas>) -> Result<(), Refusal> {
        match quotas {
            Some(quotas) if self.domains().await?.len() >= quotas.domains => {
                Err(Refusal::LimitExceeded { what: Limited::Domains, max: quotas.domains })
            }
            _ => Ok(()),
        }
    }

    /// Creates a domain.
    ///
    /// # Errors
    ///
    /// [`Refusal::DomainExists`], or a fault for an invalid field. Nothing was recorded.
    pub async fn create_domain(&self, domain: Domain) -> Result<Domain, Refusal> {
        check_domain(&domain)?;
        loop {
            let (head, mut domains) = self.read_domains().await?;
            if domains.contains_key(&domain.name) {
                return Err(Refusal::DomainExists { domain: domain.name });
            }
            if domains.len() >= DOMAINS_MAX {
                return Err(Refusal::LimitExceeded { what: Limited::Domains, max: DOMAINS_MAX });
            }
            domains.insert(domain.name.clone(), domain.clone());
            if self.write_domains(head.as_ref(), &domains).await? == Cas::Won {
                self.known.set(domains);
                return Ok(domain);
            }
        }
    }

    /// Changes a domain.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], the error of `change`, or a fault if the changed domain is invalid. Nothing was
    /// recorded.
    async fn change_domain(
        &self,
        name: &str,
        change: impl Fn(&mut Domain) -> Result<(), Refusal> + Send,
    ) -> Result<Domain, Refusal> {
        loop {
            let (head, mut domains) = self.read_domains().await?;
            let unknown = || Refusal::UnknownDomain { domain: name.to_owned() };
            let domain = domains.get_mut(name).ok_or_else(unknown)?;
            change(domain)?;
            check_domain(domain)?;
            let changed = domain.clone();
            if self.write_domains(head.as_ref(), &domains).await? == Cas::Won {
                self.known.set(domains);
                return Ok(changed);
            }
        }
    }

    /// Changes the description or the retention period of a domain. The new retention period applies to runs that are
    /// started after the change. Existing runs keep their retention period.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or a fault for an invalid field. Nothing was recorded.
    pub async fn set_domain(
        &self,
        name: &str,
        description: Option<Option<String>>,
        retention: Option<Duration>,
    ) -> Result<Domain, Refusal> {
        let change = |domain: &mut Domain| {
            if let Some(description) = &description {
                domain.description.clone_from(description);
            }
            domain.retention = retention.unwrap_or(domain.retention);
            Ok(())
        };
        self.change_domain(name, change).await
    }

    /// Deprecates a domain. Afterwards, no run can be started and no type registered in it. Open runs of the domain
    /// continue.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or [`Refusal::DomainDeprecated`] if the domain is already deprecated.
    pub async fn deprecate_domain(&self, name: &str) -> Result<Domain, Refusal> {
        let now = self.clock.now();
        let change = |domain: &mut Domain| match domain.deprecated_at.replace(now) {
            None => Ok(()),
            Some(_) => Err(Refusal::DomainDeprecated { domain: domain.name.clone() }),
        };
        self.change_domain(name, change).await
    }

    /// Ends the deprecation of a domain.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or [`Refusal::DomainExists`] if the domain is not deprecated.
    pub async fn undeprecate_domain(&self, name: &str) -> Result<Domain, Refusal> {
        let change = |domain: &mut Domain| match domain.deprecated_at.take() {
            Some(_) => Ok(()),
            None => Err(Refusal::DomainExists { domain: domain.name.clone() }),
        };
        self.change_domain(name, change).await
    }

    /// Deletes a deprecated domain that has no runs, no schedules and no open batches, together with its registered
    /// types.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::DomainInUse`], or an error of the store. After such an error, the domain
    /// still exists, but some of its types may have been deleted.
    pub async fn delete_domain(&self, name: &str) -> Result<(), Refusal> {
        let in_use = |why| Err(Refusal::DomainInUse { domain: name.to_owned(), why });
        loop {
            let (head, mut domains) = self.read_domains().await?;
            let domain = domains.remove(name).ok_or_else(|| Refusal::UnknownDomain { domain: name.to_owned() })?;
            if name == DEFAULT_DOMAIN {
                return in_use("it is the default domain");
            }
            let Some(deprecated_at) = domain.deprecated_at else { return in_use("it is not deprecated") };
            // Any start that was admitted before the deprecation has been recorded by now. The check below therefore
            // finds the started run.
            if self.clock.now().since(deprecated_at) < DELETE_AFTER {
                return in_use("it was deprecated less than a minute ago, and a start may be in progress");
            }
            let runs = ListQuery { domain: name.into(), limit: 1, ..ListQuery::default() };
            if !self.store.list(&runs, None).await?.rows.is_empty() {
                return in_use("it has open runs, or closed runs within their retention");
            }
            if has_schedules(&*self.store, name).await? {
                return in_use("it has schedules");
            }
            if open_batches(&*self.store, name, 1).await? > 0 {
                return in_use("it has batches that are not completed");
            }
            if domain.has_types {
                self.forget_types(name).await?;
            }
            self.forget_list_settings(name).await?;
            if self.write_domains(head.as_ref(), &domains).await? == Cas::Won {
                self.known.set(domains);
                return Ok(());
            }
        }
    }

    /// Adds or replaces some tags of a domain, and removes other tags. Removing a tag that does not exist is not an
    /// error.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::LimitExceeded`], or a fault for an invalid tag.
    pub async fn tag_domain(
        &self,
        name: &str,
        add: &BTreeMap<String, String>,
        remove: &[String],
    ) -> Result<Domain, Refusal> {
        // Longer lists were truncated during parsing, but only to a length that still exceeds the maximum.
        if add.len().max(remove.len()) > DOMAIN_TAGS_MAX {
            return Err(Refusal::LimitExceeded { what: Limited::Tags, max: DOMAIN_TAGS_MAX });
        }
        let change = |domain: &mut Domain| {
            domain.tags.retain(|key, _| !remove.contains(key));
            domain.tags.extend(add.clone());
            Ok(())
        };
        self.change_domain(name, change).await
    }

    /// Sets `has_types` in the domain's record, before a type is registered in the domain.
    pub(super) async fn expect_types(&self, name: &str) -> Result<(), Refusal> {
        if self.domain(name).await?.has_types {
            return Ok(());
        }
        let change = |domain: &mut Domain| {
            domain.has_types = true;
            Ok(())
        };
        self.change_domain(name, change).await.map(drop)
    }

    /// Returns a domain in which runs can be started and types registered, because it is not deprecated.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::DomainDeprecated`], or an error of the store.
    pub async fn domain_in_use(&self, name: &str) -> Result<Domain, Refusal> {
        let mut domain = self.domain(name).await?;
        let is_stale = self.is_shared && !self.known.is_fresh();
        if domain.deprecated_at.is_some() || is_stale {
            self.domains().await?;
            domain = self.domain(name).await?;
        }
        match domain.deprecated_at {
            None => Ok(domain),
            Some(_) => Err(Refusal::DomainDeprecated { domain: domain.name }),
        }
    }

    /// Returns all domains, sorted by name.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub async fn domains(&self) -> Result<Vec<Domain>, Refusal> {
        let (_, domains) = self.read_domains().await?;
        self.known.set(domains.clone());
        Ok(domains.into_values().collect())
    }

    /// Returns a domain.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn domain(&self, name: &str) -> Result<Domain, Refusal> {
        if let Some(domain) = self.known.all().get(name) {
            return Ok(domain.clone());
        }
        // The domain may have been created since the cache was filled.
        let (_, domains) = self.read_domains().await?;
        let found = domains.get(name).cloned();
        self.known.set(domains);
        found.ok_or_else(|| Refusal::UnknownDomain { domain: name.to_owned() })
    }

    pub(crate) async fn must_know(&self, name: &str) -> Result<(), Refusal> {
        if self.known.all().contains_key(name) { Ok(()) } else { self.domain(name).await.map(drop) }
    }

    pub(crate) async fn ensure_default_domain(&self) -> Result<(), Refusal> {
        let domain = Domain {
            description: Some("The default domain".to_owned()),
            ..Domain::new(DEFAULT_DOMAIN, limits::RETENTION_DEFAULT, self.clock.now())
        };
        match self.create_domain(domain).await {
            Ok(_) => Ok(()),
            Err(Refusal::DomainExists { .. }) => self.domain(DEFAULT_DOMAIN).await.map(drop),
            Err(refusal) => Err(refusal),
        }
    }
}

fn check_domain(domain: &Domain) -> Result<(), Refusal> {
    let invalid = |field: &str, problem: &str| Fault::Invalid { field: field.to_owned(), problem: problem.to_owned() };
    history::admit::check_name("name", &domain.name)?;
    let found = domain.description.as_ref().map_or(0, String::len);
    if found > DESCRIPTION_BYTES_MAX {
        let (field, max, unit) = ("description".to_owned(), DESCRIPTION_BYTES_MAX, Unit::Bytes);
        return Err(Fault::TooLarge { field, found, max, unit }.into());
    }
    if domain.retention > limits::SPAN_MAX {
        return Err(invalid("retention", &format!("is longer than {}", limits::SPAN_MAX)).into());
    }
    if domain.tags.len() > DOMAIN_TAGS_MAX {
        return Err(Refusal::LimitExceeded { what: Limited::Tags, max: DOMAIN_TAGS_MAX });
    }
    for (key, value) in &domain.tags {
        let (key_chars, value_chars) = (key.chars().count(), value.chars().count());
        if key_chars == 0 || key_chars > TAG_KEY_CHARS_MAX || value_chars > TAG_VALUE_CHARS_MAX {
            let problem = format!(
                "has `{key}` with {key_chars} characters and a value of {value_chars}; keys have 1 to \
                 {TAG_KEY_CHARS_MAX} \
                 and values at most {TAG_VALUE_CHARS_MAX}"
            );
            return Err(invalid("tags", &problem).into());
        }
    }
    Ok(())
}
