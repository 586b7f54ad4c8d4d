//! Functions that an operator has registered: their targets, the environment of commands, and the workflow types that
//! may call them.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Function that an operator has registered.
#[derive(Clone, PartialEq, Eq)]
pub struct Function {
    pub(super) what: FunctionTarget,
    /// Domains whose deciders may call the function; empty for all.
    domains: Vec<String>,
    /// Workflow types whose deciders may call the function; empty for all. An entry without a version permits all
    /// versions of a type.
    workflow_types: Vec<String>,
}

/// Target of a function.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum FunctionTarget {
    /// URL to which the input is posted. The body of the response is the result.
    Endpoint(String),
    /// Shell command. The input is its standard input, and its standard output is the result.
    Command {
        /// Command line for the shell.
        line: String,
        /// Environment variables in addition to `PATH`.
        environment: BTreeMap<String, String>,
    },
}

impl std::fmt::Debug for Function {
    /// Formats the function without its target, because URLs and commands may contain secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function")
            .field("domains", &self.domains)
            .field("workflow_types", &self.workflow_types)
            .finish_non_exhaustive()
    }
}

impl FromStr for Function {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("https://") {
            return Err("the service calls functions over plain HTTP only; use a proxy for HTTPS".to_owned());
        }
        if text.trim().is_empty() {
            return Err("the URL or command is empty".to_owned());
        }
        let text = text.to_owned();
        let what = if text.starts_with("http://") {
            FunctionTarget::Endpoint(text)
        } else {
            FunctionTarget::Command { line: text, environment: BTreeMap::new() }
        };
        Ok(Self { what, domains: Vec::new(), workflow_types: Vec::new() })
    }
}

impl Function {
    /// Returns true if deciders of this workflow type in this domain may call the function.
    pub(super) fn may_be_called_by(&self, domain: &str, workflow_type: &str) -> bool {
        let name = workflow_type.split_once('/').map_or(workflow_type, |(name, _)| name);
        let is_among = |allowed: &[String], names: &[&str]| {
            allowed.is_empty() || allowed.iter().any(|allowed| names.contains(&allowed.as_str()))
        };
        is_among(&self.domains, &[domain]) && is_among(&self.workflow_types, &[workflow_type, name])
    }
}

/// Form of a function in the configuration file as a table; a function can also be a string.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct FunctionTable {
    call: String,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    domains: Option<Vec<String>>,
    workflow_types: Option<Vec<String>>,
}

impl TryFrom<FunctionTable> for Function {
    type Error = String;

    fn try_from(table: FunctionTable) -> Result<Self, Self::Error> {
        let FunctionTable { call, environment, domains, workflow_types } = table;
        let mut function: Self = call.parse()?;
        match &mut function.what {
            FunctionTarget::Command { environment: own, .. } => *own = environment,
            FunctionTarget::Endpoint(_) if environment.is_empty() => {}
            FunctionTarget::Endpoint(_) => return Err("`environment` is only for commands".to_owned()),
        }
        // An absent list permits all domains or types. An empty list would have the same effect, but is probably a
        // mistake.
        for (name, allowed) in [("domains", &domains), ("workflow-types", &workflow_types)] {
            if allowed.as_ref().is_some_and(Vec::is_empty) {
                return Err(format!("`{name}` is empty, so no decider may call the function; omit it to allow all"));
            }
        }
        function.domains = domains.unwrap_or_default();
        function.workflow_types = workflow_types.unwrap_or_default();
        Ok(function)
    }
}

impl<'de> Deserialize<'de> for Function {
    /// Parses a function from a string (a URL or a command) or from a table.
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Function;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a URL, a command, or a table with `call`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Function, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Function, A::Error> {
                let table = FunctionTable::deserialize(MapAccessDeserializer::new(map))?;
                table.try_into().map_err(A::Error::custom)
            }
        }

        file.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Function, String> {
        let file: BTreeMap<String, Function> = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        Ok(file.into_values().next().unwrap())
    }

    #[test]
    fn a_function_may_say_who_may_have_it_called() {
        let charge = "f = { call = './charge.sh', domains = ['shop'], workflow-types = ['order', 'refund/2'] }";
        let charge = read(charge).unwrap();
        for (domain, workflow_type, may) in [
            ("shop", "order", true),
            ("shop", "order/1", true),
            ("shop", "refund/2", true),
            ("shop", "refund/1", false),
            ("shop", "refund", false),
            ("shop", "orders", false),
            ("default", "order", false),
        ] {
            assert_eq!(charge.may_be_called_by(domain, workflow_type), may, "{domain} {workflow_type}");
        }
        assert!(read("f = './any.sh'").unwrap().may_be_called_by("shop", "order"));
    }

    #[test]
    fn a_function_that_means_nothing_is_refused() {
        for (text, says) in [
            ("f = ' '", "the URL or command is empty"),
            ("f = 'https://there'", "plain HTTP"),
            ("f = { domains = ['shop'] }", "missing field `call`"),
            ("f = { call = 'x', domain = 'shop' }", "unknown field `domain`"),
            ("f = { call = 'x', domains = [] }", "no decider may call the function"),
            ("f = { call = 'http://there', environment = { A = 'b' } }", "`environment` is only for commands"),
            ("f = 3", "a URL, a command, or a table"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
        let shown = format!("{:?}", read("f = 'curl -H token:hunter2'").unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
