//! Times and durations in whole milliseconds. This module never reads a clock.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A time, in milliseconds since 1970-01-01T00:00:00Z. Its JSON form is an RFC 3339 string in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] u64);

impl Timestamp {
    /// Creates the time `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time `span` later. Saturates instead of overflowing.
    #[must_use]
    pub const fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the time `span` earlier. Saturates at the epoch.
    #[must_use]
    pub const fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Returns the duration since `earlier`. Returns zero if `earlier` is later than this time.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = i64::try_from(self.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
        match instant {
            Some(instant) => write!(f, "{instant:.3}"),
            // Times after the year 9999 cannot be formatted as dates, so they are shown in milliseconds.
            None => write!(f, "{}ms", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(millis) = text.strip_suffix("ms").and_then(|digits| digits.parse().ok()) {
            return Ok(Self(millis));
        }
        let instant: jiff::Timestamp = text.parse().map_err(|error| format!("is not an RFC 3339 instant: {error}"))?;
        u64::try_from(instant.as_millisecond()).map(Self).map_err(|_| "is before 1970".to_owned())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::parsed(deserializer, "a time such as 2027-01-31T00:00:00Z")
    }
}

/// A duration in whole milliseconds.
///
/// Its JSON form is an ISO 8601 duration with days as the largest unit (`"P1DT30S"`). It can also be read from a number
/// of seconds (`30`, `0.5`), and from a form such as `1h 30m`. A day is 24 hours. Years and months are rejected,
/// because their length depends on the calendar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Duration(#[n(0)] u64);

/// Milliseconds of a day, which always has 24 hours here.
const MILLIS_A_DAY: u64 = 86_400_000;

impl Duration {
    /// The duration zero.
    pub const ZERO: Self = Self(0);

    /// Creates a duration of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Creates a duration of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// Creates a duration of `days` days of 24 hours.
    pub const fn from_days(days: u64) -> Self {
        Self::from_secs(days.saturating_mul(86_400))
    }

    /// Returns the milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Multiplies the duration. Saturates instead of overflowing.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(span: Duration) -> Self {
        Self::from_millis(span.0)
    }
}

impl From<std::time::Duration> for Duration {
    /// Rounds down to whole milliseconds.
    fn from(span: std::time::Duration) -> Self {
        Self(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Duration {
    /// Formats as ISO 8601, or with `{:#}` in a readable form such as `1d 2h 30m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = (self.0 / MILLIS_A_DAY, self.0 % MILLIS_A_DAY);
        let rest = jiff::SignedDuration::from_millis(i64::try_from(millis).unwrap_or_default());
        match (days, millis) {
            (0, _) if f.alternate() => write!(f, "{rest:#}"),
            (_, 0) if f.alternate() => write!(f, "{days}d"),
            (_, _) if f.alternate() => write!(f, "{days}d {rest:#}"),
            (0, _) => write!(f, "{rest}"),
            (_, 0) => write!(f, "P{days}D"),
            (_, _) => write!(f, "P{days}D{}", rest.to_string().trim_start_matches('P')),
        }
    }
}

impl fmt::Debug for Duration {
    /// Formats like `{:#}` of `Display`, which is readable in the messages of failed tests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:#}")
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(seconds) = text.parse::<f64>() {
            return Self::from_seconds(seconds);
        }
        let expected = "expected a duration such as `30s`, `1h 30m` or `7d`, one of ISO 8601 such as `PT30S`, or a \
                        number of seconds";
        // jiff parses ISO 8601 and the readable form. The error lists the expected forms instead of jiff's error text.
        let span: jiff::Span = text.trim().parse().map_err(|_| format!("`{text}`: {expected}"))?;
        if span.get_years() != 0 || span.get_months() != 0 {
            return Err(format!("`{text}`: years and months have no fixed length; give days"));
        }
        let exact = span
            .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
            .map_err(|error| format!("`{text}`: {error}"))?;
        u64::try_from(exact.as_millis()).map(Self).map_err(|_| format!("`{text}`: negative or too long"))
    }
}

impl Duration {
    fn from_seconds(seconds: f64) -> Result<Self, String> {
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(format!("`{seconds}` is not a non-negative number of seconds"));
        }
        let span = std::time::Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
        // Rounds to the nearest millisecond, so that 0.1 does not become 99 ms.
        Ok(span.saturating_add(std::time::Duration::from_micros(500)).into())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DurationVisitor;

