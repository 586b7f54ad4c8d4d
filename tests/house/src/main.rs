//! Prints the measures of the code's structure: `cargo run -p baton-tests-house`. With `--all` it also prints the
//! findings behind each number.

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
