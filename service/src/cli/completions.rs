//! `baton completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Done, print_text};

/// Print what lets your shell complete commands and options, e.g. `source <(baton completions bash)`
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Done {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "baton", &mut script);
        print_text(String::from_utf8_lossy(&script).trim_end())
    }
}
