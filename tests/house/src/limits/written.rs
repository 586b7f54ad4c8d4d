//! Formats the values of limits for people.

use super::constants::Value;

/// Unit of a limit's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: `256 KiB`.
    Bytes,
    /// Mebibytes, the unit of options: `512 MiB`.
    Mebibytes,
    /// A fraction with numerator 1, given by its denominator: `1/8`.
    Fraction,
    /// Elements: `10,000`.
    Count,
    /// Characters: `256 characters`.
    Characters,
    /// A time: `30 s`.
    Time,
}

/// Formats a value with its unit: `256 KiB`, `10,000`, `30 s`. Returns `None` if the unit does not suit the value.
#[must_use]
pub fn write(value: Value, unit: Unit) -> Option<String> {
    match (value, unit) {
        (Value::Number(number), Unit::Bytes) => Some(bytes(number)),
        (Value::Number(number), Unit::Mebibytes) => Some(bytes(number << 20)),
        (Value::Number(number), Unit::Fraction) => Some(format!("1/{number}")),
        (Value::Number(number), Unit::Count) => Some(grouped(number)),
        (Value::Number(number), Unit::Characters) => Some(format!("{} characters", grouped(number))),
        (Value::Number(number), Unit::Time) => Some(time(number * 1_000_000)),
        (Value::Micros(micros), Unit::Time) => Some(time(micros)),
        (Value::Micros(_), _) => None,
    }
}

/// Formats a number with its digits in groups of three.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(number: u128) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(size, _)| number >= *size && number.is_multiple_of(*size)) {
        Some((size, unit)) => format!("{} {unit}", grouped(number / size)),
        None => format!("{} bytes", grouped(number)),
    }
}

/// Formats a time in the largest unit that divides it. Times of up to two minutes are in seconds, and hours are the
/// largest unit below two days.
fn time(micros: u128) -> String {
    let second = 1_000_000;
    let units = [
        (24 * 3_600 * second, 2 * 24 * 3_600 * second, "days"),
        (3_600 * second, 3_600 * second, "h"),
        (60 * second, 121 * second, "min"),
        (second, second, "s"),
        (1_000, 1_000, "ms"),
    ];
    let fits = |(size, least, _): &(u128, u128, &str)| micros >= *least && micros.is_multiple_of(*size);
    match units.into_iter().find(fits) {
        Some((size, _, unit)) => format!("{} {unit}", grouped(micros / size)),
        None => format!("{} µs", grouped(micros)),
    }
}
