//! Calls for schedules.

use client::body;

use super::super::document::{CallTable, Doc};
use super::super::schedules;
use super::codes::NO_SCHEDULE;
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains/{domain}/schedules",
            L::Reader,
            schedules::list,
            Doc::of("listSchedules", "List schedules, newest first")
                .answers::<body::Schedules>(200, "Page of schedules.")
                .refuses(400, &["bad-page"]),
        )
        .post(
            "/v1/domains/{domain}/schedules",
            L::DomainOperator,
            E::Changes,
            schedules::create,
            Doc::of("createSchedule", "Create a schedule")
                .answers::<body::DescribedSchedule>(201, "The schedule was created.")
                .refuses(409, &["domain-deprecated", "schedule-exists", "type-deprecated"]),
        )
        .get(
            "/v1/domains/{domain}/schedules/{id}",
            L::Reader,
            schedules::show,
            Doc::of("describeSchedule", "Describe a schedule with its recent actions and next times")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .put(
            "/v1/domains/{domain}/schedules/{id}",
            L::DomainOperator,
            E::Changes,
            schedules::change,
            Doc::of("changeSchedule", "Replace a schedule")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE)
                .refuses(409, &["domain-deprecated", "type-deprecated"]),
        )
        .delete(
            "/v1/domains/{domain}/schedules/{id}",
            L::DomainOperator,
            E::Changes,
            schedules::forget,
            Doc::of("deleteSchedule", "Delete a schedule; its runs continue")
                .answers::<serde_json::Map<String, serde_json::Value>>(200, "The schedule was deleted.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/pause",
            L::DomainOperator,
            E::Changes,
            schedules::pause,
            Doc::of("pauseSchedule", "Pause a schedule")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/resume",
            L::DomainOperator,
            E::Changes,
            schedules::resume,
            Doc::of("resumeSchedule", "Resume a paused schedule")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/trigger",
            L::DomainOperator,
            E::Changes,
            schedules::trigger,
            Doc::of("triggerSchedule", "Trigger an action of a schedule now")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE),
        )
        .post(
            "/v1/domains/{domain}/schedules/{id}/backfill",
            L::DomainOperator,
            E::Changes,
            schedules::backfill,
            Doc::of("backfillSchedule", "Execute the actions of a schedule for the times in a past interval")
                .answers::<body::DescribedSchedule>(200, "The schedule.")
                .refuses(404, NO_SCHEDULE)
                .refuses(413, &["run-too-large"]),
        )
        .get(
            "/v1/domains/{domain}/schedules/{id}/next",
            L::Reader,
            schedules::next,
            Doc::of("readNextTimes", "List the next times of a schedule")
                .answers::<body::NextTimes>(200, "Next times.")
                .refuses(404, NO_SCHEDULE),
        )
}
