//! Compares each measure of the code's structure with its bound. Bounds are only ever lowered.

use house::{Arrows, Sources, measures, texts};

/// Maximum value of each measure. If a change lowers a measure, lower its bound, too.
const BOUNDS: &[(&str, usize)] = &[
    ("circles", 0),
    ("circles-engine", 0),
    ("circles-wires", 0),
    ("circles-flow", 0),
    ("arrows", 44),
    ("holders", 0),
    ("ambiguous", 21),
    ("ambiguous-within", 0),
    ("references", 0),
    ("debugged", 0),
];

#[test]
fn no_figure_of_the_house_is_worse_than_what_was_reached() {
    let sources = Sources::read().unwrap();
    let arrows = Arrows::of(&sources);
    let found = measures::all(&sources, &arrows).unwrap();
    let bounds: Vec<_> = BOUNDS.iter().map(|(name, _)| *name).collect();
    let names: Vec<_> = found.iter().map(|measure| measure.name).collect();
    assert_eq!(names, bounds, "each figure has its bound");
    let worse: Vec<_> = found
        .iter()
        .zip(BOUNDS)
        .filter(|(measure, (_, bound))| measure.found > *bound)
        .map(|(measure, (_, bound))| format!("{}: {}, at most {bound}", measure.what, measure.found))
        .collect();
    assert!(worse.is_empty(), "{worse:#?}; `cargo run -p baton-tests-house -- --all` shows what stands behind each");
}

#[test]
fn no_text_has_a_line_of_a_merge_that_was_not_ended() {
    let found = texts::conflicts(&house::root()).unwrap();
    assert!(found.is_empty(), "{found:#?}");
}
