//! Arrows between files: which file names what another defines, and where they do so in a circle.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::sources::{File, Module, Sources};

/// One file names what another defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// The file that names it.
    pub from: String,
    /// The file that defines it.
    pub to: String,
}

/// Arrows of the whole product, each with the names that it stands for.
#[derive(Debug)]
pub struct Arrows {
    /// What `from` takes from `to`.
    pub names: BTreeMap<Arrow, BTreeSet<String>>,
}

/// How many re-exports are followed until a name counts as defined where it was last seen.
const FOLLOWED_MAX: usize = 16;

/// What a module of a file (or a module within one) has in it.
#[derive(Debug, Default)]
struct Scope {
    path: String,
    defines: BTreeSet<String>,
    modules: BTreeSet<String>,
    /// A name, and the path that it stands for.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

impl Arrows {
    /// Finds all arrows.
    pub fn of(sources: &Sources) -> Self {
        let scopes = Scopes::of(sources);
        let mut arrows = Self { names: BTreeMap::new() };
        for file in sources.files.values() {
            for (module, path) in mentioned(file) {
                // `pub(super)` within a macro.
                if path.iter().all(|name| matches!(name.as_str(), "crate" | "self" | "super")) {
                    continue;
                }
                let Some((to, name)) = scopes.find(&module, &path, FOLLOWED_MAX) else { continue };
                // A variable may be called as a module is.
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

    /// Circles among these files: each a set of files that all lead to each other.
    pub fn circles(&self) -> Vec<BTreeSet<String>> {
        let pairs = self.names.keys().map(|arrow| (arrow.from.as_str(), arrow.to.as_str()));
        circles(pairs)
    }

    /// Circles among the files below these places alone.
    pub fn circles_below(&self, places: &[&str]) -> Vec<BTreeSet<String>> {
        let is_below = |path: &str| {
            let inner = |place: &str| path.strip_prefix(place.trim_end_matches(".rs"));
            places.iter().any(|place| inner(place).is_some_and(|rest| rest.starts_with(['/', '.'])))
        };
        let pairs = self.names.keys().map(|arrow| (arrow.from.as_str(), arrow.to.as_str()));
        circles(pairs.filter(|(from, to)| is_below(from) && is_below(to)))
    }

    /// Arrows between rooms, where `room` says which one a file belongs to.
    pub fn between<'a>(&'a self, room: impl Fn(&'a str) -> Option<&'a str>) -> BTreeSet<(&'a str, &'a str)> {
        let rooms = |arrow: &'a Arrow| Some((room(&arrow.from)?, room(&arrow.to)?));
        self.names.keys().filter_map(rooms).filter(|(from, to)| from != to).collect()
    }
}

/// Sets of nodes that all lead to each other, of two or more.
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

/// Names of the whole product, by module.
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

    /// Returns the file that defines what a path means within a module, and the name that it has there.
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

    /// The file that defines what a path means within a module, and the name that it has there.
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

    /// What a name means that a module has from elsewhere.
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

    /// The module where a path begins, and what is left of it.
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
                // A crate is known by its short name; the kits call it by its true one.
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

/// Every path that a file mentions, and the module within it that does; a method's receiver is not seen.
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
        // What a file hands on is no want of its own: who takes it has the arrow.
        if matches!(item.vis, syn::Visibility::Inherited) {
            let mut scope = Scope::default();
            flatten(&item.tree, &mut Vec::new(), &mut scope);
            self.found.extend(scope.imports.into_values().map(|path| (self.module.clone(), path)));
        }
    }

    fn visit_vis_restricted(&mut self, _: &syn::VisRestricted) {
        // Who may see something is no want of it.
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
    /// Paths among what a macro is given, which is not read as code.
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
