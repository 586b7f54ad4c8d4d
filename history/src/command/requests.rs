//! Idempotency keys of commands.

use super::Command;
use crate::event::RequestKey;
use crate::run::key_of_update;
use crate::start::Start;

impl Command {
    /// Returns the idempotency key of the request, if the caller sent one.
    pub fn request_key(&self) -> Option<RequestKey> {
        match self {
            Self::Signal { key, .. }
            | Self::RequestCancel { key, .. }
            | Self::Terminate { key, .. }
            | Self::Pause { key, .. }
            | Self::Resume { key, .. }
            | Self::RepairDeadlines { key, .. }
            | Self::ActOnActivity { key, .. }
            | Self::RetryActivities { key, .. } => *key,
            Self::StartTurn { .. }
            | Self::CompleteTurn { .. }
            | Self::AnswerUpdates { .. }
            | Self::FailTurn { .. }
            | Self::ReturnTurn { .. }
            | Self::StartActivity { .. }
            | Self::Redeliver { .. }
            | Self::SucceedActivity { .. }
            | Self::FailActivity { .. }
            | Self::CancelActivity { .. }
            | Self::ReturnActivity { .. }
            | Self::FireDeadlines { .. }
            | Self::TakeSignal { .. }
            | Self::TakeCancelRequest { .. }
            | Self::TakeParentClose { .. }
            | Self::TakeChildClose { .. }
            | Self::SettleEffect { .. }
            | Self::RetryEffects => None,
        }
    }

    /// Returns the keys of all requests that the command may repeat: its own key, or the keys of the updates that it
    /// answers.
    pub fn requests(&self) -> Vec<RequestKey> {
        match self {
            Self::AnswerUpdates { proposed, .. } => {
                proposed.iter().map(|proposed| key_of_update(&proposed.update_id)).collect()
            }
            command => command.request_key().into_iter().collect(),
        }
    }
}

impl Start {
    /// Returns the keys of all requests that the start may repeat: its own key, and the key of the update `update_id`.
    pub fn requests(&self, update_id: Option<&str>) -> Vec<RequestKey> {
        self.key.into_iter().chain(update_id.map(key_of_update)).collect()
    }
}
