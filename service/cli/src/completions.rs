//! `baton completions`.

use clap::Args;
use clap_complete::Shell;

use super::{Done, print_text};

/// Print a script for shell completion, e.g. `source <(baton completions bash)`
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell for which the script is printed
    shell: Shell,
}

impl Completions {
    /// Prints the completion script for a program.
    ///
    /// # Errors
    ///
    /// [`Failed::Other`](super::Failed::Other) if standard output cannot be written.
    pub fn run(&self, mut program: clap::Command) -> Done {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "baton", &mut script);
        print_text(String::from_utf8_lossy(&script).trim_end())
    }
}
