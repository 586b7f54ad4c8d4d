//! The product's sources: each crate's files from its root module on, as the compiler would find them, without tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proc_macro2::LineColumn;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

/// The crates that make up the product, by the folder of each and the name that code calls it by.
///
/// Benches and tests are no product, and no rooms of the house.
pub const CRATES: &[(&str, &str)] = &[
    ("history", "history"),
    ("store", "store"),
    ("store/embedded", "store_embedded"),
    ("store/dynamodb", "store_dynamodb"),
    ("service", "service"),
    ("service/engine", "engine"),
    ("client", "client"),
    ("decider-kit", "decider_kit"),
    ("runner-kit", "runner_kit"),
];

/// The path of a module: its crate's name first.
pub type Module = Vec<String>;

/// A file of the product, read.
#[derive(Debug)]
pub struct File {
    /// Where it lies, from the root of the repository on.
    pub path: String,
    /// The module that it is.
    pub module: Module,
    /// Its code, without tests.
    pub items: Vec<syn::Item>,
    /// How many lines it has, those of tests within it left out.
    pub lines: usize,
}

/// All files of the product.
#[derive(Debug)]
pub struct Sources {
    /// By path.
    pub files: BTreeMap<String, File>,
}

/// A function and how many lines it has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Length {
    /// From its signature to its last brace.
    pub lines: usize,
    /// Where it stands: `path:line name`.
    pub place: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Sources {
    /// Reads every crate of the product.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or is no Rust.
    pub fn read() -> Result<Self, Box<dyn std::error::Error>> {
        let mut sources = Self { files: BTreeMap::new() };
        for (folder, name) in CRATES {
            sources.read_module(&format!("{folder}/src"), "lib.rs", &[(*name).to_owned()])?;
        }
        Ok(sources)
    }

    /// Reads every crate of the product, and the program `baton`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is not Rust.
    pub fn read_with_program() -> Result<Self, Box<dyn std::error::Error>> {
        let mut sources = Self::read()?;
        sources.read_module("service/src", "main.rs", &["baton".to_owned()])?;
        Ok(sources)
    }

    /// Sources made up of texts, by path: `name` is the crate whose root is `lib.rs`.
    ///
    /// # Errors
    ///
    /// When a text is no Rust.
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

    /// Files below a folder, or the file of that name.
    pub fn below<'a>(&'a self, place: &'a str) -> impl Iterator<Item = &'a File> {
        let inner = format!("{}/", place.trim_end_matches(".rs"));
        self.files.values().filter(move |file| file.path == place || file.path.starts_with(&inner))
    }

    /// The longest functions first.
    pub fn functions(&self) -> Vec<Length> {
        let mut all = Vec::new();
        for file in self.files.values() {
            let mut functions = Functions { path: &file.path, all: &mut all };
            file.items.iter().for_each(|item| functions.visit_item(item));
        }
        all.sort_by(|one, other| other.cmp(one));
        all
    }
}

/// A module that stands in a file of its own.
fn outlined(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    }
}

fn file(path: &str, module: Module, text: &str) -> syn::Result<File> {
    let read = syn::parse_file(text)?;
    let (tests, items): (Vec<_>, Vec<_>) = read.items.into_iter().partition(is_test);
    let of_tests: usize = tests.iter().map(|item| lines(item.span().start(), item.span().end())).sum();
    Ok(File { path: path.to_owned(), module, items, lines: text.lines().count() - of_tests })
}

fn lines(start: LineColumn, end: LineColumn) -> usize {
    end.line + 1 - start.line
}

/// Whether something is compiled for tests alone.
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

struct Functions<'a> {
    path: &'a str,
    all: &'a mut Vec<Length>,
}

impl Functions<'_> {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let start = signature.span().start();
        let place = format!("{}:{} {}", self.path, start.line, signature.ident);
        self.all.push(Length { lines: lines(start, block.span().end()), place });
    }
}

impl Visit<'_> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &syn::ItemFn) {
        self.add(&function.sig, &function.block);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, function);
    }
}
