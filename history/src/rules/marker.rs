//! Markers: values that a decider records in the history for its own use. They have no other effect.
//!
//! | name in RecordMarker | in an SWF run | in any other run |
//! |---|---|---|
//! | begins with [`baton.`](limits::MARKER_PREFIX_RESERVED) | Marker | MarkerFailed (`NameReserved`) |
//! | any other | Marker | Marker |
//!
//! MarkerFailed schedules a turn; Marker does not.

use crate::decision::RecordMarker;
use crate::event::{EventId, EventKind, Marker, MarkerFailed, MarkerFailedCause};
use crate::fault::Fault;
use crate::limits;
use crate::transition::Transition;
use crate::validate;

pub(crate) fn validate_record(field: &impl Fn(&str) -> String, it: &RecordMarker) -> Result<(), Fault> {
    validate::name(&field("name"), &it.name)?;
    validate::payload(&field("details"), it.details.as_ref())
}

pub(crate) fn not_recorded(it: &RecordMarker, cause: MarkerFailedCause, decision_event_id: EventId) -> EventKind {
    EventKind::MarkerFailed(MarkerFailed { name: it.name.clone(), cause, decision_event_id })
}

impl Transition {
    pub(crate) fn record_marker(&self, it: &RecordMarker, decision_event_id: EventId) -> EventKind {
        if it.name.starts_with(limits::MARKER_PREFIX_RESERVED) && !self.run.started.is_swf() {
            return not_recorded(it, MarkerFailedCause::NameReserved, decision_event_id);
        }
        let (name, details) = (it.name.clone(), it.details.clone());
        EventKind::Marker(Marker { name, details, decision_event_id })
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::SwfRun;
    use crate::scene::{Scene, check, marker, plain, scene};
    use crate::{Start, limits};

    #[test]
    fn reserved_marker_names_fail_outside_of_swf_runs() {
        let (ours, swf) = (scene().take(), Scene::of(&Start { swf: Some(SwfRun::default()), ..plain() }).take());
        let reserved = format!("{}m", limits::MARKER_PREFIX_RESERVED);
        check(&swf, &swf.complete([marker(&reserved)]), "DeciderCompleted Marker(baton.m)");
        let failed = "DeciderCompleted MarkerFailed(baton.m, NameReserved) DeciderScheduled";
        check(&ours, &ours.complete([marker(&reserved)]), failed);
        check(&swf, &swf.complete([marker("m")]), "DeciderCompleted Marker(m)");
        check(&ours, &ours.complete([marker("m")]), "DeciderCompleted Marker(m)");
    }
}
