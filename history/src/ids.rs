//! Ids, how a decider names another run, and what becomes of a workflow id that is asked for again.

use std::fmt;

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::stored_uuid;

/// The position of an event in its history: 1, 2, 3, … without gaps.
pub type EventId = u64;

/// The id of a run; a name for the type, so that signatures say what they mean.
pub type RunId = Uuid;

/// A run as a decider names it. Over SWF's wire it may be any text, and its event shows that text as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum NamedRun {
    /// By its id.
    Id(RunId),
    /// By a text that is not how the id of a run is written.
    Text(String),
}

impl NamedRun {
    /// The run that is meant: the newest one, `None`, where the text is empty; the nil id, which no run has, where it is no id.
    pub fn id(&self) -> Option<RunId> {
        match self {
            Self::Id(id) => Some(*id),
            Self::Text(text) if text.is_empty() => None,
            Self::Text(text) => Some(text.parse().unwrap_or_default()),
        }
    }

    /// Reads a run where it must be named by its id: in a decision's JSON.
    ///
    /// # Errors
    ///
    /// For a text that is no id.
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

/// The 16 bytes of an id, or a text.
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

/// What to do when a workflow id is asked for again after its run has closed.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, minicbor::Encode, minicbor::Decode, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum ReusePolicy {
    /// Only when the last run did not close with success. The default.
    #[default]
    #[n(0)]
    AllowDuplicateFailedOnly,
    /// Always.
    #[n(1)]
    AllowDuplicate,
    /// Never.
    #[n(2)]
    RejectDuplicate,
}

/// What to do when a workflow id is asked for while its run is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ConflictPolicy {
    /// Refuse the start. The default.
    #[default]
    Fail,
    /// Answer with the open run; its start is not looked at.
    UseExisting,
    /// Terminate the open run, then start.
    TerminateExisting,
}

/// What becomes of a child that is open when its parent closes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cbor(index_only)]
pub enum ChildPolicy {
    /// It is terminated. The default.
    #[default]
    #[n(0)]
    Terminate,
    /// It is asked to cancel; its decider chooses what that means.
    #[n(1)]
    RequestCancel,
    /// Nothing: it goes on, and tells nobody how it closed.
    #[n(2)]
    Abandon,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_as_it_was_written_and_meant_by_its_id() {
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
