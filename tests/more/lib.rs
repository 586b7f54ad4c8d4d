//! Which tests need more than Rust: the commands in `.ci` whose first line says what they test.

use std::path::{Path, PathBuf};

/// A command that runs tests which `cargo test --workspace` does not run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// Its name in `.ci`.
    pub name: String,
    /// What it says of itself in the first line below its `#!`.
    pub says: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands, by name; none where the sources are without `.ci`.
///
/// # Errors
///
/// When `.ci` cannot be read.
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
