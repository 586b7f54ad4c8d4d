//! Commands in `.ci` whose tests are not part of `cargo test`: those whose first comment begins with `Tests`.

use std::path::{Path, PathBuf};

/// A command with tests that `cargo test` does not run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// Its name in `.ci`.
    pub name: String,
    /// Its description: the first line below its `#!`.
    pub says: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands, sorted by name. Empty if the sources are without `.ci`.
///
/// # Errors
///
/// If `.ci` cannot be read.
pub fn commands() -> std::io::Result<Vec<Command>> {
    let ci = root().join(".ci");
    if !ci.exists() {
        return Ok(Vec::new());
    }
    let mut commands = Vec::new();
    for entry in std::fs::read_dir(ci)? {
        let entry = entry?;
        let text = std::fs::read_to_string(entry.path())?;
        let says =
            text.lines().nth(1).and_then(|line| line.strip_prefix("# ")).filter(|says| says.starts_with("Tests "));
        if let Some(says) = says {
            commands.push(Command { name: entry.file_name().to_string_lossy().into_owned(), says: says.to_owned() });
        }
    }
    commands.sort();
    Ok(commands)
}
