//! The measures of the code's structure, each with its findings.

use std::collections::BTreeSet;

use crate::arrows::Arrows;
use crate::sources::Sources;
use crate::{debugged, names, references};

/// Folder of the engine, whose modules are measured, and the file that creates the modules.
const ENGINE_FOLDER: &str = "service/engine/src";
const ENGINE: &str = "service/engine/src/lib.rs";

/// A measure of the code's structure.
#[derive(Debug)]
pub struct Measure {
    /// Name, by which the tests find its bound.
    pub name: &'static str,
    /// Description of what is counted.
    pub what: &'static str,
    /// Number of findings.
    pub found: usize,
    /// Findings, one per line.
    pub behind: Vec<String>,
}

/// Computes all measures.
///
/// # Errors
///
/// If a file cannot be read.
pub fn all(sources: &Sources, arrows: &Arrows) -> Result<Vec<Measure>, Box<dyn std::error::Error>> {
    let mut measures = circles(arrows);
    measures.extend(rooms(sources, arrows));
    measures.extend(words(sources)?);
    Ok(measures)
}

/// Measures of cycles: name, description, and the paths below which cycles are searched. Dependencies on files
/// elsewhere do not count for a measure.
const CIRCLES: [(&str, &str, &[&str]); 4] = [
    ("circles", "files that import each other in a circle", &[""]),
    ("circles-engine", "of these, within the engine", &["service/engine/src"]),
    (
        "circles-wires",
        "of these, within what speaks HTTP",
        &[
            "service/src/api.rs",
            "service/src/http.rs",
            "service/src/nodes.rs",
            "service/src/openapi.rs",
            "service/src/rest.rs",
            "service/src/swf.rs",
        ],
    ),
    ("circles-flow", "of these, within workflows as code", &["decider-kit/src/flow.rs"]),
];

fn circles(arrows: &Arrows) -> Vec<Measure> {
    let measure = |(name, what, places): (_, _, &[&str])| {
        let circles = if places == [""] { arrows.circles() } else { arrows.circles_below(places) };
        let found = circles.iter().map(BTreeSet::len).sum();
        Measure { name, what, found, behind: circles.iter().flat_map(|circle| ties(arrows, circle)).collect() }
    };
    CIRCLES.map(measure).into()
}

/// Describes a cycle: each dependency between its files, with the names that cause it.
fn ties(arrows: &Arrows, circle: &BTreeSet<String>) -> Vec<String> {
    let within = arrows.names.iter().filter(|(arrow, _)| circle.contains(&arrow.from) && circle.contains(&arrow.to));
    let tie = within.map(|(arrow, names)| {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        format!("  {} -> {}: {}", arrow.from, arrow.to, names.join(", "))
    });
    std::iter::once(format!("circle of {}:", circle.len())).chain(tie).collect()
}

fn rooms(sources: &Sources, arrows: &Arrows) -> Vec<Measure> {
    let between = arrows.between(room_of_engine);
    let holders: Vec<_> = names::files_that_hold(sources, ENGINE_FOLDER, "Engine")
        .into_iter()
        .filter(|path| *path != ENGINE)
        .map(str::to_owned)
        .collect();
    vec![
        Measure {
            name: "arrows",
            what: "arrows between rooms of the engine",
            found: between.len(),
            behind: between.iter().map(|(from, to)| format!("{from} -> {to}")).collect(),
        },
        Measure {
            name: "holders",
            what: "files of the engine that hold `Engine`",
            found: holders.len(),
            behind: holders,
        },
    ]
}

/// Returns the module of the engine that a path belongs to: a file or folder directly below the source folder.
fn room_of_engine(path: &str) -> Option<&str> {
    let inner = path.strip_prefix("service/engine/src/").filter(|inner| *inner != "lib.rs")?;
    Some(inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs"))
}

fn words(sources: &Sources) -> Result<Vec<Measure>, Box<dyn std::error::Error>> {
    let ambiguous = names::ambiguous(sources);
    let within = names::within_one_crate(&ambiguous);
    let nowhere = references::nowhere()?;
    let debugged = debugged::lines()?;
    let shown = |name: &str, files: &BTreeSet<String>| {
        let files: Vec<_> = files.iter().map(String::as_str).collect();
        format!("{name}: {}", files.join(", "))
    };
    Ok(vec![
        Measure {
            name: "ambiguous",
            what: "type names that mean several types",
            found: ambiguous.len(),
            behind: ambiguous.iter().map(|(name, files)| shown(name, files)).collect(),
        },
        Measure {
            name: "ambiguous-within",
            what: "of these, within one crate",
            found: within.len(),
            behind: within.iter().map(|name| (*name).to_owned()).collect(),
        },
        Measure {
            name: "references",
            what: "references that lead nowhere",
            found: nowhere.len(),
            behind: nowhere.iter().map(|reference| format!("{} {}", reference.place, reference.name)).collect(),
        },
        Measure {
            name: "debugged",
            what: "messages with `Debug` forms, which only programmers can read",
            found: debugged.len(),
            behind: debugged,
        },
    ])
}
