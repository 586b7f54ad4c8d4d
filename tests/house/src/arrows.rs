//! Dependencies between files ("arrows"): a file depends on another if it names something that the other file defines.
//! Also finds cycles of dependencies.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::sources::{File, Module, Sources};

/// A dependency: one file names something that another file defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// File that contains the name.
    pub from: String,
    /// File that defines the name.
    pub to: String,
}

/// All dependencies of the product.
#[derive(Debug)]
pub struct Arrows {
    /// Names that `from` uses from `to`, for each arrow.
    pub names: BTreeMap<Arrow, BTreeSet<String>>,
}

/// Maximum number of re-exports to follow for one name. Our choice: far more than any name passes through; the limit
/// only ends cycles of re-exports.
const FOLLOWED_MAX: usize = 16;

/// Contents of a module.
#[derive(Debug, Default)]
struct Scope {
    path: String,
    defines: BTreeSet<String>,
    modules: BTreeSet<String>,
    /// Imported names, each with the path in its `use` declaration.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl Arrows {
    /// Finds all dependencies.
    pub fn of(sources: &Sources) -> Self {
        let scopes = Scopes::of(sources);
        let mut arrows = Self { names: BTreeMap::new() };
        for file in sources.files.values() {
            for (module, path) in mentioned(file) {
                // Skips a path without a name, such as `super` in `pub(super)` within a macro.
                if path.iter().all(|name| matches!(name.as_str(), "crate" | "self" | "super")) {
                    continue;
                }
                let Some((to, name)) = scopes.find(&module, &path, FOLLOWED_MAX) else { continue };
                // A single name that is also the name of a module may be a local variable here, so it is skipped.
                if path.len() == 1 && scopes.is_module(&module, &name) {
                    continue;
                }
                if to != file.path {
                    let arrow = Arrow { from: file.path.clone(), to };
                    arrows.names.entry(arrow).or_default().insert(name);
                }
            }
        }
        arrows
    }

    /// Returns the cycles: each is a set of files that all depend on each other, directly or indirectly.
    pub fn circles(&self) -> Vec<BTreeSet<String>> {
        let pairs = self.names.keys().map(|arrow| (arrow.from.as_str(), arrow.to.as_str()));
        circles(pairs)
    }

    /// Returns the cycles that remain if only the files below these paths are considered.
    pub fn circles_below(&self, places: &[&str]) -> Vec<BTreeSet<String>> {
        let is_below = |path: &str| {
            let inner = |place: &str| path.strip_prefix(place.trim_end_matches(".rs"));
            places.iter().any(|place| inner(place).is_some_and(|rest| rest.starts_with(['/', '.'])))
        };
        let pairs = self.names.keys().map(|arrow| (arrow.from.as_str(), arrow.to.as_str()));
        circles(pairs.filter(|(from, to)| is_below(from) && is_below(to)))
    }

    /// Returns the dependencies between groups of files. `room` returns the group of a file.
    pub fn between<'a>(&'a self, room: impl Fn(&'a str) -> Option<&'a str>) -> BTreeSet<(&'a str, &'a str)> {
        let rooms = |arrow: &'a Arrow| Some((room(&arrow.from)?, room(&arrow.to)?));
        self.names.keys().filter_map(rooms).filter(|(from, to)| from != to).collect()
    }
}

/// Returns each set of two or more nodes that all reach each other.
pub fn circles<'a>(arrows: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().insert(to);
    }
    let reach: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|node| (*node, reached(&next, node))).collect();
    let leads = |from: &str, to: &str| reach.get(from).is_some_and(|reached| reached.contains(to));
    let mut circles: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (node, reached) in &reach {
        let circle: BTreeSet<_> = reached.iter().filter(|to| leads(to, node)).map(|to| (*to).to_owned()).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reached<'a>(next: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left = vec![from];
    while let Some(node) = left.pop() {
        for to in next.get(node).into_iter().flatten() {
            if reached.insert(*to) {
                left.push(to);
            }
        }
    }
    reached
}

/// Contents of all modules of the product.
#[derive(Debug)]
pub(crate) struct Scopes(BTreeMap<Module, Scope>);

impl Scopes {
    pub(crate) fn of(sources: &Sources) -> Self {
        let mut scopes = Self(BTreeMap::new());
        for file in sources.files.values() {
            scopes.add(&file.path, &file.module, &file.items);
        }
        scopes
    }

    /// Returns the file that defines the item at this path, as seen from a module, and the item's name in that file.
    pub(crate) fn definition(&self, module: &Module, path: &[String]) -> Option<(String, String)> {
        self.find(module, path, FOLLOWED_MAX)
    }

    fn add(&mut self, path: &str, module: &Module, items: &[syn::Item]) {
        let mut scope = Scope { path: path.to_owned(), ..Scope::default() };
        for item in items {
            match item {
                syn::Item::Use(item) => flatten(&item.tree, &mut Vec::new(), &mut scope),
                syn::Item::Mod(item) => {
                    scope.modules.insert(item.ident.to_string());
                    if let Some((_, items)) = &item.content {
                        let inner = module.iter().cloned().chain([item.ident.to_string()]).collect();
                        self.add(path, &inner, items);
                    }
                }
                syn::Item::Macro(item) => scope.defines.extend(item.ident.iter().map(ToString::to_string)),
                item => scope.defines.extend(defined(item)),
            }
        }
        self.0.insert(module.clone(), scope);
    }

