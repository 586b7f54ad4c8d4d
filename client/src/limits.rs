//! Limits of task lists as operators write them, on the command line and in the configuration file of the service.

use history::Factor;

use crate::body::{SetKeyLimits, SetStartRate};

/// Parses a number of starts per second or minute, such as `5/s` or `90/m`. Returns starts per second.
///
/// # Errors
///
/// A description of what is expected, and the text.
pub fn starts_per_second(text: &str) -> Result<Factor, String> {
    let expected = || format!("expected a number per second or minute, such as 5/s or 90/m, found \"{text}\"");
    let (number, unit) = text.split_once('/').ok_or_else(expected)?;
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    Factor::try_from(number / seconds).map_err(|_| expected())
}

/// Parses the limits of a key: a number of running tasks, a rate and a weight, separated by commas. An example is
/// `20,5/s,weight:3`.
///
/// # Errors
///
/// A description of the part that is invalid.
pub fn key_limits(key: &str, limits: &str) -> Result<SetKeyLimits, String> {
    let mut of_key = SetKeyLimits { key: key.to_owned(), ..SetKeyLimits::default() };
    for part in limits.split(',') {
        let number = |text: &str| {
            let bad = |error| format!("`{part}`: {error}; expected limits such as 20, 5/s or 20,5/s,weight:3");
            text.parse::<u32>().map_err(bad)
        };
        if let Some(weight) = part.strip_prefix("weight:") {
            of_key.weight = Some(number(weight)?);
        } else if part.contains('/') {
            of_key.rate = Some(SetStartRate { per_second: starts_per_second(part)?, burst: None });
        } else {
            of_key.max_running = Some(number(part)?);
        }
    }
    Ok(of_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_or_minute() {
        for (text, thousandths) in [("5/s", 5_000), ("0.5/s", 500), ("90/m", 1_500), ("1/m", 17)] {
            assert_eq!(starts_per_second(text), Ok(Factor::from_thousandths(thousandths)), "{text}");
        }
        for text in ["5", "5/h", "/s", "x/s", "-1/s", "NaN/s", "1e30/s"] {
            assert!(starts_per_second(text).unwrap_err().contains("expected a number per second"), "{text}");
        }
    }

    #[test]
    fn limits_of_a_key_are_separated_by_commas() {
        let rate = |thousandths| {
            let per_second = Factor::from_thousandths(thousandths);
            Some(SetStartRate { per_second, burst: None })
        };
        let visa = |max_running, rate, weight| SetKeyLimits { key: "visa".to_owned(), max_running, rate, weight };
        for (text, limits) in [
            ("20", visa(Some(20), None, None)),
            ("5/s", visa(None, rate(5_000), None)),
            ("weight:3", visa(None, None, Some(3))),
            ("weight:3,0.5/s,20", visa(Some(20), rate(500), Some(3))),
        ] {
            assert_eq!(key_limits("visa", text), Ok(limits), "{text}");
        }
        for (text, says) in [
            ("", "``: cannot parse integer"),
            ("x", "`x`: invalid digit"),
            ("1,", "``: cannot parse integer"),
            ("-1", "`-1`: invalid digit"),
            ("weight:x", "`weight:x`: invalid digit"),
            ("5/h", "expected a number per second"),
        ] {
            let refused = key_limits("visa", text).unwrap_err();
            assert!(refused.starts_with(says) && refused.contains("expected"), "{text}: {refused}");
        }
    }
}
