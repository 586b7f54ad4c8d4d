//! Registered workflow and activity types. Each type has a separate head in an internal domain of the store, which
//! callers cannot use. Therefore only one of several concurrent registrations of a type succeeds.
//!
//! Each domain records whether types have been registered in it. If not, no types are looked up.

use std::sync::Arc;

use bytes::Bytes;
use history::{ActivityDefaults, Fault, Registration, Timestamp, Unit, WorkflowDefaults, admit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use store::{Cas, Expect, Head, HeadKey, ListQuery, Row};

use super::Registry;
use super::domains::DESCRIPTION_BYTES_MAX;
use crate::{Limited, Refusal};

/// Maximum number of types of each kind in a domain. Source: SWF's API reference.
pub const TYPES_MAX: usize = 10_000;

/// Maximum length of a version in bytes. Source: SWF's API reference permits 64 characters, each of which may take four
/// bytes.
const VERSION_BYTES_MAX: usize = 256;

/// Number of rows that are read with one request to the store. Our choice.
const ROWS: usize = 1_000;

/// Separator between the name and the version of a type.
const SEPARATOR: char = '/';

/// Kind of type (workflow or activity). The struct with the default values of that kind implements this trait.
pub trait TypeKind: Serialize + DeserializeOwned + Clone + Default + PartialEq + Send + Sync + 'static {
    /// Name of the kind: `workflow` or `activity`.
    const WORD: &'static str;

    /// Removes default values that would make every start fail. An earlier version of the service accepted such values.
    #[must_use]
    fn usable(self) -> Self {
        self
    }

    /// Validates the default values.
    ///
    /// # Errors
    ///
    /// A fault that names the invalid field.
    fn check(&self) -> Result<(), Fault>;
}

impl TypeKind for WorkflowDefaults {
    const WORD: &'static str = "workflow";

    fn check(&self) -> Result<(), Fault> {
        admit::check_workflow_defaults(self)
    }

    fn usable(self) -> Self {
        self.without_zero_timeouts()
    }
}

impl TypeKind for ActivityDefaults {
    const WORD: &'static str = "activity";

    fn check(&self) -> Result<(), Fault> {
        admit::check_activity_defaults(self)
    }
}

/// A registered type.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeRecord<D> {
    /// Name of the type, 1 to 256 characters without a slash.
    pub name: String,
    /// Version of the type, without a slash. Runs and decisions refer to the type as `name/version`.
    pub version: Option<String>,
    /// Purpose of the type.
    pub description: Option<String>,
    /// Time when the type was registered.
    pub created_at: Timestamp,
    /// Time when the type was deprecated; `None` if it is not. No run or activity of a deprecated type can be started.
    pub deprecated_at: Option<Timestamp>,
    /// Default values for fields that a start or a decision omits.
    pub defaults: D,
}

/// Returns the name and version of a type in the form `name/version`, or only the name if there is no version.
pub fn type_name(name: &str, version: Option<&str>) -> String {
    version.map_or_else(|| name.to_owned(), |version| format!("{name}{SEPARATOR}{version}"))
}

/// Splits a type of the form `name/version` into name and version.
pub fn split_type_name(full: &str) -> (&str, Option<&str>) {
    full.split_once(SEPARATOR).map_or((full, None), |(name, version)| (name, Some(version)))
}

impl<D> TypeRecord<D> {
    /// Returns the type's name and version in the form `name/version`, as runs and decisions use it.
    pub fn full_name(&self) -> String {
        type_name(&self.name, self.version.as_deref())
    }
}

/// Returns the internal domain with the type records of a domain. The name of a caller's domain never contains control
/// characters.
fn domain_of_types<D: TypeKind>(domain: &str) -> String {
    format!("\u{1}{}-types\u{1}{domain}", D::WORD)
}

fn key_of<D: TypeKind>(domain: &str, full: &str) -> HeadKey {
    HeadKey { domain: domain_of_types::<D>(domain).into(), workflow_id: full.into() }
}

/// Returns true if this is the head of a deleted type. The store removes the head later.
fn is_deleted(head: &Head) -> bool {
    head.body.is_empty()
}

fn read<D: TypeKind>(body: &[u8]) -> Result<TypeRecord<D>, Refusal> {
    let registered: TypeRecord<D> = history::read_json(body)
        .map_err(|error| Refusal::Corrupt { what: format!("the record of a {} type: {error}", D::WORD) })?;
    Ok(TypeRecord { defaults: registered.defaults.usable(), ..registered })
}

fn head_of<D: TypeKind>(version: u64, registered: &TypeRecord<D>) -> Result<Head, Refusal> {
    let body = serde_json::to_vec(registered).map_err(|error| Refusal::Corrupt { what: error.to_string() })?;
    let row = Row {
        workflow_type: registered.name.as_str().into(),
        status: if registered.deprecated_at.is_some() { "deprecated" } else { "registered" }.into(),
        flagged: false,
        started_at: registered.created_at.as_millis(),
        closed_at: registered.deprecated_at.map(Timestamp::as_millis),
        tags: Vec::new(),
        why: None,
    };
    Ok(Head { run: [0; 16], version, body: body.into(), due: None, row: Some(row), expires_at: None })
}

