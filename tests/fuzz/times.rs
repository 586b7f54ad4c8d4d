//! Times of a schedule: cron lines, calendars, intervals.

use history::{ScheduleSpec, ScheduleTimes, Timestamp};

/// Times that are looked for.
const TIMES: usize = 20;

/// A spec as JSON, or else a line of cron.
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
