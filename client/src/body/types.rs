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
    /// Name of the type, without a slash. 1 to 256 characters.
    pub name: String,
    /// Version of the type, without a slash. Starts and decisions refer to the type as `name/version`.
    pub version: Option<String>,
    /// Description of the type. At most 4,096 bytes.
    pub description: Option<String>,
    /// Default values for starts and decisions that use this type.
    #[serde(default)]
    pub defaults: D,
}

/// A registered type.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RegisteredTypeWith{D}"))]
#[serde(rename_all = "camelCase")]
pub struct RegisteredType<D> {
    /// Name and version of the type, in the form that starts and decisions use.
    pub r#type: String,
    /// Name of the type.
    pub name: String,
    /// Version of the type.
    pub version: Option<String>,
    /// Description of the type.
    pub description: Option<String>,
    /// Time when the type was registered.
    pub created_at: Timestamp,
    /// Time when the type was deprecated; absent if it is not. A deprecated type cannot be used for new work.
    pub deprecated_at: Option<Timestamp>,
    /// Default values for starts and decisions that use this type.
    pub defaults: D,
}

/// A registered type in a list.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedType {
    /// Name and version of the type, in the form that starts and decisions use.
    pub r#type: String,
    /// Name of the type.
    pub name: String,
    /// Version of the type.
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
    /// Types, sorted by name.
    pub types: Vec<ListedType>,
    /// Value of `after` for the next page; absent on the last page.
    pub next: Option<String>,
}
