//! The commands in `.ci` with tests that are not part of `cargo test`. The first comment of such a command begins with
//! `Tests`.

use std::path::{Path, PathBuf};

/// A command with tests that `cargo test` does not run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// Name of the file in `.ci`.
    pub name: String,
    /// Description: the comment in the first line after the `#!` line.
    pub says: String,
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the commands, sorted by name. Empty if the sources have no folder `.ci`.
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
