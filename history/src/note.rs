//! Notes on the attempts of an activity: the runner that made the attempt, and its outcome.
//!
//! A run keeps short notes in its state. To save space, longer notes move to a pack, which is stored outside the state
//! (ADR 18). This module defines the stored form of notes; the service decides where packs are stored.

use minicbor::{Decode, Encode};

use crate::caller::CallerName;
use crate::event::{ActivityStarted, Event, EventKind, LastFailure};
use crate::payload::{PackRef, Payload};
use crate::run::{HeldAttempt, Run};

/// Maximum length in bytes of a note that stays in the state. A reference to a pack would take as much space.
pub(crate) const NOTE_TEXT_MAX: usize = 20;

/// Texts of an attempt: failure reason and details, the runner's identity, and the name of its credential.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Note {
    #[n(0)]
    reason: Option<String>,
    #[n(1)]
    details: Option<Payload>,
    #[n(2)]
    identity: Option<String>,
    /// Location of the identity, if it was moved to a pack earlier than the other texts.
    #[n(3)]
    kept: Option<PackRef>,
    #[n(4)]
    by: Option<CallerName>,
}

impl Note {
    /// Decodes the bytes of a note that [`Run::keep_notes`] has encoded. Returns `None` if they are not a note.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        minicbor::decode(bytes).ok()
    }
}

/// A value that contains the texts of a note, or the location of texts that were moved to a pack.
pub(crate) trait HasNote {
    /// Returns the location of the texts that were moved to a pack.
    fn kept(&self) -> Option<PackRef>;

    /// Returns the total length in bytes of the texts that are still in the value.
    fn text_bytes(&self) -> usize;

    /// Moves the texts of the value to a pack. `at` stores them and returns the location.
    fn keep(&mut self, at: impl FnOnce(Note) -> PackRef);

    /// Restores texts that were read from a pack. The restored note may contain the location of another pack.
    fn fill(&mut self, note: Note);
}

fn bytes(text: Option<&String>) -> usize {
    text.map_or(0, String::len)
}

impl HasNote for LastFailure {
    fn kept(&self) -> Option<PackRef> {
        self.kept
    }

    fn text_bytes(&self) -> usize {
        bytes(self.reason.as_ref()) + bytes(self.identity.as_ref()) + self.details.as_ref().map_or(0, Payload::len)
    }

    fn keep(&mut self, at: impl FnOnce(Note) -> PackRef) {
        let (reason, details, identity) = (self.reason.take(), self.details.take(), self.identity.take());
        self.kept = Some(at(Note { reason, details, identity, kept: self.kept, by: None }));
    }

    fn fill(&mut self, note: Note) {
        self.reason = self.reason.take().or(note.reason);
        self.details = self.details.take().or(note.details);
        self.identity = self.identity.take().or(note.identity);
        self.kept = note.kept;
    }
}

impl HasNote for HeldAttempt {
    fn kept(&self) -> Option<PackRef> {
        self.kept
    }

    fn text_bytes(&self) -> usize {
        bytes(self.identity.as_ref()) + self.by.as_ref().map_or(0, |by| by.as_str().len())
    }

    fn keep(&mut self, at: impl FnOnce(Note) -> PackRef) {
        let (identity, by) = (self.identity.take(), self.by.take());
        self.kept = Some(at(Note { identity, by, kept: self.kept, ..Note::default() }));
    }

    fn fill(&mut self, note: Note) {
        self.identity = self.identity.take().or(note.identity);
        self.by = self.by.take().or(note.by);
        self.kept = note.kept;
    }
}

/// Note of a started attempt. The name of the credential is a field of [`Event`], whereas the other texts are in
/// [`ActivityStarted`].
struct StartedNote<'a>(&'a mut ActivityStarted, &'a mut Option<CallerName>);

impl HasNote for StartedNote<'_> {
    fn kept(&self) -> Option<PackRef> {
        self.0.kept
    }

    fn text_bytes(&self) -> usize {
        bytes(self.0.identity.as_ref()) + self.1.as_ref().map_or(0, |by| by.as_str().len())
    }

    fn keep(&mut self, at: impl FnOnce(Note) -> PackRef) {
        let (identity, by) = (self.0.identity.take(), self.1.take());
        self.0.kept = Some(at(Note { identity, by, kept: self.0.kept, ..Note::default() }));
    }

    fn fill(&mut self, note: Note) {
        self.0.identity = self.0.identity.take().or(note.identity);
        *self.1 = self.1.take().or(note.by);
        self.0.kept = note.kept;
    }
}

