//! Prices of DynamoDB on demand, in dollars per million units. Source: AWS's price list for us-east-1 since November
//! 2024.

/// A million write units.
pub(crate) const WRITE_UNIT: f64 = 0.625;
/// A million read units.
pub(crate) const READ_UNIT: f64 = 0.125;