    fn is_module(&self, module: &Module, name: &str) -> bool {
        self.0.get(module).is_some_and(|scope| scope.modules.contains(name))
    }

    /// Like [`definition`](Self::definition), but follows at most `follow` re-exports.
    fn find(&self, module: &Module, path: &[String], follow: usize) -> Option<(String, String)> {
        let (mut at, mut rest) = self.start(module, path)?;
        loop {
            let scope = self.0.get(&at)?;
            let Some((name, further)) = rest.split_first() else {
                return Some((scope.path.clone(), at.last()?.clone()));
            };
            if scope.modules.contains(name) {
                at.push(name.clone());
                rest = further.to_vec();
                continue;
            }
            if scope.defines.contains(name) {
                return Some((scope.path.clone(), name.clone()));
            }
            return self.imported(&at, scope, name, further, follow);
        }
    }

    /// Returns the definition of a name that a module imports, directly or with a glob.
    fn imported(
        &self,
        at: &Module,
        scope: &Scope,
        name: &str,
        further: &[String],
        follow: usize,
    ) -> Option<(String, String)> {
        let follow = follow.checked_sub(1)?;
        let on = |path: &[String]| -> Vec<String> { path.iter().chain(further).cloned().collect() };
        if let Some(path) = scope.imports.get(name) {
            return self.find(at, &on(path), follow);
        }
        let named = |glob: &Vec<String>| glob.iter().cloned().chain([name.to_owned()]).collect::<Vec<_>>();
        scope.globs.iter().find_map(|glob| self.find(at, &on(&named(glob)), follow))
    }

    /// Returns the module in which a path begins, and the remaining segments of the path.
    fn start(&self, module: &Module, path: &[String]) -> Option<(Module, Vec<String>)> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((vec![module.first()?.clone()], rest.to_vec())),
            "self" => Some((module.clone(), rest.to_vec())),
            "super" => {
                let above = module.get(..module.len().checked_sub(1)?)?.to_vec();
                match rest.first().map(String::as_str) {
                    Some("super") => self.start(&above, rest),
                    _ => Some((above, rest.to_vec())),
                }
            }
            name => {
                let scope = self.0.get(module)?;
                let here = scope.modules.contains(name) || scope.defines.contains(name);
                let imported = scope.imports.get(name).is_some_and(|path| path.first().is_none_or(|head| head != name));
                if here || imported {
                    return Some((module.clone(), path.to_vec()));
                }
                // The crates are listed under their short names. The kits use the full names, which begin with
                // `baton_`.
                let outside = vec![name.strip_prefix("baton_").unwrap_or(name).to_owned()];
                self.0.contains_key(&outside).then(|| (outside, rest.to_vec()))
            }
        }
    }
}

fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, scope: &mut Scope) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, scope);
            before.pop();
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            scope.imports.extend(before.last().map(|name| (name.clone(), before.clone())));
        }
        syn::UseTree::Name(name) => {
            let path = before.iter().cloned().chain([name.ident.to_string()]).collect();
            scope.imports.insert(name.ident.to_string(), path);
        }
        syn::UseTree::Rename(name) => {
            let path = before.iter().cloned().chain([name.ident.to_string()]).collect();
            scope.imports.insert(name.rename.to_string(), path);
        }
        syn::UseTree::Glob(_) => scope.globs.push(before.clone()),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, scope)),
    }
}

fn defined(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Returns every path in a file, with the module that contains it. Method calls are not included, because the type of
/// the receiver is not known.
fn mentioned(file: &File) -> Vec<(Module, Vec<String>)> {
    let mut paths = Paths { module: file.module.clone(), found: Vec::new() };
    file.items.iter().for_each(|item| paths.visit_item(item));
    paths.found
}

struct Paths {
    module: Module,
    found: Vec<(Module, Vec<String>)>,
}

impl Visit<'_> for Paths {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        self.module.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        // A public re-export is not a dependency of this file. The file that uses the name depends on its definition.
        if matches!(item.vis, syn::Visibility::Inherited) {
            let mut scope = Scope::default();
            flatten(&item.tree, &mut Vec::new(), &mut scope);
            self.found.extend(scope.imports.into_values().map(|path| (self.module.clone(), path)));
        }
    }

    fn visit_vis_restricted(&mut self, _: &syn::VisRestricted) {
        // A path in a visibility, such as `pub(in path)`, is not a dependency.
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.found.push((self.module.clone(), names));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

impl Paths {
    /// Collects paths from the tokens of a macro call, which are not parsed as code.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.found.extend((!path.is_empty()).then(|| (self.module.clone(), std::mem::take(&mut path))));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                proc_macro2::TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                token => {
                    self.found.extend((!path.is_empty()).then(|| (self.module.clone(), std::mem::take(&mut path))));
                    colons = 0;
                    if let proc_macro2::TokenTree::Group(group) = token {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.found.extend((!path.is_empty()).then(|| (self.module.clone(), path)));
    }
}
