//! Suggestions for mistyped commands. Users often accept a suggestion without much thought. Suggestions with commands
//! that cannot be undone are therefore removed.

use clap::error::{ContextKind, ContextValue};

/// Commands and options that can end or delete items.
const DANGEROUS: [&str; 6] = ["delete", "--terminate", "terminate", "reset", "cancel", "--drop-signals"];

/// Returns the error without suggestions that contain a dangerous command or option.
pub fn without_dangerous_tips(mut error: clap::Error) -> clap::Error {
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::Suggested];
    for kind in kinds {
        let kept = match error.get(kind) {
            Some(ContextValue::String(tip)) => (!is_dangerous(tip)).then(|| ContextValue::String(tip.clone())),
            Some(ContextValue::Strings(tips)) => {
                let kept: Vec<String> = tips.iter().filter(|tip| !is_dangerous(tip)).cloned().collect();
                (!kept.is_empty()).then_some(ContextValue::Strings(kept))
            }
            Some(ContextValue::StyledStrs(tips)) => {
                let kept: Vec<_> = tips.iter().filter(|tip| !is_dangerous(&tip.to_string())).cloned().collect();
                (!kept.is_empty()).then_some(ContextValue::StyledStrs(kept))
            }
            _ => continue,
        };
        error.remove(kind);
        match kept {
            Some(kept) => drop(error.insert(kind, kept)),
            // The usage text was generated for the removed suggestion and contains it. It is therefore removed, too.
            None => drop(error.remove(ContextKind::Usage)),
        }
    }
    error
}

fn is_dangerous(tip: &str) -> bool {
    tip.split(|letter: char| !letter.is_alphanumeric() && letter != '-').any(|word| DANGEROUS.contains(&word))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser, Subcommand};

    use super::super::{CliCommand, Completions};
    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        _command: Commands,
    }

    #[derive(Debug, Subcommand)]
    #[expect(clippy::large_enum_variant, reason = "there is one at a time")]
    enum Commands {
        #[command(flatten)]
        Command(CliCommand),
        Completions(Completions),
    }

    /// Returns several misspellings of a word.
    fn typos(word: &str) -> Vec<String> {
        let letters: Vec<char> = word.chars().collect();
        let without = (0..letters.len())
            .map(|at| letters.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, c)| *c).collect());
        let twice = (0..letters.len())
            .map(|at| letters.iter().enumerate().flat_map(|(i, c)| vec![*c; 1 + usize::from(i == at)]).collect());
        let more = ["ing", "d", "s", "-run"].map(|end| format!("{word}{end}"));
        without.chain(twice).chain(more).collect()
    }

    fn said(line: &[String]) -> String {
        match Cli::try_parse_from(line) {
            Ok(_) => String::new(),
            Err(error) => without_dangerous_tips(error).render().to_string(),
        }
    }

    #[test]
    fn no_tip_names_what_cannot_be_taken_back() {
        let (mut dangerous, mut others) = (0, 0);
        for command in Cli::command().get_subcommands() {
            for inner in command
                .get_subcommands()
                .map(clap::Command::get_name)
                .chain(["execute", "describe", "remove", "kill", "stop"])
            {
                let typed = typos(inner).into_iter().chain([inner.to_owned()]);
                for typed in typed {
                    let said = said(&["baton", command.get_name(), &typed].map(str::to_owned));
                    let tips: Vec<&str> = said.lines().filter(|line| line.contains("tip:")).collect();
                    assert!(!tips.iter().any(|tip| is_dangerous(tip)), "{typed}: {said}");
                    others += tips.len();
                    dangerous += usize::from(tips.is_empty() && is_dangerous(inner));
                }
            }
        }
        assert!(dangerous > 50 && others > 100, "{dangerous} {others}");
        let said = said(&["baton", "workflow", "delete", "w", "--terminat"].map(str::to_owned));
        assert!(said.contains("--terminat") && !said.contains("--terminate"), "{said}");
    }

    #[test]
    fn what_users_of_others_type_is_there() {
        for line in [
            "workflow execute w --type t",
            "workflow describe w",
            "workflow history w",
            "workflow query w total",
            "workflow update w add",
            "completions bash",
        ] {
            let line = format!("baton {line}");
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_duration_is_written_the_same_everywhere() {
        for (line, good) in [
            ("workflow start w --type t --wait", true),
            ("workflow execute w --type t --wait", true),
            ("workflow result w --wait", true),
            ("query w total --wait", true),
            ("update w add --wait", true),
            ("workflow start w --type t --turn-timeout", true),
            ("schedule create s --type t --every", true),
            ("domain create d --retention", true),
            ("activity set w a --heartbeat", true),
        ] {
            for (text, is_one) in
                [("1h", true), ("1m 30s", true), ("PT1M", true), ("90", true), ("soon", false), ("-1s", false)]
            {
                let args = ["baton"].into_iter().chain(line.split(' ')).map(str::to_owned);
                // A negative value must be attached to its option with `=`. Otherwise it would be parsed as an
                // option.
                let mut args: Vec<String> = args.collect();
                let last = args.pop().unwrap();
                args.push(format!("{last}={text}"));
                assert_eq!(Cli::try_parse_from(&args).is_ok(), good && is_one, "{args:?}");
            }
        }
    }
}
