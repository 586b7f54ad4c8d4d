//! The last lines of `cargo test`: what it did not run, and the commands that do. Not a test itself. Prints nothing if the
//! command line selects tests.

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
