//! Reads the sources of the product: the files of each crate and of the program `baton`, without tests. Follows `mod`
//! declarations from the root module, like the compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Crates of the product: the folder of each, and its name in code. Benchmarks and tests are not part of the product.
pub const CRATES: &[(&str, &str)] = &[
    ("history", "history"),
    ("store", "store"),
    ("store/embedded", "store_embedded"),
    ("store/archive", "store_archive"),
    ("store/dynamodb", "store_dynamodb"),
    ("service", "service"),
    ("service/engine", "engine"),
    ("service/cli", "cli"),
    ("client", "client"),
    ("client/tables", "tables"),
    ("decider-kit", "decider_kit"),
    ("runner-kit", "runner_kit"),
];

/// Root of the program `baton`: its folder, its file, and the name used for its crate here.
const PROGRAM: (&str, &str, &str) = ("service/src", "main.rs", "baton");

/// Path of a module, beginning with the name of its crate.
pub type Module = Vec<String>;

/// A parsed file of the product.
#[derive(Debug)]
pub struct File {
    /// Path relative to the root of the repository.
    pub path: String,
    /// Path of the module that the file defines.
    pub module: Module,
    /// Items of the file without tests.
    pub items: Vec<syn::Item>,
}

/// All parsed files.
#[derive(Debug)]
pub struct Sources {
    /// Files by path.
    pub files: BTreeMap<String, File>,
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Sources {
    /// Reads every crate of the product, and the program `baton`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is not Rust.
    pub fn read() -> Result<Self, Box<dyn std::error::Error>> {
        let mut sources = Self { files: BTreeMap::new() };
        for (folder, name) in CRATES {
            sources.read_module(&format!("{folder}/src"), "lib.rs", &[(*name).to_owned()])?;
        }
        let (folder, file, name) = PROGRAM;
        sources.read_module(folder, file, &[name.to_owned()])?;
        Ok(sources)
    }

    /// Parses texts instead of files. Each text has a path. The text at `lib.rs` is the root of the crate `name`.
    ///
    /// # Errors
    ///
    /// If a text is not Rust.
    pub fn of(name: &str, texts: &[(&str, &str)]) -> syn::Result<Self> {
        let mut files = BTreeMap::new();
        for (path, text) in texts {
            let inner = path.trim_end_matches(".rs").split('/').map(str::to_owned);
            let module = std::iter::once(name.to_owned()).chain(inner.filter(|part| part != "lib")).collect();
            files.insert((*path).to_owned(), file(path, module, text)?);
        }
        Ok(Self { files })
    }

    fn read_module(&mut self, folder: &str, name: &str, module: &[String]) -> Result<(), Box<dyn std::error::Error>> {
        let path = format!("{folder}/{name}");
        let text = std::fs::read_to_string(root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
        let file = file(&path, module.to_vec(), &text).map_err(|error| format!("{path}: {error}"))?;
        let inner = match name {
            "lib.rs" | "main.rs" => folder.to_owned(),
            name => format!("{folder}/{}", name.trim_end_matches(".rs")),
        };
        let children: Vec<_> = file.items.iter().filter_map(outlined).collect();
        self.files.insert(path, file);
        for child in children {
            let module: Module = module.iter().cloned().chain([child.clone()]).collect();
            self.read_module(&inner, &format!("{child}.rs"), &module)?;
        }
        Ok(())
    }

    /// Returns the file at this path and the files below it.
    pub fn below<'a>(&'a self, place: &'a str) -> impl Iterator<Item = &'a File> {
        let inner = format!("{}/", place.trim_end_matches(".rs"));
        self.files.values().filter(move |file| file.path == place || file.path.starts_with(&inner))
    }
}

/// Returns the name of a module that is declared here but defined in another file.
fn outlined(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    }
}

fn file(path: &str, module: Module, text: &str) -> syn::Result<File> {
    let items = syn::parse_file(text)?.items.into_iter().filter(|item| !is_test(item)).collect();
    Ok(File { path: path.to_owned(), module, items })
}

/// Returns whether an item is only compiled for tests.
fn is_test(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => attribute.path().is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}
