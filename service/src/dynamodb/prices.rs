//! Prices of DynamoDB in on-demand mode, in dollars per million units. Source: AWS's price list for us-east-1 since
//! November 2024.

/// Price of a million write units.
pub(crate) const WRITE_UNIT: f64 = 0.625;
/// Price of a million read units.
pub(crate) const READ_UNIT: f64 = 0.125;
