use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZoneDatabase};
use proptest::prelude::*;

use super::*;
use crate::schedule::Calendar;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn spec(cron: &[&str], zone: &str) -> ScheduleSpec {
    ScheduleSpec {
        cron: cron.iter().map(|text| (*text).to_owned()).collect(),
        time_zone: Some(zone.to_owned()),
        ..ScheduleSpec::default()
    }
}

fn read(spec: &ScheduleSpec) -> ScheduleTimes {
    ScheduleTimes::new("spec", spec).unwrap_or_else(|fault| panic!("{spec:?}: {fault}"))
}

/// Compares the first times after an instant. They are written in UTC; seconds are written only if they are not zero.
#[track_caller]
fn check(spec: &ScheduleSpec, after: &str, expected: &[&str]) {
    let found = read(spec).upcoming(at(after), expected.len()).times;
    let found: Vec<_> = found.iter().map(|at| at.to_string().replace(":00.000Z", "Z").replace(".000Z", "Z")).collect();
    assert_eq!(found, expected, "{spec:?}");
}

#[test]
fn expressions_match_the_times_of_crontabs() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("*/15 * * * *", "2026-01-01T00:00:00Z", &["2026-01-01T00:15Z", "2026-01-01T00:30Z"]),
        ("30 2 * * *", "2026-01-01T02:29:59.999Z", &["2026-01-01T02:30Z", "2026-01-02T02:30Z"]),
        ("30 2 * * *", "2026-01-01T02:30:00Z", &["2026-01-02T02:30Z"]),
        ("0 9 * * MON-FRI", "2026-01-02T12:00:00Z", &["2026-01-05T09:00Z", "2026-01-06T09:00Z"]),
        ("0 0 * jan,Jul *", "2026-01-31T12:00:00Z", &["2026-07-01T00:00Z"]),
        // The last day, the last Friday, the second Tuesday, and the weekday nearest to the 15th, also across the end
        // of the year.
        ("0 0 L * *", "2026-11-30T12:00:00Z", &["2026-12-31T00:00Z", "2027-01-31T00:00Z", "2027-02-28T00:00Z"]),
        ("0 0 * * FRIL", "2026-11-28T00:00:00Z", &["2026-12-25T00:00Z", "2027-01-29T00:00Z"]),
        ("0 0 * * TUE#2", "2026-11-28T00:00:00Z", &["2026-12-08T00:00Z", "2027-01-12T00:00Z"]),
        ("0 0 15W * *", "2026-07-31T00:00:00Z", &["2026-08-14T00:00Z", "2026-09-15T00:00Z"]),
        // A time matches if the day of the month or the day of the week matches, as in crontab(5).
        ("0 0 13 * FRI", "2026-11-01T00:00:00Z", &["2026-11-06T00:00Z", "2026-11-13T00:00Z", "2026-11-20T00:00Z"]),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", &["2028-02-29T00:00Z", "2032-02-29T00:00Z"]),
        // The expressions have seconds before the five fields, or also a year after them.
        ("*/20 * * * * *", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z"]),
        ("0 30 12 1 1 * 2028", "2026-01-01T00:00:00Z", &["2028-01-01T12:30Z"]),
        ("@monthly", "2026-01-15T00:00:00Z", &["2026-02-01T00:00Z", "2026-03-01T00:00Z"]),
        ("@hourly", "2026-01-15T00:00:00Z", &["2026-01-15T01:00Z"]),
    ];
    for (cron, after, expected) in cases {
        check(&spec(&[cron], "UTC"), after, expected);
    }
}

