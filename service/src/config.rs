//! The configuration file: reading and parsing it, and error messages about it. The file contains secrets. Messages
//! therefore contain keys and positions, but no value that may be secret.

use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Permission bits that must not be set for a file with secrets. They concern all users except the owner.
const OTHERS: u32 = 0o077;

/// Permission bits that must not be set for a file that contains secrets and is owned by root. The file's group may
/// read it, so that the service can run as a user of that group, who can read but not change the file. Source:
/// `PostgreSQL`'s rule for the key of its certificate.
const OTHERS_THAN_ROOT: u32 = 0o037;

/// Sections that contain secrets: credentials, and the addresses and commands of functions.
const SECRET_KEYS: [&str; 2] = ["credentials", "lambda"];

/// Beginnings of parser messages that may be shown for sections with secrets, because such a message contains at most a
/// key and no value.
const NAMES_A_KEY: [&str; 4] = ["unknown field", "missing field", "duplicate field", "expected a time such as"];

/// Reads and parses a configuration file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    parse_file(path, &text(path)?)
}

/// Reads the text of a configuration file.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Parses the text of a configuration file.
pub(crate) fn parse_file<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, String> {
    parse(text).map_err(|error| format!("{}: {error}", path.display()))
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let at = |error: &toml::de::Error| error.span().map(|span| place(text, span.start)).unwrap_or_default();
    let file = toml::Deserializer::parse(text).map_err(|error| format!("{}invalid TOML", at(&error)))?;
    T::deserialize(file).map_err(|error| {
        let root = || Some(DeValue::Table(DeTable::parse(text).ok()?.into_inner()));
        // An empty span means that the error concerns the whole file.
        let key = error.span().filter(|span| !span.is_empty()).and_then(|span| key_of(&root()?, &span));
        let message = error.message();
        // If the key of the error is not known, the message may contain a secret value.
        let may_be_secret = key.as_ref().is_none_or(|key| SECRET_KEYS.iter().any(|of| key.starts_with(of)));
        let names_a_key = NAMES_A_KEY.iter().any(|begin| message.starts_with(begin));
        let place = key.map(|key| format!("{}`{key}`: ", at(&error))).unwrap_or_default();
        match message {
            message if names_a_key || !may_be_secret => format!("{place}{message}"),
            _ => format!("{place}the value has the wrong type"),
        }
    })
}

/// Returns the innermost key whose name or value contains the whole span, such as `credentials[0].name`.
fn key_of(value: &DeValue<'_>, of: &Range<usize>) -> Option<String> {
    let lies_in = |span: Range<usize>| span.start <= of.start && of.end <= span.end;
    let within = |step: String, span: Range<usize>, value: &DeValue<'_>| match key_of(value, of) {
        Some(rest) if rest.starts_with('[') => Some(step + &rest),
        Some(rest) => Some(format!("{step}.{rest}")),
        None => lies_in(span).then_some(step),
    };
    match value {
        DeValue::Table(table) => table.iter().find_map(|(key, value)| {
            let step = key.get_ref().to_string();
            within(step.clone(), value.span(), value.get_ref()).or_else(|| lies_in(key.span()).then_some(step))
        }),
        DeValue::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| within(format!("[{index}]"), item.span(), item.get_ref()))
        }
        _ => None,
    }
}

/// Returns the line and column of a byte offset as text. Both are counted from one.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: ")
}

/// Warns if users other than the owner may read or write a configuration with secrets. Readers could guess weak
/// secrets from their hashes, and find the secrets of access keys in the file. Writers could grant themselves any
/// permission.
pub(crate) fn warn_if_open(path: &Path) {
    warn_if_others_use("the configuration", "credentials or functions", path);
}

/// Warns if users other than the owner may read or write a file.
pub(crate) fn warn_if_others_use(file: &str, what: &str, path: &Path) {
    let Ok(found) = std::fs::metadata(path) else { return };
    let (mode, shown) = (found.permissions().mode() & 0o777, path.display());
    if is_open(mode, found.uid()) {
        tracing::warn!(
            "other users have access to {file} `{shown}` (mode {mode:03o}), which contains {what}: run `chmod go= \
             {shown}`"
        );
    }
}