fn unknown<D: TypeKind>(full: &str) -> Refusal {
    Refusal::UnknownType { kind: D::WORD, name: full.to_owned() }
}

fn check<D: TypeKind>(registered: &TypeRecord<D>) -> Result<(), Refusal> {
    let slash = |field: &str| {
        let problem = format!("contains `{SEPARATOR}`, which separates the name and the version");
        Fault::Invalid { field: field.to_owned(), problem }
    };
    admit::check_name("name", &registered.name)?;
    if registered.name.contains(SEPARATOR) {
        return Err(slash("name").into());
    }
    if let Some(version) = &registered.version {
        admit::check_name("version", version)?;
        if version.contains(SEPARATOR) {
            return Err(slash("version").into());
        }
        if version.len() > VERSION_BYTES_MAX {
            let (found, max) = (version.len(), VERSION_BYTES_MAX);
            return Err(Fault::TooLarge { field: "version".to_owned(), found, max, unit: Unit::Bytes }.into());
        }
    }
    admit::check_type("type", &registered.full_name())?;
    let found = registered.description.as_ref().map_or(0, String::len);
    if found > DESCRIPTION_BYTES_MAX {
        let max = DESCRIPTION_BYTES_MAX;
        return Err(Fault::TooLarge { field: "description".to_owned(), found, max, unit: Unit::Bytes }.into());
    }
    Ok(registered.defaults.check()?)
}

impl Registry {
    /// Registers a type.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::DomainDeprecated`], [`Refusal::TypeExists`] even if the existing type is
    /// deprecated, [`Refusal::LimitExceeded`], or a fault for an invalid field. Nothing was recorded.
    pub async fn register_type<D: TypeKind>(
        &self,
        domain: &str,
        registered: TypeRecord<D>,
    ) -> Result<TypeRecord<D>, Refusal> {
        self.domain_in_use(domain).await?;
        check(&registered)?;
        let full = registered.full_name();
        let key = key_of::<D>(domain, &full);
        loop {
            let before = self.store.load(&key).await?;
            if before.as_ref().is_some_and(|head| !is_deleted(head)) {
                return Err(Refusal::TypeExists { kind: D::WORD, name: full });
            }
            if self.type_names::<D>(domain).await?.len() >= TYPES_MAX {
                return Err(Refusal::LimitExceeded { what: Limited::Types, max: TYPES_MAX });
            }
            // The domain must record that it has types before the type is written. Otherwise a node could consider the
            // domain to be without types and ignore the new type.
            self.expect_types(domain).await?;
            let head = head_of(before.as_ref().map_or(1, |head| head.version + 1), &registered)?;
            if self.write_type(D::WORD, &key, before.as_ref(), &head).await? {
                return Ok(registered);
            }
        }
    }

    /// Writes the record of a type, unless it was changed since it was read.
    async fn write_type(
        &self,
        kind: &'static str,
        key: &HeadKey,
        before: Option<&Head>,
        head: &Head,
    ) -> Result<bool, Refusal> {
        let expect = match before {
            Some(head) => Expect::Exactly { run: head.run, version: head.version },
            None => Expect::Absent,
        };
        let won = self.store.commit(key, expect, head, &[]).await? == Cas::Won;
        if won {
            self.types.remember(kind, key, head.body.clone());
        }
        Ok(won)
    }

    /// Reads a type from the store.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownType`], or an error of the store.
    pub async fn registered_type<D: TypeKind>(&self, domain: &str, full: &str) -> Result<TypeRecord<D>, Refusal> {
        self.must_know(domain).await?;
        let key = key_of::<D>(domain, full);
        let head = self.store.load(&key).await?.filter(|head| !is_deleted(head));
        self.types.remember(D::WORD, &key, head.as_ref().map(|head| head.body.clone()).unwrap_or_default());
        read(&head.ok_or_else(|| unknown::<D>(full))?.body)
    }

    async fn change_type<D: TypeKind>(
        &self,
        domain: &str,
        full: &str,
        change: impl Fn(TypeRecord<D>) -> Result<Option<TypeRecord<D>>, Refusal> + Send,
    ) -> Result<Option<TypeRecord<D>>, Refusal> {
        self.must_know(domain).await?;
        let key = key_of::<D>(domain, full);
        loop {
            let head = self.store.load(&key).await?.filter(|head| !is_deleted(head));
            let head = head.ok_or_else(|| unknown::<D>(full))?;
            let changed = change(read(&head.body)?)?;
            let next = match &changed {
                Some(registered) => head_of(head.version + 1, registered)?,
                // To delete the type, its head is replaced by an empty head. Thus only one of several concurrent
                // changes succeeds.
                None => Head {
                    version: head.version + 1,
                    body: Bytes::new(),
                    row: None,
                    expires_at: Some(self.clock.now().as_millis()),
                    ..head.clone()
                },
            };
            if self.write_type(D::WORD, &key, Some(&head), &next).await? {
                return Ok(changed);
            }
        }
    }

