//! Prints, at the end of `cargo test --workspace`, which tests were not run and which commands run them. This is not a
//! test, and prints nothing if tests are selected by name.

fn main() -> std::io::Result<()> {
    let commands = with_more::commands()?;
    if commands.is_empty() || std::env::args().nth(1).is_some() {
        return Ok(());
    }
    println!("\nNot run here, because it needs more than Rust or takes long to build. `.ci/run` runs all of it:\n");
    for command in commands {
        println!("  .ci/{:<10} {}", command.name, command.says);
    }
    println!();
    Ok(())
}
