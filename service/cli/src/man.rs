//! `baton man`.

use std::path::PathBuf;

use clap::Args;

use super::{Done, Failed, print_text};

/// Write a man page for each command, e.g. `baton man ~/.local/share/man/man1`
#[derive(Debug, Args)]
pub struct Man {
    /// Directory, created if it does not exist [default: write no files, and print the man page of `baton`]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Man {
    /// Writes the man pages of a program.
    ///
    /// # Errors
    ///
    /// [`Failed::Usage`] if the pages cannot be written.
    pub fn run(self, program: clap::Command) -> Done {
        let Some(directory) = self.directory else {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(program.disable_help_subcommand(true)).render(&mut page);
            rendered.map_err(|error| Failed::Usage(format!("cannot render the man page: {error}")))?;
            return print_text(String::from_utf8_lossy(&page).trim_end());
        };
        std::fs::create_dir_all(&directory)
            .and_then(|()| clap_mangen::generate_to(program, &directory))
            .map_err(|error| Failed::Usage(format!("{}: {error}", directory.display())))
    }
}
