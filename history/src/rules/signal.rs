//! Signals, sent by a caller or by another run.
//!
//! | signal | run is open or paused | run is closed |
//! |---|---|---|
//! | from a caller | Signal | fails with run-closed |
//! | from a caller, repeated with its key | original response | original response |
//! | from a caller, requiring another version | fails with version-mismatch | fails with run-closed |
//! | from a caller, to a run without a decider | fails with no-decider | fails with run-closed |
//! | from another run | Signal | fails with run-closed, which is reported to the sender |
//! | from another run, repeated | original response | original response |
//!
//! A signal sent with a start is recorded directly after the events of the start. Every Signal event schedules a turn,
//! unless a turn is already waiting. The state keeps only the idempotency key or the origin of a signal.

use crate::event::{EventId, EventKind, Origin, RequestKey, Signal};
use crate::fault::Fault;
use crate::payload::Payload;
use crate::rules::one_activity::must_have_decider;
use crate::start::StartSignal;
use crate::time::Timestamp;
use crate::transition::{CommandOutcome, Transition, must_be_at, must_be_open};
use crate::validate;

/// A signal from a caller.
pub(crate) struct SignalRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) input: Option<&'a Payload>,
    pub(crate) identity: Option<&'a str>,
    /// Required version of the run. At any other version, the signal is refused.
    pub(crate) if_version: Option<EventId>,
    pub(crate) key: Option<RequestKey>,
}

pub(crate) fn validate_start_signal(signal: &StartSignal) -> Result<(), Fault> {
    validate::name("signal.name", &signal.name)?;
    validate::payload("signal.input", signal.input.as_ref())
}

impl Transition {
    pub(crate) fn signal(&mut self, said: &SignalRequest<'_>, now: Timestamp) -> Result<(), Fault> {
        validate::name("name", said.name)?;
        validate::payload("input", said.input)?;
        validate::identity(said.identity)?;
        must_be_open(&self.run)?;
        must_have_decider(&self.run)?;
        must_be_at(&self.run, said.if_version)?;
        let (name, input, identity) = (said.name.to_owned(), said.input.cloned(), said.identity.map(str::to_owned));
        let traceparent = self.author.traceparent;
        self.push_keyed(now, EventKind::Signal(Signal { name, input, identity, origin: None, traceparent }), said.key);
        Ok(())
    }

    pub(crate) fn signal_with_start(&mut self, signal: StartSignal, identity: Option<String>, now: Timestamp) {
        let StartSignal { name, input } = signal;
        let traceparent = self.author.traceparent;
        self.push(now, EventKind::Signal(Signal { name, input, identity, origin: None, traceparent }));
    }

    /// Records a signal from another run. A repeated delivery has no effect.
    pub(crate) fn take_signal(
        &mut self,
        from: &Origin,
        name: &str,
        input: Option<&Payload>,
        now: Timestamp,
    ) -> Result<CommandOutcome, Fault> {
        let (name, input, origin) = (name.to_owned(), input.cloned(), Some(from.clone()));
        let traceparent = self.author.traceparent;
        self.take(from, EventKind::Signal(Signal { name, input, identity: None, origin, traceparent }), now)
    }
}

#[cfg(test)]
mod tests {
    use crate::scene::{Scene, check, keyed_signal, pause, plain, scene, signal, signal_at, signal_of, terminate};
    use crate::{Fault, Start, StartSignal, admit};

    /// Returns a run that has received a signal with an idempotency key and a signal from another run.
    fn given() -> Scene {
        scene().then(&keyed_signal("first", 7)).then(&signal_of(4, 9))
    }

    #[test]
    fn signals_to_an_open_or_paused_run() {
        for given in [given(), given().then(&pause())] {
            let version = given.run.version;
            check(&given, &signal("go"), "Signal(go)");
            check(&given, &keyed_signal("first", 7), "repeats 3");
            check(&given, &signal_at(version), "Signal(go)");
            let moved = Fault::VersionMismatch { expected: version - 1, found: version };
            assert_eq!(admit(&given.run, &signal_at(version - 1), given.now), Err(moved));
            check(&given, &signal_at(version + 1), "fault version-mismatch");
            // If several signals require the same version, only one of them succeeds.
            check(&given.clone().then(&signal_at(version)), &signal_at(version), "fault version-mismatch");
            check(&given, &signal_of(4, 10), "Signal(go)");
            check(&given, &signal_of(4, 9), "repeats 4");
        }
    }

    #[test]
    fn signals_to_a_closed_run() {
        let closed = given().then(&terminate());
        check(&closed, &signal("go"), "fault run-closed");
        check(&closed, &keyed_signal("first", 7), "repeats 3");
        check(&closed, &signal_at(1), "fault run-closed");
        check(&closed, &signal_of(4, 10), "fault run-closed");
        check(&closed, &signal_of(4, 9), "repeats 4");
    }

    #[test]
    fn bookkeeping_events_do_not_change_the_version() {
        let given = given();
        let version = given.run.version;
        check(&given.take(), &signal_at(version), "Signal(go) DeciderScheduled");
    }

    #[test]
    fn a_signal_sent_with_a_start_follows_its_turn() {
        let signal = Some(StartSignal { name: "hello".to_owned(), input: None });
        let names: Vec<_> =
            Scene::of(&Start { signal, ..plain() }).events.iter().map(|event| event.kind.name()).collect();
        assert_eq!(names, ["WorkflowStarted", "DeciderScheduled", "Signal"]);
    }
}
