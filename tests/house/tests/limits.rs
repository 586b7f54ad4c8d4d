//! Tests of the documented limits: how their values are read and formatted, and that `docs/limits.md` is up to date.
//!
//! `BATON_DOCS=write cargo test -p baton-tests-house` writes the page.

use house::limits::{self, Constants, Internal, Place, ROW, Row, Section, Unit, Value, internal, rows, written};
use house::{Sources, root};

const DECLARED: &[(&str, &str)] = &[
    ("lib.rs", "pub mod limits; mod other; mod user; pub const KIB: usize = 1 << 10;"),
    (
        "limits.rs",
        "use std::time::Duration;
         pub const NAME_MAX: usize = 256;
         pub const BYTES_MAX: usize = 3 * NAME_MAX + crate::KIB;
         pub const WAIT_MAX: Duration = Duration::from_secs(12 * 3_600);
         pub const LONG: Duration = Duration::from_days(3_653);
         pub const TRIES_MAX: NonZeroU32 = NonZeroU32::new(8).expect(\"not zero\");
         pub const ROUND_MAX: usize = ROUND_MAX + 1;
         pub const TEXT_MAX: &str = \"no\";
         pub const MIXED_MAX: usize = WAIT_MAX + 1;",
    ),
    ("other.rs", "use crate::limits; pub const LAST_MAX: u64 = (limits::NAME_MAX as u64 - 6) * 4 / 2;"),
    (
        "user.rs",
        "use super::other::LAST_MAX; const ALL_MAX: u64 = LAST_MAX; const LOST_MAX: u64 = nowhere::X;
         #[cfg(test)] mod tests { const TEST_MAX: u64 = 1; }",
    ),
];

fn constants() -> Constants {
    Constants::of(&Sources::of("house", DECLARED).expect("they are Rust"))
}

fn value(place: &str) -> Result<Value, String> {
    constants().value(&Place::parse(place).expect("a place"))
}

#[test]
fn a_constant_has_the_value_of_its_declaration() {
    let hours = 12 * 3_600 * 1_000_000;
    for (place, expected) in [
        ("lib.rs KIB", Value::Number(1_024)),
        ("limits.rs NAME_MAX", Value::Number(256)),
        ("limits.rs BYTES_MAX", Value::Number(3 * 256 + 1_024)),
        ("limits.rs WAIT_MAX", Value::Micros(hours)),
        ("limits.rs TRIES_MAX", Value::Number(8)),
        ("other.rs LAST_MAX", Value::Number(500)),
        ("user.rs ALL_MAX", Value::Number(500)),
    ] {
        assert_eq!(value(place), Ok(expected), "{place}");
    }
}

#[test]
fn a_missing_or_unreadable_constant_is_an_error() {
    for (place, expected) in [
        ("limits.rs GONE_MAX", "limits.rs GONE_MAX: no such constant"),
        ("user.rs TEST_MAX", "user.rs TEST_MAX: no such constant"),
        ("limits.rs ROUND_MAX", "limits.rs ROUND_MAX: refers to itself"),
        ("limits.rs TEXT_MAX", "limits.rs TEXT_MAX: its value is not understood"),
        ("limits.rs MIXED_MAX", "limits.rs MIXED_MAX: its value is not understood"),
        ("user.rs LOST_MAX", "user.rs LOST_MAX: refers to `nowhere::X`, which was not found"),
    ] {
        let found = value(place).expect_err(place);
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn values_are_written_as_people_write_them() {
    let second = 1_000_000;
    for (value, unit, expected) in [
        (Value::Number(262_144), Unit::Bytes, "256 KiB"),
        (Value::Number(1 << 20), Unit::Bytes, "1 MiB"),
        (Value::Number(10 << 30), Unit::Bytes, "10 GiB"),
        (Value::Number(196_610), Unit::Bytes, "196,610 bytes"),
        (Value::Number(999), Unit::Count, "999"),
        (Value::Number(10_000), Unit::Count, "10,000"),
        (Value::Number(1_000_000), Unit::Count, "1,000,000"),
        (Value::Number(256), Unit::Characters, "256 characters"),
        (Value::Number(512), Unit::Mebibytes, "512 MiB"),
        (Value::Number(8), Unit::Fraction, "1/8"),
        (Value::Number(900), Unit::Time, "15 min"),
        (Value::Micros(500_000), Unit::Time, "500 ms"),
        (Value::Micros(30 * second), Unit::Time, "30 s"),
        (Value::Micros(120 * second), Unit::Time, "120 s"),
        (Value::Micros(300 * second), Unit::Time, "5 min"),
        (Value::Micros(24 * 3_600 * second), Unit::Time, "24 h"),
        (Value::Micros(3_653 * 24 * 3_600 * second), Unit::Time, "3,653 days"),
    ] {
        assert_eq!(written::write(value, unit).as_deref(), Some(expected));
    }
    assert_eq!(written::write(Value::Micros(second), Unit::Bytes), None);
}

#[test]
fn a_forgotten_constant_and_a_missing_test_are_reported() {
    const ROWS: &[Row] = &[
        Row {
            what: "Name",
            constant: "limits.rs NAME_MAX",
            tried_in: "tests/house/tests/limits.rs",
            test: "a_forgotten_constant_and_a_missing_test_are_reported",
            ..ROW
        },
        Row {
            what: "Bytes",
            constant: "limits.rs BYTES_MAX",
            tried_in: "tests/house/tests/limits.rs",
            test: "gone",
            ..ROW
        },
        Row { what: "Wait", constant: "limits.rs WAIT_MAX", ..ROW },
        Row { what: "Tries", constant: "limits.rs TRIES_MAX", why: "it is not", ..ROW },
    ];
    const INTERNAL: &[Internal] = &[Internal {
        reason: "for this test",
        constants: &[
            "limits.rs NAME_MAX",
            "limits.rs GONE_MAX",
            "limits.rs ROUND_MAX",
            "limits.rs TEXT_MAX",
            "limits.rs MIXED_MAX",
            "user.rs ALL_MAX",
            "user.rs LOST_MAX",
        ],
    }];
    let sections = [Section { title: "All", rows: ROWS, notes: &[] }];
    let found = limits::problems(&sections, INTERNAL, &constants(), &root());
    let begin = [
        "`Bytes`: tests/house/tests/limits.rs has no test `gone`",
        "`Wait`: no test; ",
        "limits.rs NAME_MAX: it is listed twice",
        "limits.rs GONE_MAX: no such constant",
        "other.rs LAST_MAX is in no list of limits",
    ];
    assert_eq!(found.len(), begin.len(), "{found:#?}");
    for (found, begin) in found.iter().zip(begin) {
        assert!(found.starts_with(begin), "{found} instead of {begin}");
    }
}

#[test]
fn every_limit_has_its_row_its_test_and_its_value_on_the_page() {
    let constants = Constants::of(&Sources::read().unwrap());
    let found = limits::problems(rows::SECTIONS, internal::INTERNAL, &constants, &root());
    assert!(found.is_empty(), "{found:#?}");
    let expected = limits::page(rows::SECTIONS, &constants).unwrap();
    let path = root().join("docs/limits.md");
    if std::env::var("BATON_DOCS").is_ok_and(|value| value == "write") {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "docs/limits.md is not generated from these sources, first difference: {differs:?}; \
         `BATON_DOCS=write cargo test -p baton-tests-house` writes it"
    );
}