    /// Deprecates a type. Afterwards, no run or activity of this type can be started. Runs and activities of this type
    /// that have already started continue.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownType`], or [`Refusal::TypeDeprecated`] if the type is already
    /// deprecated.
    pub async fn deprecate_type<D: TypeKind>(&self, domain: &str, full: &str) -> Result<TypeRecord<D>, Refusal> {
        let now = self.clock.now();
        let change = |mut registered: TypeRecord<D>| match registered.deprecated_at.replace(now) {
            None => Ok(Some(registered)),
            Some(_) => Err(Refusal::TypeDeprecated { kind: D::WORD, name: full.to_owned() }),
        };
        self.change_type(domain, full, change).await?.ok_or_else(|| unknown::<D>(full))
    }

    /// Ends the deprecation of a type.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownType`], or [`Refusal::TypeExists`] if the type is not deprecated.
    pub async fn undeprecate_type<D: TypeKind>(&self, domain: &str, full: &str) -> Result<TypeRecord<D>, Refusal> {
        let change = |mut registered: TypeRecord<D>| match registered.deprecated_at.take() {
            Some(_) => Ok(Some(registered)),
            None => Err(Refusal::TypeExists { kind: D::WORD, name: full.to_owned() }),
        };
        self.change_type(domain, full, change).await?.ok_or_else(|| unknown::<D>(full))
    }

    /// Deletes a deprecated type. Afterwards a type with the same name can be registered again.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], [`Refusal::UnknownType`], or [`Refusal::TypeInUse`] if the type is not deprecated.
    pub async fn delete_type<D: TypeKind>(&self, domain: &str, full: &str) -> Result<(), Refusal> {
        let change = |registered: TypeRecord<D>| match registered.deprecated_at {
            Some(_) => Ok(None),
            None => Err(Refusal::TypeInUse { kind: D::WORD, name: full.to_owned() }),
        };
        self.change_type(domain, full, change).await.map(drop)
    }

    /// Returns the names of all types of a domain, sorted, each with a flag that is true if the type is deprecated.
    /// Recent changes may be missing.
    ///
    /// # Errors
    ///
    /// [`Refusal::UnknownDomain`], or an error of the store.
    pub async fn type_names<D: TypeKind>(&self, domain: &str) -> Result<Vec<(Arc<str>, bool)>, Refusal> {
        self.must_know(domain).await?;
        let query = ListQuery { domain: domain_of_types::<D>(domain).into(), limit: ROWS, ..ListQuery::default() };
        let (mut names, mut page) = (Vec::new(), None);
        loop {
            let found = self.store.list(&query, page.as_ref()).await?;
            names.extend(found.rows.into_iter().map(|listed| (listed.workflow_id, listed.row.closed_at.is_some())));
            page = found.next;
            if page.is_none() {
                names.sort();
                return Ok(names);
            }
        }
    }

    /// Deletes all types of a domain, including types that are not deprecated.
    pub(super) async fn forget_types(&self, domain: &str) -> Result<(), Refusal> {
        self.forget_types_of::<WorkflowDefaults>(domain).await?;
        self.forget_types_of::<ActivityDefaults>(domain).await
    }

    async fn forget_types_of<D: TypeKind>(&self, domain: &str) -> Result<(), Refusal> {
        for (full, _) in self.type_names::<D>(domain).await? {
            match self.change_type::<D>(domain, &full, |_| Ok(None)).await {
                Ok(_) | Err(Refusal::UnknownType { .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// Returns the registration of the type that a start or a decision names.
    ///
    /// # Errors
    ///
    /// An error of the store.
    pub async fn registration<D: TypeKind>(&self, domain: &str, full: &str) -> Result<Registration<D>, Refusal> {
        if !self.domain(domain).await?.has_types {
            return Ok(Registration::Unknown);
        }
        let key = key_of::<D>(domain, full);
        let record = match self.types.recall(D::WORD, &key, self.is_shared) {
            Some(record) => record,
            None => {
                let record = self.store.load(&key).await?.map(|head| head.body).unwrap_or_default();
                self.types.remember(D::WORD, &key, record.clone());
                record
            }
        };
        if record.is_empty() {
            return Ok(Registration::Unknown);
        }
        let registered: TypeRecord<D> = read(&record)?;
        Ok(match registered.deprecated_at {
            Some(_) => Registration::Deprecated,
            None => Registration::Known(Box::new(registered.defaults)),
        })
    }
}
