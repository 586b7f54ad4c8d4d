//! Editing of the credentials in a configuration file. Comments, layout and all settings except credentials stay
//! unchanged.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use service::access::{Credential as Stanza, Credentials};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use crate::config;
use crate::settings::Serve;
use cli::Failed;

/// Configuration file, with its new contents, which stay in memory until [`write`](Self::write) is called.
pub(super) struct File {
    path: PathBuf,
    /// Contents of the file before the change; `None` if the file did not exist.
    before: Option<String>,
    text: String,
}

fn failed(what: impl Into<String>) -> Failed {
    Failed::Other(1, what.into())
}

impl File {
    /// Returns the contents for a file that does not exist yet.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), before: None, text: String::new() }
    }

    pub(super) fn read(path: &Path) -> Result<Self, Failed> {
        // If the path is a symbolic link, the linked file is changed, and the link stays.
        let path = path.canonicalize().map_err(|error| Failed::Usage(format!("{}: {error}", path.display())))?;
        let text = config::text(&path).map_err(Failed::Usage)?;
        let file = Self { path, before: Some(text.clone()), text };
        file.credentials()?;
        Ok(file)
    }

    pub(super) fn shown(&self) -> impl std::fmt::Display + '_ {
        self.path.display()
    }

    /// Returns the credentials in the new contents. Fails if the new contents as a whole are not a valid configuration.
    pub(super) fn credentials(&self) -> Result<Vec<Stanza>, Failed> {
        let file = config::parse_file::<Serve>(&self.path, &self.text).map_err(Failed::Usage)?;
        let limits = file.limits();
        let stanzas = file.stanzas().credentials;
        let wrong = |error| Failed::Usage(format!("{}: {error}", self.path.display()));
        Credentials::new(stanzas.clone()).map_err(wrong)?;
        limits.map_err(wrong)?;
        Ok(stanzas)
    }

    /// Appends the section of a new credential.
    pub(super) fn append(&mut self, stanza: &str) {
        if !self.text.is_empty() {
            let has_end = self.text.ends_with('\n');
            self.text.push_str(if has_end { "\n" } else { "\n\n" });
        }
        self.text.push_str(stanza);
    }

    /// Adds a secret or key to a credential.
    pub(super) fn add_secret(&mut self, name: &str, made: &Stanza) -> Result<(), Failed> {
        self.change(name, |table| {
            for secret in &made.secrets {
                add(table, "secrets", &[("sha256", &secret.sha256)], secret.expires)?;
            }
            for key in &made.access_keys {
                add(table, "access-keys", &[("id", &key.id), ("secret", &key.secret)], key.expires)?;
            }
            Ok(())
        })
    }

    /// Removes a credential.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), Failed> {
        self.edit(|document| {
            let stanzas = document.get_mut("credentials").and_then(Item::as_array_of_tables_mut);
            let stanzas = stanzas.ok_or_else(|| failed(NOT_STANZAS))?;
            let at = stanzas.iter().position(|table| is_of(table, name)).ok_or_else(|| unknown(name))?;
            stanzas.remove(at);
            Ok(())
        })
    }

    /// Removes one secret or key of a credential.
    pub(super) fn remove_secret(&mut self, name: &str, which: &str) -> Result<(), Failed> {
        self.change(name, |table| {
            let found = places(table, which);
            match found.as_slice() {
                [place] => {
                    take_out(table, place);
                    Ok(())
                }
                [] => {
                    Err(failed(format!("`{name}` has no secret `{which}`; `baton credential list` lists its secrets")))
                }
                _ => Err(failed(format!("several secrets of `{name}` begin with `{which}`; use more digits"))),
            }
        })?;
        let nothing = "this is its last secret; omit --secret to remove the credential, or create another secret first";
        self.credentials().map(drop).map_err(|_| failed(format!("`{name}`: {nothing}")))
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Table) -> Result<(), Failed>) -> Result<(), Failed> {
        self.edit(|document| {
            let stanzas = document.get_mut("credentials").and_then(Item::as_array_of_tables_mut);
            let stanzas = stanzas.ok_or_else(|| failed(NOT_STANZAS))?;
            let table = stanzas.iter_mut().find(|table| is_of(table, name)).ok_or_else(|| unknown(name))?;
            change(table)
        })
    }

    fn edit(&mut self, edit: impl FnOnce(&mut DocumentMut) -> Result<(), Failed>) -> Result<(), Failed> {
        let parsed = self.text.parse::<DocumentMut>();
        let mut document = parsed.map_err(|_| failed(format!("{}: invalid TOML", self.path.display())))?;
        edit(&mut document)?;
        self.text = document.to_string();
        Ok(())
    }

    /// Writes the file atomically, readable and writable only by its owner.
    pub(super) fn write(&self) -> Result<(), Failed> {
        self.credentials()?;
        let shown = self.path.display();
        let io = |error: std::io::Error| failed(format!("{shown}: {error}"));
        let partial = self.path.with_extension(format!("partial-{}", std::process::id()));
        let written = self.write_at(&partial).and_then(|()| {
            let now = if self.path.exists() { Some(std::fs::read_to_string(&self.path)?) } else { None };
            if now != self.before {
                return Err(std::io::Error::other("the file has changed in the meantime; repeat the command"));
            }
            std::fs::rename(&partial, &self.path)
        });
        if written.is_err() {
            // If the partial file cannot be removed, it remains, which does no harm.
            drop(std::fs::remove_file(&partial));
        }
        written.map_err(io)
    }

    fn write_at(&self, partial: &Path) -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(partial)?;
        if let Ok(old) = std::fs::metadata(&self.path) {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                // The user as which the service runs must still be able to read the file.
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        file.write_all(self.text.as_bytes())?;
        file.sync_all()
    }
}

