//! Ids, references to other runs, and policies for the reuse of workflow ids.

use std::fmt;

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::stored_uuid;

/// Position of an event in its history: 1, 2, 3, … without gaps.
pub type EventId = u64;

/// Id of a run.
pub type RunId = Uuid;

/// Run id in a decision. SWF's protocol allows any text as a run id, and the event shows that text unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum NamedRun {
    /// A run id.
    Id(RunId),
    /// A text that is not the canonical form of a run id.
    Text(String),
}

impl NamedRun {
    /// Returns the run id. An empty text yields `None`, which means the newest run. A text that is not an id yields the
    /// nil id, which no run has.
    pub fn id(&self) -> Option<RunId> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Text(text) if text.is_empty() => None,
            Self::Text(text) => Some(text.parse().unwrap_or_default()),
        }
    }

    /// Deserializes an optional run id. In the JSON of a decision, only a valid id is accepted.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a UUID.
    pub(crate) fn by_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        Ok(Option::<RunId>::deserialize(deserializer)?.map(Self::Id))
    }
}

impl From<RunId> for NamedRun {
    fn from(id: RunId) -> Self {
        Self::Id(id)
    }
}

impl From<String> for NamedRun {
    fn from(text: String) -> Self {
        match text.parse::<RunId>() {
            Ok(id) if id.to_string() == text => Self::Id(id),
            _ => Self::Text(text),
        }
    }
}

impl From<NamedRun> for String {
    fn from(run: NamedRun) -> Self {
        run.to_string()
    }
}

impl fmt::Display for NamedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Stores an id as 16 bytes, and any other text as text.
impl<C> Encode<C> for NamedRun {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, ctx: &mut C) -> Result<(), EncodeError<W::Error>> {
        match self {
            Self::Id(id) => stored_uuid::uuid::encode(id, e, ctx),
            Self::Text(text) => e.str(text)?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for NamedRun {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, DecodeError> {
        match d.datatype()? {
            Type::String => d.str().map(|text| Self::Text(text.to_owned())),
            _ => stored_uuid::uuid::decode(d, ctx).map(Self::Id),
        }
    }
}

/// Policy that decides whether a run may be started if a closed run has the same workflow id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum ReusePolicy {
    /// The start is allowed only if the newest run with the workflow id did not close with success. The default.
    #[default]
    #[n(0)]
    AllowDuplicateFailedOnly,
    /// Always allowed.
    #[n(1)]
    AllowDuplicate,
    /// Never allowed.
    #[n(2)]
    RejectDuplicate,
}

/// Policy for a start whose workflow id is in use by an open run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ConflictPolicy {
    /// Refuse the start. The default.
    #[default]
    Fail,
    /// Return the open run, and ignore all other fields of the start.
    UseExisting,
    /// Terminate the open run, then start the new run.
    TerminateExisting,
}

/// Policy for a child that is open when its parent closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum ChildPolicy {
    /// Terminate the child. The default.
    #[default]
    #[n(0)]
    Terminate,
    /// Ask the child to cancel. Its decider chooses how to react.
    #[n(1)]
    RequestCancel,
    /// Leave the child open, and do not report its outcome.
    #[n(2)]
    Abandon,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_run_keeps_its_text_and_yields_its_id() {
        let id = Uuid::from_u128(0x0192_3456_789a_7bcd_8ef0_1234_5678_9abc);
        let canonical = id.to_string();
        for (text, named, meant) in [
            (canonical.clone(), NamedRun::Id(id), Some(id)),
            (canonical.to_uppercase(), NamedRun::Text(canonical.to_uppercase()), Some(id)),
            ("fake".to_owned(), NamedRun::Text("fake".to_owned()), Some(Uuid::nil())),
            (String::new(), NamedRun::Text(String::new()), None),
        ] {
            let run = NamedRun::from(text.clone());
            assert_eq!((&run, run.id(), run.to_string()), (&named, meant, text));
            let stored = minicbor::to_vec(&run).unwrap();
            assert_eq!(minicbor::decode::<NamedRun>(&stored).unwrap(), run);
        }
        assert!(minicbor::decode::<NamedRun>(&minicbor::to_vec(7).unwrap()).is_err());
    }
}