fn is_open(mode: u32, owner: u32) -> bool {
    mode & if owner == 0 { OTHERS_THAN_ROOT } else { OTHERS } != 0
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use service::access::{Credential, Issuer};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    struct File {
        #[serde(default)]
        credentials: Vec<Credential>,
        #[serde(default)]
        issuers: Vec<Issuer>,
        #[serde(default)]
        log_json: bool,
        #[serde(default)]
        lambda: std::collections::BTreeMap<String, String>,
        #[serde(flatten)]
        part: Part,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Part {
        key_file: Option<u8>,
    }

    #[test]
    fn only_a_file_of_root_may_be_readable_by_its_group() {
        let open = |owner: u32| [0o600, 0o400, 0o440, 0o640, 0o660, 0o644, 0o650].map(|mode| is_open(mode, owner));
        assert_eq!(open(0), [false, false, false, false, true, true, true]);
        assert_eq!(open(1), [false, false, true, true, true, true, true]);
    }

    #[test]
    fn errors_in_the_file_have_key_and_place_but_no_secret() {
        let credential = "[[credentials]]\nname = 'a'\n";
        let issuer = "[[issuers]]\nname = 'a'\nissuer = 'b'\naudiences = []\n[[issuers.rules]]\n";
        for (text, says) in [
            (
                format!("{credential}secret-acces-key = 'hunter2'"),
                "line 3, column 1: `credentials[0].secret-acces-key`",
            ),
            (format!("{credential}secret-access-key = ['hunter2']"), "line 3, column 21"),
            (format!("{credential}operator = 'hunter2'"), "line 3, column 12: `credentials[0].operator`: the value"),
            (format!("{credential}secret-access-key = hunter2"), "line 3, column 21: invalid TOML"),
            (format!("{credential}secret-access-key = 'hunter2"), "line 3"),
            (format!("{credential}secret-access-key 'hunter2'"), "line 3"),
            (
                format!("{credential}secrets = [{{ sha256 = 'x', expires = 'hunter2' }}]"),
                "`credentials[0].secrets[0].expires`: expected a time such as 2027-01-31T00:00:00Z",
            ),
            ("credentials = 'hunter2'".to_owned(), "line 1, column 15: `credentials`"),
            ("[lambda]\ncharge = { url = 'hunter2' }".to_owned(), "line 2, column 10: `lambda.charge`"),
            ("log-jsn = 'hunter2'".to_owned(), "unknown field `log-jsn`"),
            ("log-json = 'yes'".to_owned(), "line 1, column 12: `log-json`: invalid type: string \"yes\""),
            ("[[credentials]]\noperator = true".to_owned(), "line 1, column 1: `credentials[0]`: missing field `name`"),
            (format!("{issuer}claim = 'hunter2'"), "line 5, column 1: `issuers[0].rules[0]`: missing field `has`"),
            (format!("{issuer}has = 'hunter2'"), "line 5, column 1: `issuers[0].rules[0]`: missing field `claim`"),
            // serde reports errors in flattened fields without their position, so the key of this error is not known.
            ("log-json = true\nkey-file = 'hunter2'".to_owned(), "the value has the wrong type"),
        ] {
            let said = parse::<File>(&text).unwrap_err();
            assert!(said.contains(says) && !said.contains("hunter2"), "{text}\n{said}");
            assert!(said.contains("`log-json`") == text.contains("'yes'"), "{text}\n{said}");
        }
        let read: File = parse(&format!("log-json = true\n{credential}operator = true")).unwrap();
        assert!(
            read.log_json
                && read.credentials.len() == 1
                && read.issuers.is_empty()
                && read.lambda.is_empty()
                && read.part.key_file.is_none()
        );
    }
}
