//! Bodies of registered workflow and activity types.

use history::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A type to register.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RegisterTypeWith{D}"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterType<D: Default> {
    /// Name without a slash. 1 to 256 characters.
    pub name: String,
    /// Version without a slash. Starts and decisions refer to the type as `name/version`.
    pub version: Option<String>,
    /// Description. At most 4,096 bytes.
    pub description: Option<String>,
    /// Default values for starts or decisions with this type.
    #[serde(default)]
    pub defaults: D,
}

/// A registered type.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RegisteredTypeWith{D}"))]
#[serde(rename_all = "camelCase")]
pub struct RegisteredType<D> {
    /// Name and version as used by starts and decisions.
    pub r#type: String,
    /// Name.
    pub name: String,
    /// Version.
    pub version: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Time of the registration.
    pub created_at: Timestamp,
    /// Time of the deprecation, after which the type cannot be used for new work; absent while it is in use.
    pub deprecated_at: Option<Timestamp>,
    /// Default values for starts or decisions with this type.
    pub defaults: D,
}

/// A registered type in a list.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedType {
    /// Name and version as used by starts and decisions.
    pub r#type: String,
    /// Name.
    pub name: String,
    /// Version.
    pub version: Option<String>,
    /// True if the type is deprecated.
    pub deprecated: bool,
}

/// A page of registered types.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Types {
    /// Types by name.
    pub types: Vec<ListedType>,
    /// Value of `after` for the next page; absent on the last one.
    pub next: Option<String>,
}