#[test]
fn a_skipped_local_time_moves_by_the_clock_change() {
    // Clocks are put forward in Berlin on 2026-03-29, from 02:00 to 03:00.
    let berlin = |cron: &str| spec(&[cron], "Europe/Berlin");
    let night = "2026-03-28T12:00:00Z";
    check(&berlin("30 2 * * *"), night, &["2026-03-29T01:30Z", "2026-03-30T00:30Z"]);
    check(&berlin("0 2,3 * * *"), night, &["2026-03-29T01:00Z", "2026-03-30T00:00Z", "2026-03-30T01:00Z"]);
    check(&berlin("0 3 * * *"), night, &["2026-03-29T01:00Z", "2026-03-30T01:00Z"]);
    check(
        &berlin("*/30 * * * *"),
        "2026-03-29T00:00:00Z",
        &["2026-03-29T00:30Z", "2026-03-29T01:00Z", "2026-03-29T01:30Z"],
    );
    check(
        &berlin("30 * * * *"),
        "2026-03-29T00:00:00Z",
        &["2026-03-29T00:30Z", "2026-03-29T01:30Z", "2026-03-29T02:30Z"],
    );
    // Clocks are put forward by half an hour on Lord Howe on 2026-10-04, and by a whole day in Samoa on 2011-12-30.
    check(
        &spec(&["15 2 * * *"], "Australia/Lord_Howe"),
        "2026-10-03T12:00:00Z",
        &["2026-10-03T15:45Z", "2026-10-04T15:15Z"],
    );
    check(
        &spec(&["0 12 30 12 *"], "Pacific/Apia"),
        "2011-12-01T00:00:00Z",
        &["2011-12-30T22:00Z", "2012-12-29T22:00Z"],
    );
}

