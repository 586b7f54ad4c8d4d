//! By which keys a command is known when it is repeated.

use super::Command;
use crate::event::RequestKey;
use crate::run::key_of_update;
use crate::start::Start;

impl Command {
    /// The key of the request, where its caller gave it one.
    pub fn request_key(&self) -> Option<RequestKey> {
        match self {
            Self::Signal { key, .. }
            | Self::RequestCancel { key, .. }
            | Self::Terminate { key, .. }
            | Self::Pause { key, .. }
            | Self::Resume { key, .. }
            | Self::RepairDeadlines { key, .. }
            | Self::ActOnActivity { key, .. } => *key,
            Self::StartTurn { .. }
            | Self::CompleteTurn { .. }
            | Self::AnswerUpdates { .. }
            | Self::FailTurn { .. }
            | Self::ReturnTurn { .. }
            | Self::StartActivity { .. }
            | Self::SendAgain { .. }
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
            | Self::SeeToEffects => None,
        }
    }

    /// Every request that it may repeat: its own, or the updates that it answers.
    pub fn requests(&self) -> Vec<RequestKey> {
        match self {
            Self::AnswerUpdates { asked, .. } => asked.iter().map(|asked| key_of_update(&asked.update_id)).collect(),
            command => command.request_key().into_iter().collect(),
        }
    }
}

impl Start {
    /// Every request that it may repeat: its own, or the update `update_id` that comes with it.
    pub fn requests(&self, update_id: Option<&str>) -> Vec<RequestKey> {
        self.key.into_iter().chain(update_id.map(key_of_update)).collect()
    }
}
