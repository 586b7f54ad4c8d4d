//! Calls about registered types of workflows and activities.

use history::{ActivityDefaults, WorkflowDefaults};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Client, encode, push_query};
use crate::Error;
use crate::body::{RegisterType, RegisteredType, Types};

/// Kind of a registered type. A workflow type and an activity type may have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisteredKind {
    /// Types of workflows.
    Workflow,
    /// Types of activities.
    Activity,
}

impl RegisteredKind {
    /// Returns the name of the kind: `workflow` or `activity`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Activity => "activity",
        }
    }
}

/// Default values of a registered type. They determine the kind of the type.
pub trait TypeDefaults: Serialize + DeserializeOwned + Default {
    /// Kind of the types that have these default values.
    const KIND: RegisteredKind;
}

impl TypeDefaults for WorkflowDefaults {
    const KIND: RegisteredKind = RegisteredKind::Workflow;
}

impl TypeDefaults for ActivityDefaults {
    const KIND: RegisteredKind = RegisteredKind::Activity;
}

impl Client {
    fn types_url(&self, kind: RegisteredKind, rest: &str) -> String {
        self.domain_url(&format!("{}-types{rest}", kind.word()))
    }

    fn type_url(&self, kind: RegisteredKind, name: &str, rest: &str) -> String {
        self.types_url(kind, &format!("/{}{rest}", encode(name)))
    }

    /// Returns a page of the registered types of a kind. `deprecated` selects only types that are deprecated, or only
    /// types that are not. `after` is the `next` of the previous page.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn types(
        &self,
        kind: RegisteredKind,
        deprecated: Option<bool>,
        limit: Option<usize>,
        after: Option<&str>,
    ) -> Result<Types, Error> {
        let mut query = String::new();
        push_query(&mut query, "deprecated", deprecated.map(|only| only.to_string()).as_deref());
        push_query(&mut query, "limit", limit.map(|limit| limit.to_string()).as_deref());
        push_query(&mut query, "after", after);
        self.get(&self.types_url(kind, &query), None).await
    }

    /// Registers a type.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `type-exists` if the type is registered already.
    pub async fn register_type<D: TypeDefaults>(&self, register: &RegisterType<D>) -> Result<RegisteredType<D>, Error> {
        self.write(&self.types_url(D::KIND, ""), register, None).await
    }

    /// Returns a registered type. `name` is the name, or `name/version` if the type has a version.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `unknown-type` if no such type is registered.
    pub async fn describe_type<D: TypeDefaults>(&self, name: &str) -> Result<RegisteredType<D>, Error> {
        self.get(&self.type_url(D::KIND, name, ""), None).await
    }

    /// Deprecates a type, so that new work cannot use it.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `type-deprecated` if the type is deprecated already.
    pub async fn deprecate_type<D: TypeDefaults>(&self, name: &str) -> Result<RegisteredType<D>, Error> {
        self.change_type(name, "/deprecate").await
    }

    /// Reverts the deprecation of a type.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `type-exists` if the type is not deprecated.
    pub async fn undeprecate_type<D: TypeDefaults>(&self, name: &str) -> Result<RegisteredType<D>, Error> {
        self.change_type(name, "/undeprecate").await
    }

    async fn change_type<D: TypeDefaults>(&self, name: &str, verb: &str) -> Result<RegisteredType<D>, Error> {
        let (_, bytes) = self.send(Method::POST, &self.type_url(D::KIND, name, verb), None, None, None).await?;
        self.read(&bytes)
    }

    /// Deletes a deprecated type.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `type-in-use` if the type is not deprecated.
    pub async fn delete_type(&self, kind: RegisteredKind, name: &str) -> Result<(), Error> {
        self.send(Method::DELETE, &self.type_url(kind, name, ""), None, None, None).await.map(drop)
    }
}
