//! Shell completions and man pages, which are generated from the command line's definition.

use std::process::{Command, Stdio};

use crate::support::Scratch;

fn baton(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_shell_has_completions() {
    let scratch = Scratch::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, said) = baton(&["completions", shell]);
        assert_eq!((code, said.as_str()), (0, ""), "{shell}");
        for word in ["workflow", "execute", "man", "data-dir"] {
            assert!(script.contains(word), "{shell} cannot complete {word}");
        }
        let file = scratch.0.join(shell);
        std::fs::write(&file, script).unwrap();
    }
    // The completion as bash evaluates it.
    let script = scratch.0.join("bash");
    let asks = "COMP_WORDS=(baton ser); COMP_CWORD=1; _baton baton ser baton; echo \"${COMPREPLY[*]}\"";
    let line = format!("source {}; {asks}", script.display());
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "serve", "{output:?}");

    let (code, _, said) = baton(&["completions", "cmd"]);
    assert!(code == 2 && said.contains("bash"), "{code} {said}");
}

#[test]
fn every_command_has_a_man_page() {
    let scratch = Scratch::new("man");
    let folder = scratch.0.join("share/man1");
    let (code, printed, said) = baton(&["man", folder.to_str().unwrap()]);
    assert_eq!((code, printed.as_str(), said.as_str()), (0, "", ""));

    let page = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
    assert!(page("baton-serve").contains("BATON_DATA_DIR"));
    assert!(page("baton-workflow-start").contains("\\-\\-wait"));
    // Each page that another refers to exists.
    let mut waiting = vec!["baton".to_owned()];
    let mut seen = 0;
    while let Some(name) = waiting.pop() {
        let text = page(&name);
        assert!(text.contains(".TH "), "{name}: {text}");
        let below = format!("{}\\-", name.replace('-', "\\-"));
        let named = text.lines().filter_map(|line| line.strip_suffix("(1)")?.strip_prefix(&below));
        waiting.extend(
            named.filter(|rest| !rest.contains("help")).map(|rest| format!("{name}-{rest}").replace("\\-", "-")),
        );
        seen += 1;
    }
    assert!(seen > 40, "{seen}");

    let (code, first, _) = baton(&["man"]);
    assert_eq!((code, first.trim_end()), (0, page("baton").trim_end()));

    let nowhere = folder.join("baton.1/x");
    let (code, _, said) = baton(&["man", nowhere.to_str().unwrap()]);
    assert!(code == 2 && said.contains("baton.1/x"), "{code} {said}");
}
