//! The paths of the service with their methods. They provide the values of `Allow` headers, and suggestions for
//! requests to paths that do not exist.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::{HeaderValue, Method};

use super::problem::Refused;
use crate::access::{CallAccess, Level};

/// Maximum length of a path that an error message repeats. Our choice: a path with two names of the usual length
/// fits.
const SHOWN_BYTES_MAX: usize = 200;

/// Version segment, with which most paths of the REST API begin.
const VERSION_SEGMENT: &str = "v1";

/// Methods of one path.
#[derive(Debug, Default)]
struct PathMethods {
    names: BTreeSet<&'static str>,
    /// True if at least one call of the path needs no credential.
    is_open: bool,
}

/// Paths that have calls, by their templates such as `/v1/domains/{domain}`.
#[derive(Debug, Default)]
pub(crate) struct Paths(BTreeMap<&'static str, PathMethods>);

impl Paths {
    /// Collects the paths of these calls. Each path also accepts `OPTIONS`, and `HEAD` if it accepts `GET`.
    pub(crate) fn of(calls: impl IntoIterator<Item = CallAccess>) -> Self {
        let mut paths = Self::default();
        for CallAccess { method, name, level, .. } in calls {
            paths.add(name, method, level);
        }
        paths
    }

    /// Adds one call.
    pub(crate) fn add(&mut self, path: &'static str, method: &'static str, level: Level) {
        let methods = self.0.entry(path).or_default();
        methods.names.extend([method, "OPTIONS"]);
        if method == "GET" {
            methods.names.insert("HEAD");
        }
        methods.is_open |= level == Level::Nothing;
    }

    /// Returns each path with the level that `OPTIONS` needs at this path. If one of the path's calls needs no
    /// credential, `OPTIONS` needs none either. For all other paths, including those that do not exist, it needs any
    /// credential. Callers without a credential therefore cannot find out which paths exist.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (&'static str, Level)> + '_ {
        self.0.iter().map(|(path, methods)| (*path, if methods.is_open { Level::Nothing } else { Level::Known }))
    }

    fn names(&self, path: &str) -> Vec<&'static str> {
        self.0.get(path).map(|methods| methods.names.iter().copied().collect()).unwrap_or_default()
    }

    /// Returns the methods that at least one path accepts.
    fn all_names(&self) -> Vec<&'static str> {
        let all: BTreeSet<_> = self.0.values().flat_map(|methods| &methods.names).copied().collect();
        all.into_iter().collect()
    }

    /// Returns the value of the `Allow` header of a path.
    pub(crate) fn allow(&self, path: &str) -> HeaderValue {
        allow(&self.names(path))
    }

    /// Returns the value of the `Allow` header of the whole service, for `OPTIONS *`.
    pub(crate) fn allow_anywhere(&self) -> HeaderValue {
        allow(&self.all_names())
    }

    /// Returns the refusal of a method that the path does not accept.
    pub(crate) fn wrong_method(&self, path: &str, method: &Method) -> Refused {
        let names = self.names(path);
        let shown = shortened(method.as_str());
        let is_lower = names.iter().any(|name| name.eq_ignore_ascii_case(&shown));
        let hint = if is_lower { "; the names of methods are case-sensitive" } else { "" };
        let detail = format!("`{path}` accepts {}, found `{shown}`{hint}", listed(&names));
        Refused::Method { detail, allow: allow(&names) }
    }

    /// Returns the refusal of `CONNECT`, with which a client tries to use the service as a proxy.
    pub(crate) fn no_proxy(&self) -> Refused {
        let names = self.all_names();
        let detail = format!("this service is not a proxy; its paths accept {}, found `CONNECT`", listed(&names));
        Refused::Method { detail, allow: allow(&names) }
    }

    /// Returns the refusal of a path that does not exist, with a suggestion of a similar path.
    pub(crate) fn no_such_path(&self, path: &str) -> Refused {
        let there_is_none = format!("there is no path `{}`", shortened(path));
        Refused::UnknownPath(match self.nearest(path) {
            Some(near) if near.len() <= SHOWN_BYTES_MAX => format!("{there_is_none}; did you mean `{near}`?"),
            _ => there_is_none,
        })
    }

    /// Returns an existing path that is similar to the given one. The two paths may differ in slashes, in a missing
    /// version at the beginning, and in the case or a plural `s` of words.
    fn nearest(&self, path: &str) -> Option<String> {
        let found: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let with_version: Vec<&str> = std::iter::once(VERSION_SEGMENT).chain(found.iter().copied()).collect();
        [found, with_version].iter().find_map(|segments| {
            let near = self.0.keys().filter_map(|template| meant(template, segments));
            let nearest = near.min_by_key(|near| near.replaced);
            nearest.map(|near| near.path)
        })
    }
}

