//! Registered types of workflows and activities.

use history::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Registers a type.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RegisterTypeWith{D}"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterType<D: Default> {
    /// Its name, without a slash. 1 to 256 characters.
    pub name: String,
    /// Its version, without a slash; starts and decisions name both together, as `name/version`.
    pub version: Option<String>,
    /// What it is for. At most 4,096 bytes.
    pub description: Option<String>,
    /// What applies where a start or a decision does not say.
    #[serde(default)]
    pub defaults: D,
}

/// A registered type.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RegisteredTypeWith{D}"))]
#[serde(rename_all = "camelCase")]
pub struct RegisteredType<D> {
    /// Its name and version together, as starts and decisions name it.
    pub r#type: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Since when.
    pub created_at: Timestamp,
    /// Since when nothing new of it is to begin; absent while it is in use.
    pub deprecated_at: Option<Timestamp>,
    /// What applies where a start or a decision does not say.
    pub defaults: D,
}

/// A registered type in a list.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedType {
    /// Its name and version together.
    pub r#type: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// Whether it is deprecated.
    pub deprecated: bool,
}

/// Registered types.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Types {
    /// By name.
    pub types: Vec<ListedType>,
    /// The next page's `after`; absent on the last.
    pub next: Option<String>,
}
