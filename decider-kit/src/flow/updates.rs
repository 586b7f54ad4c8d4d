//! Updates between the code of a flow and the history: which the code takes, those that it has not taken yet, and what it
//! said in this turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use baton_history::{Event, EventKind, Payload, UpdateAnswer, Verdict};

use crate::update::{Rejection, Update};

/// Looks at the input of an update before it is accepted. Not asked when the history is run again.
pub(super) type Validator = Arc<dyn Fn(Option<&Payload>) -> Result<(), Rejection> + Send + Sync>;

/// An update that was accepted, until the code takes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Accepted {
    pub(super) update_id: String,
    pub(super) input: Option<Payload>,
}

/// A name that the code takes updates of.
struct Taking {
    validator: Validator,
    number: u64,
    waiting: VecDeque<Accepted>,
}

/// See the module.
#[derive(Default)]
pub(super) struct UpdateHandlers {
    takes: BTreeMap<String, Taking>,
    numbers: u64,
    /// What was said in this turn, in order.
    said: Vec<UpdateAnswer>,
}

impl UpdateHandlers {
    /// Forgets what the turn before this one said.
    pub(super) fn begin_turn(&mut self) {
        self.said.clear();
    }

    /// What was said in this turn.
    pub(super) fn said(&self) -> &[UpdateAnswer] {
        &self.said
    }

    /// What holds user code.
    pub(super) fn validators(&mut self) -> Vec<Validator> {
        std::mem::take(&mut self.takes).into_values().map(|taking| taking.validator).collect()
    }

    /// What looks at an update of this name.
    ///
    /// # Errors
    ///
    /// The rejection, where the code takes none.
    pub(super) fn validator(&self, name: &str) -> Result<Validator, Rejection> {
        let taking = self.takes.get(name);
        taking.map(|it| it.validator.clone()).ok_or_else(|| Rejection::unknown(self.takes.keys().map(String::as_str)))
    }

    /// The code takes updates of this name from now on; answers the number of its doing so.
    pub(super) fn register(&mut self, name: &str, validator: Validator) -> u64 {
        self.numbers += 1;
        let number = self.numbers;
        let waiting = self.takes.remove(name).map(|before| before.waiting).unwrap_or_default();
        self.takes.insert(name.to_owned(), Taking { validator, number, waiting });
        number
    }

    pub(super) fn validate(&mut self, name: &str, number: u64, validator: Validator) {
        if let Some(taking) = self.takes.get_mut(name).filter(|taking| taking.number == number) {
            taking.validator = validator;
        }
    }

    /// The code takes no more updates of this name: those that it has not taken fail.
    pub(super) fn forget(&mut self, name: &str, number: u64) {
        if self.takes.get(name).is_none_or(|taking| taking.number != number) {
            return;
        }
        for left in self.takes.remove(name).into_iter().flat_map(|taking| taking.waiting) {
            self.say(left.update_id, Verdict::Failed { reason: "not-taken".to_owned(), details: None });
        }
    }

    /// An accepted update is there to be taken. False where the code takes none of its name.
    pub(super) fn bring(&mut self, update: &Update) -> bool {
        let Some(taking) = self.takes.get_mut(&update.name) else { return false };
        taking.waiting.push_back(Accepted { update_id: update.id.clone(), input: update.input.clone() });
        true
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Accepted> {
        self.takes.get_mut(name)?.waiting.pop_front()
    }

    pub(super) fn say(&mut self, update_id: String, verdict: Verdict) {
        match self.said.iter_mut().find(|answer| answer.update_id == update_id) {
            Some(answer) => answer.verdict = verdict,
            None => self.said.push(UpdateAnswer { update_id, verdict }),
        }
    }

    /// What of a turn's recorded events differs from what was said; for people.
    pub(super) fn differs(&self, events: &[Event]) -> Option<(Option<u64>, String, String)> {
        let mut recorded: BTreeMap<&str, (u64, bool, bool)> = BTreeMap::new();
        for event in events {
            let (id, is_done, has_failed) = match &event.kind {
                EventKind::UpdateAccepted(it) => (&it.update_id, false, false),
                EventKind::UpdateCompleted(it) => (&it.update_id, true, false),
                EventKind::UpdateFailed(it) => (&it.update_id, false, true),
                _ => continue,
            };
            recorded.insert(id, (event.id, is_done, has_failed));
        }
        for answer in &self.said {
            let said = match answer.verdict {
                Verdict::Rejected { .. } => continue,
                Verdict::Done { .. } => (true, false),
                Verdict::Failed { .. } => (false, true),
                Verdict::Later => (false, false),
            };
            let found = recorded.remove(answer.update_id.as_str());
            if found.map(|(_, is_done, has_failed)| (is_done, has_failed)) != Some(said) {
                let expected = found.map_or("nothing about it".to_owned(), |it| told(&answer.update_id, (it.1, it.2)));
                return Some((found.map(|it| it.0), expected, told(&answer.update_id, said)));
            }
        }
        let (id, (event_id, is_done, has_failed)) = recorded.into_iter().next()?;
        Some((Some(event_id), told(id, (is_done, has_failed)), format!("nothing about update `{id}`")))
    }
}

fn told(update_id: &str, (is_done, has_failed): (bool, bool)) -> String {
    let what = if is_done {
        "UpdateCompleted"
    } else if has_failed {
        "UpdateFailed"
    } else {
        "UpdateAccepted"
    };
    format!("{what} `{update_id}`")
}

/// Whether an event is about an update.
pub(super) fn is_about_update(event: &Event) -> bool {
    matches!(event.kind, EventKind::UpdateAccepted(_) | EventKind::UpdateCompleted(_) | EventKind::UpdateFailed(_))
}

/// The updates that a turn accepted.
pub(super) fn accepted(events: &[Event]) -> Vec<Update> {
    let accepted = |event: &Event| match &event.kind {
        EventKind::UpdateAccepted(it) => Some(Update {
            id: it.update_id.clone(),
            name: it.name.clone(),
            input: it.input.clone(),
            identity: it.identity.clone(),
        }),
        _ => None,
    };
    events.iter().filter_map(accepted).collect()
}
