//! Fuzz target for the times of a schedule: cron expressions, calendars and intervals.

use history::{ScheduleSpec, ScheduleTimes, Timestamp};

/// Number of times to compute.
const TIMES: usize = 20;

/// Target `times`: the input is a schedule spec as JSON, or otherwise a cron expression. Each computed time must be
/// later than the previous one.
pub(super) fn times(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let spec = serde_json::from_str(text)
        .unwrap_or_else(|_| ScheduleSpec { cron: vec![text.to_owned()], ..ScheduleSpec::default() });
    let Ok(times) = ScheduleTimes::new("spec", &spec) else { return };
    let mut after = Timestamp::from_millis(simulation::manual_clock::BEGIN);
    for _ in 0..TIMES {
        let Some(next) = times.next(after) else { return };
        assert!(next.at > after, "{} is not after {after}", next.at);
        after = next.at;
    }
}