/// Error message if the credentials are in a format that this command cannot edit.
const NOT_STANZAS: &str = "the credentials are not [[credentials]] sections; edit the file yourself";

fn unknown(name: &str) -> Failed {
    failed(format!("unknown credential `{name}`; `baton credential list` lists the credentials"))
}

fn is_of(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

/// Adds an entry to a list of a credential. The new entry is on a separate line if the existing entries are.
fn add(
    table: &mut Table,
    list: &str,
    texts: &[(&str, &str)],
    expires: Option<service::access::Moment>,
) -> Result<(), Failed> {
    let mut entry = InlineTable::new();
    for (name, value) in texts {
        entry.insert(*name, Value::from(*value));
    }
    if let Some(expires) = expires {
        let at = expires.0.to_string().parse::<toml_edit::Datetime>();
        entry.insert("expires", Value::from(at.map_err(|error| failed(error.to_string()))?));
    }
    match table.entry(list).or_insert_with(|| Item::Value(Value::Array(Array::new()))) {
        Item::Value(Value::Array(array)) => array.push(entry),
        Item::ArrayOfTables(tables) => tables.push(entry.into_table()),
        _ => return Err(failed(format!("`{list}` must be a list"))),
    }
    Ok(())
}

/// Position of a secret or key in the section of a credential.
enum Place {
    /// Keys in the section itself, such as `secret-sha256`.
    Keys(&'static [&'static str]),
    /// Element of a list in the section: the name of the list, and the index of the element.
    In(&'static str, usize),
}

/// Returns the positions of secrets whose hash begins with `which`, and of access keys whose id is `which`.
fn places(table: &Table, which: &str) -> Vec<Place> {
    let text = |item: Option<&Item>| item.and_then(Item::as_str).unwrap_or_default().to_owned();
    let is_secret = |sha256: &str| !which.is_empty() && sha256.to_ascii_lowercase().starts_with(which);
    let mut found = Vec::new();
    if is_secret(&text(table.get("secret-sha256"))) {
        found.push(Place::Keys(&["secret-sha256"]));
    }
    if text(table.get("access-key-id")) == which {
        found.push(Place::Keys(&["access-key-id", "secret-access-key"]));
    }
    for (index, entry) in entries(table, "secrets").into_iter().enumerate() {
        if is_secret(&text(entry.get("sha256"))) {
            found.push(Place::In("secrets", index));
        }
    }
    for (index, entry) in entries(table, "access-keys").into_iter().enumerate() {
        if text(entry.get("id")) == which {
            found.push(Place::In("access-keys", index));
        }
    }
    found
}

fn entries(table: &Table, list: &str) -> Vec<Table> {
    match table.get(list) {
        Some(Item::Value(Value::Array(array))) => {
            array.iter().map(|value| value.as_inline_table().cloned().unwrap_or_default().into_table()).collect()
        }
        Some(Item::ArrayOfTables(tables)) => tables.iter().cloned().collect(),
        _ => Vec::new(),
    }
}

fn take_out(table: &mut Table, place: &Place) {
    match place {
        Place::Keys(keys) => {
            for key in *keys {
                table.remove(key);
            }
        }
        Place::In(list, index) => {
            match table.get_mut(list) {
                Some(Item::Value(Value::Array(array))) => drop(array.remove(*index)),
                Some(Item::ArrayOfTables(tables)) => drop(tables.remove(*index)),
                _ => {}
            }
            if entries(table, list).is_empty() {
                table.remove(list);
            }
        }
    }
}
