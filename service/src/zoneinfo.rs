//! Time-zone tables from a directory (`--zoneinfo`), instead of those compiled into the program.

use std::path::Path;

use jiff::tz::TimeZoneDatabase;

/// Time zone that every set of tables contains, by which a directory of tables is recognized.
const KNOWN_ZONE: &str = "Europe/Berlin";

/// Makes the service use the compiled tables in this directory, which must have the layout of `/usr/share/zoneinfo`.
pub(crate) fn use_directory(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    let read = TimeZoneDatabase::from_dir(directory).and_then(|database| database.get(KNOWN_ZONE).map(|_| database));
    let database = read.map_err(|error| {
        format!(
            "--zoneinfo: {shown} has no compiled time-zone tables: expected TZif files as in /usr/share/zoneinfo, such \
             as {KNOWN_ZONE} ({error})"
        )
    })?;
    history::use_zone_tables(database, version(directory));
    Ok(())
}

/// Returns the version of the tables in a directory. Debian and other distributions store it in `tzdata.zi`, macOS in
/// `+VERSION`.
fn version(directory: &Path) -> String {
    let first_line = |name: &str| {
        let text = std::fs::read_to_string(directory.join(name)).ok()?;
        text.lines().next().map(|line| line.trim_start_matches("# version").trim().to_owned())
    };
    let found = first_line("tzdata.zi").or_else(|| first_line("+VERSION"));
    found.filter(|version| !version.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
