//! Checks that `.ci/run` has every command of `.ci`, and that code in documentation runs.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{metadata, read_dir, read_to_string};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use with_more::{commands, root};

#[test]
fn every_command_is_run_by_the_one_for_all_and_can_be_run_alone() {
    let all = read_to_string(root().join(".ci/run")).unwrap();
    // Stages are lines of the form `stage "COMMAND…" "COMMAND…"`.
    let stages = all.lines().filter_map(|line| line.strip_prefix("stage \""));
    let listed: Vec<&str> = stages.flat_map(|stage| stage.split(['"', ' '])).filter(|name| !name.is_empty()).collect();
    let commands = commands().unwrap();
    for name in commands.iter().map(|command| command.name.as_str()).chain([
        "book",
        "lints",
        "operating",
        "package",
        "spelling",
        "tests",
        "tutorial",
    ]) {
        assert!(listed.contains(&name), "`.ci/run` leaves `.ci/{name}` out");
    }
    for name in &listed {
        let mode = metadata(root().join(".ci").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "`.ci/{name}` cannot be run");
    }
    assert!(commands.iter().any(|command| command.name == "browser"), "{commands:?}");
}

/// Crates with examples in their documentation, which `cargo test` runs.
const WITH_CODE_IN_DOCS: [&str; 3] = ["decider-kit", "history", "runner-kit"];

#[test]
fn code_in_the_documentation_of_a_crate_is_run_or_said_to_be_text() {
    for entry in sources(&root()) {
        let is_run = WITH_CODE_IN_DOCS.iter().any(|of| entry.starts_with(root().join(of)));
        let text = read_to_string(&entry).unwrap();
        let mut fences = text.lines().filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("//! ```").or_else(|| line.strip_prefix("/// ```"))
        });
        // Fences alternate: the first one begins a code block, and the second one ends it.
        while let (false, Some(begin)) = (is_run, fences.next()) {
            assert!(begin.starts_with("text"), "{} has code in its documentation that no test runs", entry.display());
            fences.next();
        }
    }
}

/// Returns the paths of the source files of all libraries below a folder.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|of| of == "rs") {
            found.push(path);
        }
    }
    found
}