#[test]
fn a_repeated_local_time_counts_once_unless_hourly() {
    // Clocks are put back in Berlin on 2026-10-25, from 03:00 to 02:00, and in New York on 2026-11-01, from 02:00 to
    // 01:00.
    let berlin = |cron: &str| spec(&[cron], "Europe/Berlin");
    let night = "2026-10-24T12:00:00Z";
    check(&berlin("30 2 * * *"), night, &["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
    check(
        &spec(&["30 1 * * *"], "America/New_York"),
        "2026-10-31T12:00:00Z",
        &["2026-11-01T05:30Z", "2026-11-02T06:30Z"],
    );
    check(&berlin("*/30 2 * * *"), night, &["2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-26T01:00Z"]);
    let hourly = &["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30Z"];
    check(&berlin("30 * * * *"), "2026-10-25T00:00:00Z", hourly);
    check(
        &berlin("30 */2 * * *"),
        "2026-10-25T00:00:00Z",
        &["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T03:30Z"],
    );
    // The search starts in the second of the two equal hours.
    check(&berlin("30 2 * * *"), "2026-10-25T01:10:00Z", &["2026-10-26T01:30Z"]);
}

#[test]
fn calendars_require_both_days_and_default_to_midnight() {
    let friday =
        Calendar { day_of_month: Some("13".to_owned()), day_of_week: Some("FRI".to_owned()), ..Calendar::default() };
    let with = |calendars| ScheduleSpec { calendars, ..ScheduleSpec::default() };
    check(
        &with(vec![friday]),
        "2026-01-01T00:00:00Z",
        &["2026-02-13T00:00Z", "2026-03-13T00:00Z", "2026-11-13T00:00Z"],
    );
    let office = Calendar {
        hour: Some("9-17/4".to_owned()),
        minute: Some("30".to_owned()),
        year: Some("2027".to_owned()),
        ..Calendar::default()
    };
    check(
        &with(vec![office]),
        "2026-01-01T00:00:00Z",
        &["2027-01-01T09:30Z", "2027-01-01T13:30Z", "2027-01-01T17:30Z"],
    );
}

#[test]
fn intervals_count_from_1970_with_their_phase() {
    let interval = |every, phase| Interval { every: Duration::from_secs(every), phase: Duration::from_secs(phase) };
    let spec = |intervals| ScheduleSpec { intervals, ..ScheduleSpec::default() };
    check(&spec(vec![interval(3_600, 0)]), "2026-01-01T00:59:59.999Z", &["2026-01-01T01:00Z", "2026-01-01T02:00Z"]);
    check(&spec(vec![interval(3_600, 900)]), "2026-01-01T01:15:00Z", &["2026-01-01T02:15Z"]);
    check(&spec(vec![interval(7 * 86_400, 0)]), "2026-01-01T00:00:00Z", &["2026-01-08T00:00Z"]);
    check(
        &spec(vec![interval(7_200, 0), interval(10_800, 0)]),
        "2026-01-01T00:00:00Z",
        &["2026-01-01T02:00Z", "2026-01-01T03:00Z", "2026-01-01T04:00Z", "2026-01-01T06:00Z", "2026-01-01T08:00Z"],
    );
    check(&spec(vec![interval(100, 99)]), "1970-01-01T00:00:00Z", &["1970-01-01T00:01:39Z"]);
}

#[test]
fn exclusions_bounds_and_unions_hold_together() {
    let mut it = spec(&["0 9 * * *", "0 12 * * SAT"], "Europe/Berlin");
    it.exclude = vec![
        Calendar { day_of_week: Some("SUN".to_owned()), ..Calendar::default() },
        Calendar { month: Some("DEC".to_owned()), day_of_month: Some("24-26".to_owned()), ..Calendar::default() },
    ];
    it.start_at = Some(at("2026-12-18T08:00:00Z"));
    it.end_at = Some(at("2026-12-28T08:00:00Z"));
    let expected = [
        "2026-12-18T08:00Z",
        "2026-12-19T08:00Z",
        "2026-12-19T11:00Z",
        "2026-12-21T08:00Z",
        "2026-12-22T08:00Z",
        "2026-12-23T08:00Z",
        "2026-12-28T08:00Z",
    ];
    check(&it, "2026-01-01T00:00:00Z", &expected);
    assert_eq!(read(&it).upcoming(at("2026-01-01T00:00:00Z"), 100).times.len(), expected.len(), "both ends count");
    assert_eq!(read(&it).next(at("2026-12-28T08:00:00Z")), None);
}

#[test]
fn a_search_through_exclusions_is_interrupted() {
    let mut it = spec(&["* * * * *"], "UTC");
    it.exclude = vec![Calendar { year: Some("2026".to_owned()), ..Calendar::default() }];
    let times = read(&it);
    let mut next = times.next(at("2026-12-31T00:00:00Z")).unwrap();
    assert!(!next.is_named && next.at == at("2026-12-31T16:40:00Z"), "{next:?}");
    next = times.next(next.at).unwrap();
    assert!(next.is_named && next.at == at("2027-01-01T00:00:00Z"), "{next:?}");
}

/// Returns a hundred different expressions, each of which matches every second.
fn every_second(exclude: Vec<Calendar>) -> ScheduleSpec {
    let cron = (0..100).map(|at| format!("* * {hour}-23,0-{hour} * * *", hour = at % 24)).collect::<Vec<_>>();
    let mut it = spec(&cron.iter().map(String::as_str).collect::<Vec<_>>(), "UTC");
    it.exclude = exclude;
    it
}

#[test]
fn an_exclusion_of_everything_leaves_no_time_and_costs_nothing() {
    for year in [None, Some("*".to_owned())] {
        let it = every_second(vec![Calendar { year, ..Calendar::default() }; 100]);
        let times = read(&it);
        let mut search = times.search(at("2026-01-01T00:00:00Z"));
        assert_eq!((search.next(usize::MAX), search.evaluations()), (None, 0));
    }
}

#[test]
fn evaluations_of_searches_and_lists_are_limited() {
    let half = |seconds: &str| Calendar { second: Some(seconds.to_owned()), ..Calendar::default() };
    let exclude = (0..100).map(|at| half(if at < 99 { "0-29" } else { "30-59" })).collect();
    let times = read(&every_second(exclude));
    let begin = at("2026-01-01T00:00:00Z");
    let mut search = times.search(begin);
    let next = search.next(EVALUATIONS_AT_ONCE).unwrap();
    assert!(!next.is_named && next.at > begin, "{next:?}");
    let step = 200;
    assert!((EVALUATIONS_AT_ONCE..EVALUATIONS_AT_ONCE + 2 * step).contains(&search.evaluations()));
    let mut listing = times.list(begin, 1_000);
    let mut steps = 0;
    while !listing.advance() {
        steps += 1;
    }
    let evaluations = listing.search.evaluations();
    assert!((EVALUATIONS_MAX..EVALUATIONS_MAX + 2 * step).contains(&evaluations), "{evaluations}");
    assert!(steps >= EVALUATIONS_MAX / (LISTED_AT_ONCE + 2 * step) - 1, "other tasks can run in between: {steps}");
    let Upcoming { times: found, cut_at } = listing.found();
    assert!(found.is_empty() && cut_at.is_some_and(|at| at > next.at), "{cut_at:?}");
}

#[test]
fn the_largest_list_fits_into_the_evaluation_limit() {
    let never = Calendar { year: Some("2099".to_owned()), ..Calendar::default() };
    let found = read(&every_second(vec![never; 100])).upcoming(at("2026-01-01T00:00:00Z"), 1_000);
    assert_eq!((found.times.len(), found.cut_at), (1_000, None));
    assert_eq!(found.times.last(), Some(&at("2026-01-01T00:16:40Z")));
}

#[test]
fn jitter_never_reaches_beyond_the_next_time() {
    let mut it = spec(&["*/10 * * * *"], "UTC");
    let time = at("2026-01-01T00:10:00Z");
    assert_eq!(read(&it).action_at(time, u64::MAX), time);
    it.jitter = Some(Duration::from_secs(60));
    assert_eq!(read(&it).action_at(time, 0), time);
    assert_eq!(read(&it).action_at(time, 1 << 63), time.plus(Duration::from_secs(30)));
    assert!(read(&it).action_at(time, u64::MAX) < time.plus(Duration::from_secs(60)));
    it.jitter = Some(Duration::from_secs(3_600));
    assert!(read(&it).action_at(time, u64::MAX) < at("2026-01-01T00:20:00Z"));
}

#[test]
fn an_invalid_spec_names_the_field_and_what_was_expected() {
    let cron = |text: &str| spec(&["0 0 * * *", text], "UTC");
    let calendar = |it: Calendar| ScheduleSpec { calendars: vec![it], ..ScheduleSpec::default() };
    let some = |text: &str| Some(text.to_owned());
    let interval = |every, phase| ScheduleSpec {
        intervals: vec![Interval { every: Duration::from_millis(every), phase: Duration::from_millis(phase) }],
        ..ScheduleSpec::default()
    };
    let over = limits::SCHEDULE_ENTRIES_MAX + 1;
    let cases = [
        (ScheduleSpec::default(), "`spec` specifies no time"),
        (cron("* * *"), "`spec.cron[1]` has 3 fields, expected 5 (minute, hour, day of month, month, day of week)"),
        (cron("* * * * * * * *"), "`spec.cron[1]` has 8 fields"),
        (cron(""), "`spec.cron[1]` has 0 fields"),
        (cron("0 25 * * *"), "`spec.cron[1]` has `25` as field 2, the hour; expected 0 to 23"),
        (cron("0 0 25 * * *"), "`spec.cron[1]` has `25` as field 3, the hour; expected 0 to 23"),
        (cron("60 * * * *"), "`spec.cron[1]` has `60` as field 1, the minute; expected 0 to 59"),
        (cron("0 0 32 * *"), "has `32` as field 3, the day of month; expected 1 to 31"),
        (cron("0 0 * FOO *"), "has `FOO` as field 4, the month; expected 1 to 12, or `JAN` to `DEC`"),
        (cron("0 0 * * FRI#6"), "has `FRI#6` as field 5, the day of week; expected"),
        (cron("0 0 * * 8"), "has `8` as field 5, the day of week"),
        (cron(", * * * *"), "has `,` as field 1, the minute; expected 0 to 59 (it is a list with an empty entry)"),
        (cron("0 5,,6 * * *"), "has `5,,6` as field 2, the hour"),
        (cron("0 0 * * ,FRI"), "has `,FRI` as field 5, the day of week"),
        (cron("*/0 * * * *"), "has `*/0` as field 1, the minute"),
        (cron("10-5 * * * *"), "has `10-5` as field 1, the minute"),
        (cron("0 0 30 2 *"), "`spec.cron[1]` is `0 0 30 2 *`, which matches no existing day"),
        (cron("0 0 31 4,6,9,11 *"), "which matches no existing day"),
        (cron("@reboot"), "`spec.cron[1]` is `@reboot`, expected `@yearly`"),
        (spec(&["* * * * *"], "Mars/Base"), "`spec.timeZone` is `Mars/Base`, expected the name of a time zone"),
        (spec(&["* * * * *"], ""), "`spec.timeZone` is ``"),
        (
            calendar(Calendar { hour: some("24"), ..Calendar::default() }),
            "`spec.calendars[0].hour` is `24`; expected 0 to 23",
        ),
        (calendar(Calendar { hour: some("1 2"), ..Calendar::default() }), "`spec.calendars[0].hour` is not one field"),
        (
            calendar(Calendar { day_of_week: some("+FRI"), ..Calendar::default() }),
            "`spec.calendars[0].dayOfWeek` is not one field",
        ),
        (
            calendar(Calendar { day_of_month: some("30"), month: some("FEB"), ..Calendar::default() }),
            "matches no existing day",
        ),
        (interval(999, 0), "`spec.intervals[0].every` is PT0.999S, expected PT1S to"),
        (interval(limits::SPAN_MAX.as_millis() + 1, 0), "`spec.intervals[0].every` is "),
        (interval(1_000, 1_000), "`spec.intervals[0].phase` is PT1S, expected less than `every`, PT1S"),
        (
            ScheduleSpec {
                start_at: Some(at("2026-01-02T00:00:00Z")),
                end_at: Some(at("2026-01-01T00:00:00Z")),
                ..cron("@daily")
            },
            "`spec.endAt` is ",
        ),
        (
            ScheduleSpec {
                jitter: Some(Duration::from_millis(limits::SCHEDULE_JITTER_MAX.as_millis() + 1)),
                ..cron("@daily")
            },
            "`spec.jitter` is ",
        ),
        (
            ScheduleSpec { cron: vec!["@daily".to_owned(); over], ..ScheduleSpec::default() },
            "`spec` has 101 entries, at most 100",
        ),
        (ScheduleSpec { exclude: vec![Calendar::default(); over], ..cron("@daily") }, "`spec` has 101 entries"),
    ];
    for (spec, expected) in cases {
        let found = ScheduleTimes::new("spec", &spec).map(|_| ()).unwrap_err().to_string();
        assert!(found.contains(expected), "{found}\n  instead of\n{expected}");
    }
    for spec in [
        interval(1_000, 999),
        ScheduleSpec { jitter: Some(limits::SCHEDULE_JITTER_MAX), ..cron("@daily") },
        ScheduleSpec { cron: vec!["@daily".to_owned(); over - 1], ..ScheduleSpec::default() },
        spec(&["* * * * *"], "europe/berlin"),
    ] {
        read(&spec);
    }
}

/// Time zones of the test. In the last six, clocks are put back or forward to or from midnight.
const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "America/Santiago",
    "America/Nuuk",
    "America/Havana",
    "Africa/Cairo",
    "Asia/Beirut",
    "Atlantic/Azores",
];

/// Day fields of the tested expressions: day of the month, month, and day of the week.
const DAYS: [&str; 9] =
    ["* * *", "* * SAT", "* * SUN", "* * FRI", "* * THU,SAT", "L * *", "1-7 * *", "* 3,10 *", "29 10 *"];

#[test]
fn an_hour_repeated_before_midnight_counts_on_its_day() {
    // Clocks are put back in Santiago on 2027-04-04, from midnight to 23:00 on Saturday.
    let santiago = |cron: &str| spec(&[cron], "America/Santiago");
    let saturday = "2027-04-04T01:20:00Z";
    let both = &["2027-04-04T02:17Z", "2027-04-04T03:17Z", "2027-04-10T04:17Z"];
    check(&santiago("17 * * * SAT"), saturday, both);
    check(&santiago("17 * 3 4 *"), saturday, &["2027-04-04T02:17Z", "2027-04-04T03:17Z", "2028-04-03T04:17Z"]);
    // A pattern with a specific hour matches that hour once on each day.
    check(&santiago("17 23 * * SAT"), saturday, &["2027-04-04T02:17Z", "2027-04-11T03:17Z"]);
    check(&santiago("17 * * * SUN"), saturday, &["2027-04-04T04:17Z", "2027-04-04T05:17Z"]);
    // Clocks are put forward on 2027-09-05, so that Sunday begins at 1:00. A skipped time of Sunday moves to later on
    // Sunday; it does not match for Saturday.
    let spring = "2027-09-05T02:50:00Z";
    check(&santiago("17 * * * SAT"), spring, &["2027-09-05T03:17Z", "2027-09-11T03:17Z"]);
    check(&santiago("17 * * * SUN"), spring, &["2027-09-05T04:17Z", "2027-09-05T05:17Z"]);
    check(&santiago("17 0 * * SUN"), spring, &["2027-09-05T04:17Z", "2027-09-12T03:17Z"]);
    // Clocks are put back in Nuuk on 2027-10-31, from midnight to 23:00 on Saturday.
    let nuuk = spec(&["30 * * * SAT"], "America/Nuuk");
    check(&nuuk, "2027-10-31T00:00:00Z", &["2027-10-31T00:30Z", "2027-10-31T01:30Z", "2027-11-06T02:30Z"]);
    // In Berlin, clocks are put back during a Sunday, not at midnight.
    let berlin = spec(&["30 * * * SUN"], "Europe/Berlin");
    check(&berlin, "2027-10-31T00:00:00Z", &["2027-10-31T00:30Z", "2027-10-31T01:30Z", "2027-10-31T02:30Z"]);
}

/// Finds the next match by testing every minute that clocks show or skip.
fn by_looking(pattern: &Pattern, is_steady: bool, zone: &TimeZone, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
    let mut shown: DateTime = zone.to_datetime(after.checked_sub(SignedDuration::from_hours(30)).unwrap());
    shown = shown.with().second(0).subsec_nanosecond(0).build().unwrap();
    let mut found = Vec::new();
    for _ in 0..4 * 1_440 {
        if pattern.names(shown) {
            let ambiguous = zone.to_ambiguous_timestamp(shown);
            let is_fold = matches!(ambiguous.offset(), AmbiguousOffset::Fold { .. });
            found.extend(Some(ambiguous.compatible().unwrap()));
            found.extend(Some(ambiguous.later().unwrap()).filter(|_| is_fold && is_steady));
        }
        shown = shown.checked_add(SignedDuration::from_mins(1)).unwrap();
    }
    found.into_iter().filter(|at| *at > after).min()
}

fn field(values: std::ops::RangeInclusive<u8>) -> impl Strategy<Value = String> {
    let last = *values.end();
    prop_oneof![
        3 => Just("*".to_owned()),
        3 => values.clone().prop_map(|value| value.to_string()),
        1 => (values.clone(), values.clone()).prop_map(|(a, b)| format!("{a},{b}")),
        1 => values.prop_map(move |value| format!("{value}-{last}")),
        1 => (2_u8..20).prop_map(|step| format!("*/{step}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_next_time_is_the_first_of_all_minutes(
        minute in field(0..=59), hour in prop_oneof![field(0..=23), field(1..=3)], zone in 0..ZONES.len(),
        days in 0..DAYS.len(), day in 0_i64..400, before in -7_200_i64..20_000,
    ) {
        let zone = TimeZoneDatabase::bundled().get(ZONES[zone]).unwrap();
        let text = format!("{minute} {hour} {}", DAYS[days]);
        let Ok(pattern) = Pattern::cron("cron", &text) else { return Err(TestCaseError::reject("no expression")) };
        let begin = "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap();
        let begin = begin.checked_add(SignedDuration::from_hours(24 * day)).unwrap();
        // The search starts shortly before a change of the UTC offset, if there is one.
        let change = zone.following(begin).next().map_or(begin, |change| change.timestamp());
        let after = change.checked_sub(SignedDuration::from_secs(before)).unwrap();
        let from = after.checked_add(SignedDuration::from_secs(1)).unwrap();
        // The search ends here.
        let last = after.checked_add(SignedDuration::from_hours(60)).unwrap();
        let found = pattern.next(&zone, from).filter(|at| *at < last);
        let expected = by_looking(&pattern, hour.starts_with('*'), &zone, after).filter(|at| *at < last);
        prop_assert_eq!(found, expected, "{} after {} in {:?}", text, after, zone.iana_name());
    }

    #[test]
    fn times_increase_and_none_is_skipped(
        minute in field(0..=59), hour in field(0..=23), every in 60_u64..100_000,
        zone in 0..ZONES.len(), day in 0_u64..600,
    ) {
        let spec = ScheduleSpec {
            intervals: vec![Interval { every: Duration::from_secs(every), phase: Duration::ZERO }],
            exclude: vec![Calendar { day_of_week: Some("SUN".to_owned()), ..Calendar::default() }],
            ..spec(&[&format!("{minute} {hour} * * *")], ZONES[zone])
        };
        let Ok(times) = ScheduleTimes::new("spec", &spec) else { return Err(TestCaseError::reject("no spec")) };
        let begin = at("2026-01-01T00:00:00Z").plus(Duration::from_days(day));
        let found = times.upcoming(begin, 50).times;
        prop_assert!(found.is_sorted_by(|a, b| a < b) && found.iter().all(|at| *at > begin), "{:?}", found);
        // A search that starts at any instant between two found times finds the later time.
        for pair in found.windows(2) {
            let between = Timestamp::from_millis(u64::midpoint(pair[0].as_millis(), pair[1].as_millis()));
            let next = times.upcoming(between.max(pair[0]), 1).times;
            prop_assert_eq!(next.first(), Some(&pair[1]));
        }
    }
}

#[test]
fn a_spec_at_its_limits_is_accepted() {
    let most = limits::SCHEDULE_ENTRIES_MAX;
    let interval =
        |every| ScheduleSpec { intervals: vec![Interval { every, phase: Duration::ZERO }], ..ScheduleSpec::default() };
    for (spec, at_most) in [
        (ScheduleSpec { cron: vec!["@daily".to_owned(); most], ..ScheduleSpec::default() }, true),
        (ScheduleSpec { cron: vec!["@daily".to_owned(); most + 1], ..ScheduleSpec::default() }, false),
        (ScheduleSpec { exclude: vec![Calendar::default(); most], ..spec(&["@daily"], "UTC") }, true),
        (ScheduleSpec { exclude: vec![Calendar::default(); most + 1], ..spec(&["@daily"], "UTC") }, false),
        (ScheduleSpec { jitter: Some(limits::SCHEDULE_JITTER_MAX), ..spec(&["@daily"], "UTC") }, true),
        (ScheduleSpec { jitter: Some(more(limits::SCHEDULE_JITTER_MAX)), ..spec(&["@daily"], "UTC") }, false),
        (interval(limits::SCHEDULE_INTERVAL_MIN), true),
        (interval(Duration::from_millis(limits::SCHEDULE_INTERVAL_MIN.as_millis() - 1)), false),
        (interval(limits::SPAN_MAX), true),
        (interval(more(limits::SPAN_MAX)), false),
    ] {
        assert_eq!(ScheduleTimes::new("spec", &spec).is_ok(), at_most, "{spec:?}");
    }
}

fn more(span: Duration) -> Duration {
    Duration::from_millis(span.as_millis() + 1)
}
