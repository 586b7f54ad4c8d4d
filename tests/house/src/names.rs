//! Type names with several meanings, and the files that use a type.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::sources::{File, Sources};

/// Returns the names that several files use for different types, each with these files.
pub fn ambiguous(sources: &Sources) -> BTreeMap<String, BTreeSet<String>> {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sources.files.values() {
        let mut types = Types { names: Vec::new() };
        file.items.iter().for_each(|item| types.visit_item(item));
        for name in types.names {
            places.entry(name).or_default().insert(file.path.clone());
        }
    }
    places.retain(|_, files| files.len() > 1);
    places
}

/// Returns the names that mean several types within one crate.
pub fn within_one_crate(ambiguous: &BTreeMap<String, BTreeSet<String>>) -> Vec<&str> {
    let twice = |files: &BTreeSet<String>| {
        let crates: BTreeSet<_> = files.iter().filter_map(|path| path.split("/src/").next()).collect();
        crates.len() < files.len()
    };
    ambiguous.iter().filter(|(_, files)| twice(files)).map(|(name, _)| name.as_str()).collect()
}

/// Returns the files below a folder that contain this type name.
pub fn files_that_hold<'a>(sources: &'a Sources, folder: &'a str, name: &'a str) -> Vec<&'a str> {
    sources.below(folder).filter(|file| holds(file, name)).map(|file| file.path.as_str()).collect()
}

fn holds(file: &File, name: &str) -> bool {
    let mut held = Held { name, found: false };
    file.items.iter().for_each(|item| held.visit_item(item));
    held.found
}

struct Types {
    names: Vec<String>,
}

impl Visit<'_> for Types {
    fn visit_item_struct(&mut self, item: &syn::ItemStruct) {
        self.names.push(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &syn::ItemEnum) {
        self.names.push(item.ident.to_string());
    }

    fn visit_item_trait(&mut self, item: &syn::ItemTrait) {
        self.names.push(item.ident.to_string());
    }
}

struct Held<'a> {
    name: &'a str,
    found: bool,
}

impl Visit<'_> for Held<'_> {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        // Imports from other crates are ignored, because a type of this name in another crate is a different type.
        if let syn::UseTree::Path(path) = &item.tree
            && ["crate", "super", "self"].iter().any(|first| path.ident == first)
        {
            syn::visit::visit_item_use(self, item);
        }
    }

    fn visit_ident(&mut self, ident: &proc_macro2::Ident) {
        self.found |= ident == self.name;
    }
}
