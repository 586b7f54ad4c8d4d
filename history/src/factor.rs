//! Numbers with three decimals.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A non-negative number with three decimals, such as 1.5. In JSON it is a number. It is stored as an integer number of
/// thousandths, to avoid rounding errors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Factor(#[n(0)] u32);

impl Factor {
    /// The number zero.
    pub const ZERO: Self = Self(0);

    /// The number one.
    pub const ONE: Self = Self(1_000);

    /// Creates a factor from thousandths.
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// Returns the number of thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// Returns `true` if the number is zero.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Returns the number as a floating-point value.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

impl TryFrom<f64> for Factor {
    type Error = String;

    /// Rounds to the nearest thousandth.
    fn try_from(number: f64) -> Result<Self, String> {
        let thousandths = (number * 1_000.0).round();
        if (0.0..=f64::from(u32::MAX)).contains(&thousandths) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole, and within the range"
            )]
            return Ok(Self(thousandths as u32));
        }
        Err(format!("`{number}` is not a number from 0 to 4 million"))
    }
}

impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1_000) {
            serializer.serialize_u32(self.0 / 1_000)
        } else {
            serializer.serialize_f64(self.as_f64())
        }
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FactorVisitor;

        impl Visitor<'_> for FactorVisitor {
            type Value = Factor;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 4 million")
            }

            #[expect(clippy::cast_precision_loss, reason = "what is as large is refused")]
            fn visit_u64<E: Error>(self, number: u64) -> Result<Factor, E> {
                self.visit_f64(number as f64)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Factor, E> {
                Factor::try_from(number).map_err(E::custom)
            }
        }

        deserializer.deserialize_f64(FactorVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_a_number_in_json() {
        for (text, thousandths, shown) in
            [("1.5", 1_500, "1.5"), ("2", 2_000, "2"), ("2.0", 2_000, "2"), ("0.001", 1, "0.001")]
        {
            let factor: Factor = serde_json::from_str(text).unwrap();
            assert_eq!(factor, Factor::from_thousandths(thousandths));
            assert_eq!(serde_json::to_string(&factor).unwrap(), shown);
        }
        for text in ["-1", "1e300", "4294968", "\"2\"", "null"] {
            assert!(serde_json::from_str::<Factor>(text).is_err(), "{text}");
        }
    }
}