/// Existing path that is similar to the requested one.
struct NearPath {
    path: String,
    /// Number of words that differ from the requested path.
    replaced: usize,
}

/// Returns the path that results from replacing the parameters of this template by the requested segments. Returns
/// `None` if another segment is too different from the word in the template.
fn meant(template: &str, segments: &[&str]) -> Option<NearPath> {
    let words: Vec<&str> = template.split('/').filter(|word| !word.is_empty()).collect();
    if words.len() != segments.len() || template.contains("{*") {
        return None;
    }
    let (mut path, mut replaced) = (String::new(), 0);
    for (word, segment) in words.iter().zip(segments) {
        let is_name = word.starts_with('{');
        if !is_name && !is_almost(word, segment) {
            return None;
        }
        path.push('/');
        path.push_str(if is_name { segment } else { word });
        replaced += usize::from(!is_name && word != segment);
    }
    if path.is_empty() || template.ends_with('/') {
        path.push('/');
    }
    Some(NearPath { path, replaced })
}

/// Returns whether two words are equal, ignoring case and a plural `s`.
fn is_almost(word: &str, found: &str) -> bool {
    let stem = |text: &str| text.strip_suffix(['s', 'S']).unwrap_or(text).to_ascii_lowercase();
    stem(word) == stem(found)
}

/// Returns the refusal of a path with an empty segment in the place of a name.
pub(super) fn empty_segment(path: &str) -> Refused {
    let shown = shortened(path);
    Refused::UnknownPath(format!("there is no path `{shown}`: a name or an id in it is empty (two slashes in a row)"))
}

/// Returns the refusal of a path whose parameters are not those of its route.
pub(crate) fn other_segments() -> Refused {
    Refused::UnknownPath("there is no such path".to_owned())
}

fn allow(names: &[&str]) -> HeaderValue {
    HeaderValue::try_from(names.join(", ")).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Formats names as a list in words: `GET, HEAD and OPTIONS`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => "no method".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Truncates a long text. Request targets are ASCII, so cutting at any byte is safe.
fn shortened(text: &str) -> String {
    match text.get(..SHOWN_BYTES_MAX) {
        Some(begin) if text.len() > SHOWN_BYTES_MAX => format!("{begin}…"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        let mut paths = Paths::default();
        for (method, path, level) in [
            ("GET", "/", Level::Nothing),
            ("POST", "/", Level::Known),
            ("GET", "/healthz", Level::Nothing),
            ("GET", "/v1/domains", Level::Known),
            ("POST", "/v1/domains", Level::Operator),
            ("GET", "/v1/domains/{domain}", Level::Related),
            ("GET", "/v1/domains/{domain}/workflows/{id}", Level::Reader),
            ("GET", "/console/{*view}", Level::Nothing),
        ] {
            paths.add(path, method, level);
        }
        paths
    }

    #[test]
    fn near_misses_name_the_path_that_exists() {
        for (path, near) in [
            ("/v1/domains/", Some("/v1/domains")),
            ("//v1//domains", Some("/v1/domains")),
            ("/domains", Some("/v1/domains")),
            ("/V1/Domain", Some("/v1/domains")),
            ("/v1/domain/Shop", Some("/v1/domains/Shop")),
            ("/v1/domains/a/workflow/b/", Some("/v1/domains/a/workflows/b")),
            ("/healthz/", Some("/healthz")),
            ("//", Some("/")),
            ("/v1/domains/a/runs/b", None),
            ("/nothing", None),
        ] {
            assert_eq!(paths().nearest(path).as_deref(), near, "{path}");
        }
        let long = format!("/v1/{}", "x".repeat(SHOWN_BYTES_MAX));
        let Refused::UnknownPath(detail) = paths().no_such_path(&long) else { unreachable!() };
        assert!(detail.len() < SHOWN_BYTES_MAX + 40, "{detail}");
    }

    #[test]
    fn a_path_names_its_methods_and_the_level_of_options() {
        let paths = paths();
        assert_eq!(paths.allow("/v1/domains"), "GET, HEAD, OPTIONS, POST");
        assert_eq!(paths.allow("/v1/domains/{domain}"), "GET, HEAD, OPTIONS");
        let levels: BTreeMap<_, _> = paths.levels().collect();
        assert_eq!((levels["/"], levels["/v1/domains"]), (Level::Nothing, Level::Known));
        let Refused::Method { detail, .. } = paths.wrong_method("/healthz", &Method::from_bytes(b"get").unwrap())
        else {
            unreachable!()
        };
        let expected = "`/healthz` accepts GET, HEAD and OPTIONS, found `get`; the names of methods are case-sensitive";
        assert_eq!(detail, expected);
    }
}