        impl Visitor<'_> for DurationVisitor {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as `30s` or `PT30S`, or a number of seconds")
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
                seconds.checked_mul(1_000).map(Duration).ok_or_else(|| E::custom("too long"))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
                u64::try_from(seconds).map_err(|_| E::custom("negative")).and_then(|seconds| self.visit_u64(seconds))
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
                Duration::from_seconds(seconds).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(DurationVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_rfc_3339_with_milliseconds() {
        let instant = Timestamp::from_millis(1_700_000_000_042);
        assert_eq!(serde_json::to_string(&instant).unwrap(), r#""2023-11-14T22:13:20.042Z""#);
        assert_eq!("2023-11-14T22:13:20.042Z".parse(), Ok(instant));
        assert_eq!(serde_json::from_str::<Timestamp>(r#""2023-11-14T22:13:20.042Z""#).unwrap(), instant);
        let end = Timestamp::from_millis(u64::MAX);
        assert_eq!(end.to_string().parse(), Ok(end));
        assert!("1969-12-31T23:59:59Z".parse::<Timestamp>().is_err());
    }

    #[test]
    fn a_duration_is_read_in_all_supported_forms() {
        let cases: &[(&str, Option<u64>)] = &[
            ("30", Some(30_000)),
            ("0.1", Some(100)),
            ("0", Some(0)),
            (r#""PT30S""#, Some(30_000)),
            (r#""P30D""#, Some(30 * 86_400_000)),
            (r#""PT1H30M""#, Some(5_400_000)),
            (r#""PT168H""#, Some(7 * 86_400_000)),
            (r#""P1DT2H""#, Some(26 * 3_600_000)),
            (r#""P1W""#, Some(7 * 86_400_000)),
            (r#""45""#, Some(45_000)),
            (r#""P1M""#, None),
            (r#""P1Y""#, None),
            (r#""-PT1S""#, None),
            ("-1", None),
            (r#""tomorrow""#, None),
            (r#""1h""#, Some(3_600_000)),
            (r#""30s""#, Some(30_000)),
            (r#""500ms""#, Some(500)),
            (r#""1m 30s""#, Some(90_000)),
            (r#""1m30s""#, Some(90_000)),
            (r#""90 minutes""#, Some(5_400_000)),
            (r#""1 hour, 30 minutes""#, Some(5_400_000)),
            (r#""1.5h""#, Some(5_400_000)),
            (r#""2d""#, Some(2 * 86_400_000)),
            (r#""1 week""#, Some(7 * 86_400_000)),
            (r#""1mo""#, None),
            (r#""1y""#, None),
            (r#""-1h""#, None),
            (r#""1h ago""#, None),
            (r#""1x""#, None),
            (r#""""#, None),
            ("18446744073709551615", None),
            ("1e300", None),
            ("null", None),
        ];
        for (text, millis) in cases {
            let read = serde_json::from_str::<Duration>(text).ok();
            assert_eq!(read, millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_in_days_and_less() {
        let cases = [
            (0, "PT0S"),
            (500, "PT0.5S"),
            (61_001, "PT1M1.001S"),
            (86_399_999, "PT23H59M59.999S"),
            (86_400_000, "P1D"),
            (26 * 3_600_000, "P1DT2H"),
            (7 * 86_400_000, "P7D"),
            (365 * 86_400_000 + 1, "P365DT0.001S"),
            (u64::MAX, "P213503982334DT14H25M51.615S"),
        ];
        for (millis, text) in cases {
            assert_eq!(Duration::from_millis(millis).to_string(), text);
        }
        let cases = [
            (0, "0s"),
            (500, "500ms"),
            (90_000, "1m 30s"),
            (86_400_000, "1d"),
            (26 * 3_600_000 + 1_000, "1d 2h 1s"),
            // The longest duration that a field accepts is `SPAN_MAX`.
            (3_653 * 86_400_000 - 1, "3652d 23h 59m 59s 999ms"),
            (3_653 * 86_400_000, "3653d"),
        ];
        let longest = Duration::from_millis(u64::MAX);
        assert_eq!(format!("{longest:#}"), "213503982334d 14h 25m 51s 615ms");
        for (millis, text) in cases {
            let span = Duration::from_millis(millis);
            assert_eq!(format!("{span:#}"), text);
            assert_eq!(text.parse(), Ok(span), "and read again");
        }
    }
}
