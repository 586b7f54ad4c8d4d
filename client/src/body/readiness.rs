//! Bodies of the readiness check.

use serde::{Deserialize, Serialize};

answers! {
    /// State of a service that is ready.
    Readiness {
        /// True if the service accepts work. Otherwise the response is a problem with the reason.
        ready: bool,
        /// Conditions that need an operator's attention; empty if there are none.
        warnings: Vec<ReadinessWarning>,
    }
    /// A condition that needs an operator's attention.
    ReadinessWarning {
        /// Kind of condition, for programs: `store-failing`, `disk-low`, `disk-full`, `clock-suspect`, `clock-jumped`,
        /// `clock-behind`, `clock-skew`, `tzdata-mismatch` or `reload-failed`. There may be others.
        code: String,
        /// Description of the condition.
        detail: String,
        /// Recommended next step.
        advice: String,
    }
}
