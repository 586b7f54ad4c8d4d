//! Bodies of the readiness check.

use serde::{Deserialize, Serialize};

answers! {
    /// State of a service that is ready.
    Readiness {
        /// Always true. If the service is not ready, the response is a problem with the reason.
        ready: bool,
        /// Conditions that need an operator's attention; empty if there are no such conditions.
        warnings: Vec<ReadinessWarning>,
    }
    /// A condition that needs an operator's attention.
    ReadinessWarning {
        /// Kind of condition, for programs: `store-failing`, `disk-low`, `disk-full`, `clock-suspect`, `clock-jumped`,
        /// `clock-behind`, `clock-skew`, `tzdata-mismatch` or `reload-failed`. Other values are possible.
        code: String,
        /// Description of the condition.
        detail: String,
        /// Recommended next step.
        advice: String,
    }
}
