//! `baton man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::{Cli, Done, Failed, print_text};

/// Write a man page for each command, e.g. `baton man ~/.local/share/man/man1`; without a directory, print the first
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Where to write them; it is made where it is missing
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self) -> Done {
        let Some(directory) = self.directory else {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(Cli::command().disable_help_subcommand(true)).render(&mut page);
            rendered.map_err(|error| Failed::Usage(format!("no man page: {error}")))?;
            return print_text(String::from_utf8_lossy(&page).trim_end());
        };
        std::fs::create_dir_all(&directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &directory))
            .map_err(|error| Failed::Usage(format!("{}: {error}", directory.display())))
    }
}
