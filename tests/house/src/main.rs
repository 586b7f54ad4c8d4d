//! Prints the measures of the house: `cargo run -p baton-tests-house`, with `--all` what stands behind each figure.

use house::{Arrows, Sources, measures};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let all = std::env::args().any(|argument| argument == "--all");
    let sources = Sources::read()?;
    let arrows = Arrows::of(&sources);
    for measure in measures::all(&sources, &arrows)? {
        println!("{:>7}  {}", measure.found, measure.what);
        if all {
            measure.behind.iter().for_each(|line| println!("           {line}"));
        }
    }
    Ok(())
}