/// Returns `true` if moving the texts of the value to a pack saves space.
fn is_long(noted: &impl HasNote) -> bool {
    let text = noted.text_bytes();
    // A value that already has a location takes space for it. Moving its remaining texts, even short texts, saves their
    // space.
    text > NOTE_TEXT_MAX || (text > 0 && noted.kept().is_some())
}

impl Run {
    /// Returns the total length in bytes of the notes that can be moved to a pack.
    pub fn long_notes(&self) -> usize {
        let attempts = self.activities.values().filter_map(|activity| activity.attempts.as_ref());
        attempts
            .map(|attempts| {
                let held = attempts.held.as_ref().filter(|held| is_long(*held));
                let failure = attempts.last_failure.as_ref().filter(|failure| is_long(*failure));
                held.map_or(0, HasNote::text_bytes) + failure.map_or(0, HasNote::text_bytes)
            })
            .sum()
    }

    /// Moves all long notes to a pack. `put` stores the bytes of one note and returns its location.
    pub fn keep_notes(&mut self, mut put: impl FnMut(&[u8]) -> PackRef) {
        let mut put = |note: Note| put(&minicbor::to_vec(&note).expect("writing to memory does not fail"));
        for attempts in self.activities.attempts_mut() {
            if let Some(held) = attempts.held.as_mut().filter(|held| is_long(*held)) {
                held.keep(&mut put);
            }
            if let Some(failure) = attempts.last_failure.as_mut().filter(|failure| is_long(*failure)) {
                failure.keep(&mut put);
            }
        }
    }

    /// Returns the locations of all notes of the state that were moved to packs.
    pub fn notes_kept(&self) -> Vec<PackRef> {
        let attempts = self.activities.values().filter_map(|activity| activity.attempts.as_ref());
        attempts
            .flat_map(|attempts| {
                let held = attempts.held.as_ref().and_then(HasNote::kept);
                held.into_iter().chain(attempts.last_failure.as_ref().and_then(HasNote::kept))
            })
            .collect()
    }

    /// Restores notes from packs. `read` reads a note at a location. If `read` returns `None`, that note stays in its
    /// pack.
    pub fn fill_notes(&mut self, mut read: impl FnMut(PackRef) -> Option<Note>) {
        for attempts in self.activities.attempts_mut() {
            if let Some(held) = &mut attempts.held {
                fill(held, &mut read);
            }
            if let Some(failure) = &mut attempts.last_failure {
                fill(failure, &mut read);
            }
        }
    }
}

