//! Fuzz targets. Each takes bytes as they may arrive from the network or a disk, and panics if the service violates an
//! invariant. Targets use only public interfaces, so that no internals are exposed for them.

mod calls;
mod files;
mod framing;
mod rows;
mod times;

use std::sync::LazyLock;

pub use framing::framing_of;

/// A fuzz target, called once for each input.
pub type Target = fn(&[u8]);

/// All targets by name. The directory `corpus` has a folder of inputs for each.
pub const TARGETS: [(&str, Target); 9] = [
    ("rest", calls::rest),
    ("swf", calls::swf),
    ("signature", calls::signature),
    ("token", calls::token),
    ("jwt", calls::jwt),
    ("framing", framing::framing),
    ("times", times::times),
    ("row", rows::row),
    ("file", files::file),
];

/// Returns the target that the environment variable `BATON_FUZZ` names.
///
/// # Panics
///
/// If the variable names no target.
pub fn chosen() -> Target {
    static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
        let name = std::env::var("BATON_FUZZ").unwrap_or_default();
        let found = TARGETS.iter().find(|(known, _)| *known == name);
        let known = TARGETS.map(|(name, _)| name).join(", ");
        found.unwrap_or_else(|| panic!("BATON_FUZZ is `{name}`, expected one of {known}")).1
    });
    *CHOSEN
}
