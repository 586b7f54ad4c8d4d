//! How the service is.

use serde::{Deserialize, Serialize};

answers! {
    /// How a service is that takes work.
    Readiness {
        /// It takes work. Where it does not, a problem says why.
        ready: bool,
        /// What somebody should see to all the same; nothing where all is well.
        warnings: Vec<ReadinessWarning>,
    }
    /// Something that somebody should see to.
    ReadinessWarning {
        /// What it is, for programs: `store-trouble`, `disk-low`, `disk-full`, `clock-doubted`, `clock-moved`, `clock-behind`, `clocks-apart`,
        /// `zones-differ` or `file-refused`. There may be others.
        code: String,
        /// What is so.
        detail: String,
        /// What to do.
        advice: String,
    }
}