impl Event {
    /// Returns the locations of the event's notes that were moved to packs.
    pub fn notes_kept(&self) -> impl Iterator<Item = PackRef> {
        let (started, failure) = match &self.kind {
            EventKind::ActivityStarted(it) => (it.kept, it.last_failure.as_ref()),
            EventKind::ActivityPaused(it) => (None, it.last_failure.as_ref()),
            EventKind::ActivityTimedOut(it) => (None, it.last_failure.as_ref()),
            EventKind::ActivityScheduledTimeout(it) => (None, it.last_failure.as_ref()),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::DeciderTimedOut(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivitySuccess(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduled(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerExpired(_)
            | EventKind::TimerCanceled(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildScheduled(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => (None, None),
        };
        started.into_iter().chain(failure.and_then(HasNote::kept))
    }

    /// Restores notes from packs. `read` works as in [`Run::fill_notes`].
    pub fn fill_notes(&mut self, mut read: impl FnMut(PackRef) -> Option<Note>) {
        let failure = match &mut self.kind {
            EventKind::ActivityStarted(it) => {
                fill(&mut StartedNote(&mut *it, &mut self.by), &mut read);
                it.last_failure.as_mut()
            }
            EventKind::ActivityPaused(it) => it.last_failure.as_mut(),
            EventKind::ActivityTimedOut(it) => it.last_failure.as_mut(),
            EventKind::ActivityScheduledTimeout(it) => it.last_failure.as_mut(),
            EventKind::WorkflowStarted(_)
            | EventKind::WorkflowSuccess(_)
            | EventKind::WorkflowFailed(_)
            | EventKind::WorkflowCanceled(_)
            | EventKind::WorkflowTimedOut(_)
            | EventKind::WorkflowTerminated(_)
            | EventKind::WorkflowCloseFailed(_)
            | EventKind::WorkflowCancelRequested(_)
            | EventKind::DeciderScheduled(_)
            | EventKind::DeciderStarted(_)
            | EventKind::DeciderCompleted(_)
            | EventKind::DeciderTimedOut(_)
            | EventKind::DeciderFailed(_)
            | EventKind::ActivityScheduled(_)
            | EventKind::ActivityScheduleFailed(_)
            | EventKind::ActivitySuccess(_)
            | EventKind::ActivityFailed(_)
            | EventKind::ActivityCanceled(_)
            | EventKind::ActivityTaskCancel(_)
            | EventKind::ActivityTaskCancelFailed(_)
            | EventKind::TimerScheduled(_)
            | EventKind::TimerScheduleFailed(_)
            | EventKind::TimerExpired(_)
            | EventKind::TimerCanceled(_)
            | EventKind::TimerCancelFailed(_)
            | EventKind::Signal(_)
            | EventKind::Marker(_)
            | EventKind::MarkerFailed(_)
            | EventKind::WorkflowContinuedAsNew(_)
            | EventKind::ChildScheduled(_)
            | EventKind::ChildScheduleFailed(_)
            | EventKind::ChildStarted(_)
            | EventKind::ChildSuccess(_)
            | EventKind::ChildFailed(_)
            | EventKind::ChildTimedOut(_)
            | EventKind::ChildCanceled(_)
            | EventKind::ChildTerminated(_)
            | EventKind::ExternalSignalScheduled(_)
            | EventKind::ExternalSignalDelivered(_)
            | EventKind::ExternalSignalFailed(_)
            | EventKind::ExternalCancelScheduled(_)
            | EventKind::ExternalCancelDelivered(_)
            | EventKind::ExternalCancelFailed(_)
            | EventKind::UpdateAccepted(_)
            | EventKind::UpdateCompleted(_)
            | EventKind::UpdateFailed(_)
            | EventKind::ActivityResumed(_)
            | EventKind::ActivityRetried(_)
            | EventKind::ActivityOptionsChanged(_)
            | EventKind::WorkflowPaused(_)
            | EventKind::WorkflowResumed(_)
            | EventKind::WorkflowReset(_) => None,
        };
        if let Some(failure) = failure {
            fill(failure, &mut read);
        }
    }
}

fn fill(noted: &mut impl HasNote, read: &mut impl FnMut(PackRef) -> Option<Note>) {
    // A restored note can contain the location of another pack with its remaining texts.
    while let Some(note) = noted.kept().and_then(&mut *read) {
        noted.fill(note);
    }
}

#[cfg(test)]
mod tests {
    use crate::author::Author;
    use crate::caller::CallerName;
    use crate::event::ActivityTimeouts;
    use crate::event::EventKind;
    use crate::payload::PackRef;
    use crate::scene::{scene, schedule_with_retry};
    use crate::{Command, Links, Note, RetryPolicy, Transition};

    #[test]
    fn a_started_event_shows_its_credential_from_a_pack() {
        let scene = scene().decide([schedule_with_retry("a", RetryPolicy::default(), ActivityTimeouts::default())]);
        let of = |name: &str| Author::named(Some(CallerName::new(name).unwrap()));
        for identity in [None, Some("a runner with a long name".to_owned())] {
            let mut transition = Transition::linked(scene.run.clone(), Links::default());
            let start = Command::StartActivity { scheduled_event_id: 5, identity: identity.clone(), poll: None };
            transition.admit_as(&start, &of("the runner that took it"), scene.now).unwrap();
            let mut pack = Vec::new();
            let place = PackRef { op: 1, offset: 0, len: 0 };
            transition.run_mut().keep_notes(|bytes| {
                pack = bytes.to_vec();
                place
            });
            let task = transition.run().activities.get(&5).unwrap().task(5).unwrap();
            let success = Command::SucceedActivity { task, result: None };
            transition.admit_as(&success, &of("another"), scene.now).unwrap();
            let mut events = transition.into_parts().1.into_iter();
            let mut started = events.next().unwrap();
            assert_eq!((started.by.clone(), started.notes_kept().collect::<Vec<_>>()), (None, vec![place]));
            started.fill_notes(|_| Note::read(&pack));
            let EventKind::ActivityStarted(it) = &started.kind else { panic!("{started:?}") };
            assert_eq!((&it.identity, it.kept), (&identity, None));
            assert_eq!(started.by.unwrap().as_str(), "the runner that took it");
            assert_eq!(events.next().unwrap().by.unwrap().as_str(), "another");
        }
    }
}
