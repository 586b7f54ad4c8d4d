//! The secrets of a credential, as they are written down, and when each of them is good.

use std::fmt;

use history::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// The secrets, keys that sign and certificates of one credential. Ours: two are enough to go from one to another; more are programs
/// that each have their own.
pub const SECRETS_MAX: usize = 16;

/// The fewest characters of a secret that the configuration has itself, as it has those of keys that sign. Ours: the shortest that
/// cannot be guessed offline if its characters are random (16 of 64 are 96 bits). Secrets that the service makes have 43;
/// AWS's have 40. Of a secret that is there as its hash no length is known.
pub const SECRET_CHARS_MIN: usize = 16;

/// The SHA-256 of the empty text: a hash of a variable that was not set. Source: FIPS 180-4.
pub(super) const SHA256_OF_NOTHING: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41,
    0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// How long before its end a secret is warned of. Ours: there is a working day in it, whatever the week.
pub const EXPIRY_WARNING: history::Duration = history::Duration::from_days(7);

/// A secret that is shown, of a credential that may have several.
#[derive(Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Secret {
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// It is good from then on; at once when absent.
    pub not_before: Option<Moment>,
    /// It is good until then; for ever when absent.
    pub expires: Option<Moment>,
}

/// A key that signs over SWF's wire, of a credential that may have several.
#[derive(Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AccessKey {
    /// Names it in signatures.
    pub id: String,
    /// What signatures are made with. The secret itself: a signature cannot be checked with less.
    pub secret: String,
    /// It is good from then on; at once when absent.
    pub not_before: Option<Moment>,
    /// It is good until then; for ever when absent.
    pub expires: Option<Moment>,
}

/// An instant in the configuration: one of TOML's own, or a text as in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

/// What is said of anything else. It shows nothing of what was found, which may be a secret in the wrong place.
pub(crate) const NO_MOMENT: &str = "expected a time such as 2027-01-31T00:00:00Z";

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MomentVisitor;

        fn read<E: de::Error>(text: &str) -> Result<Moment, E> {
            text.parse().map(Moment).map_err(|_: String| E::custom(NO_MOMENT))
        }

        impl<'de> Visitor<'de> for MomentVisitor {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(NO_MOMENT)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                read(text)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Moment, A::Error> {
                let found = toml::value::Datetime::deserialize(MapAccessDeserializer::new(map));
                read(&found.map_err(|_| de::Error::custom(NO_MOMENT))?.to_string())
            }
        }

        deserializer.deserialize_any(MomentVisitor)
    }
}

/// When a secret is good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Validity {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

/// How a secret that is right stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretStanding {
    Good,
    /// Not before then.
    Early(Timestamp),
    /// Since then.
    Expired(Timestamp),
}

impl Validity {
    /// # Errors
    ///
    /// For one that is never good.
    pub(crate) fn read(not_before: Option<Moment>, expires: Option<Moment>) -> Result<Self, String> {
        let (from, until) = (not_before.map(|it| it.0), expires.map(|it| it.0));
        match (from, until) {
            (Some(from), Some(until)) if until <= from => {
                Err(format!("expires at {until}, which is not after its not-before, {from}"))
            }
            _ => Ok(Self { from, until }),
        }
    }

    /// Until when it is good; for ever when absent.
    pub(crate) fn until(self) -> Option<Timestamp> {
        self.until
    }

    /// The same, and no longer than until then.
    pub(crate) fn and_until(self, until: Timestamp) -> Self {
        Self { until: Some(self.until.map_or(until, |own| own.min(until))), ..self }
    }

    pub(crate) fn at(self, now: Timestamp) -> SecretStanding {
        match (self.from, self.until) {
            (_, Some(until)) if until <= now => SecretStanding::Expired(until),
            (Some(from), _) if now < from => SecretStanding::Early(from),
            _ => SecretStanding::Good,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_of_toml_s_or_a_text_and_names_its_offset() {
        let read = |text: &str| toml::from_str::<Secret>(&format!("sha256 = 'x'\nexpires = {text}"));
        let expected = Some(Moment("2027-01-31T00:00:00Z".parse().unwrap()));
        for text in ["2027-01-31T00:00:00Z", "'2027-01-31T00:00:00Z'", "2027-01-31 01:00:00+01:00"] {
            assert_eq!(read(text).unwrap().expires, expected, "{text}");
        }
        for text in ["2027-01-31", "2027-01-31T00:00:00", "'tomorrow'", "12:00:00", "7", "['x']", "{ x = 'y' }"] {
            let said = read(text).err().unwrap().to_string();
            assert!(said.contains(NO_MOMENT), "{text}: {said}");
        }
    }

    #[test]
    fn the_hash_of_nothing_is_that_of_the_empty_text() {
        assert_eq!(SHA256_OF_NOTHING, <[u8; 32]>::from(<sha2::Sha256 as sha2::Digest>::digest(b"")));
    }

    #[test]
    fn a_secret_is_good_from_its_first_instant_to_just_before_its_last() {
        let at = Timestamp::from_millis;
        let moment = |ms| Some(Moment(at(ms)));
        let between = Validity::read(moment(10), moment(20)).unwrap();
        assert_eq!(between.at(at(9)), SecretStanding::Early(at(10)));
        assert_eq!((between.at(at(10)), between.at(at(19))), (SecretStanding::Good, SecretStanding::Good));
        assert_eq!(between.at(at(20)), SecretStanding::Expired(at(20)));
        assert_eq!(Validity::default().at(at(u64::MAX)), SecretStanding::Good);
        assert!(Validity::read(moment(20), moment(20)).is_err());
    }
}
