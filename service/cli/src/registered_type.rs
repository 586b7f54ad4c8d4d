//! `baton type …`: registered types of workflows and activities.

use clap::{Args, Subcommand};
use client::body::{ListedType, RegisterType, RegisteredType};
use client::{Client, RegisteredKind, TypeDefaults};
use history::{ActivityDefaults, WorkflowDefaults};
use serde::Serialize;
use serde_json::Value;

use super::described::shown;
use super::paged::all_pages;
use super::{Done, Failed, Target, print_json, print_rows, print_text, read_input};

#[derive(Debug, Subcommand)]
pub enum TypeCommand {
    /// List registered types, by name
    List(TypeListArgs),
    /// Show a registered type: its description and its defaults
    Show {
        #[command(flatten)]
        which: TypeArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Register a type, whose defaults apply to starts and decisions that use it
    Register(Box<RegisterArgs>),
    /// Deprecate a type, so that new work cannot use it
    Deprecate {
        #[command(flatten)]
        which: TypeArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revert the deprecation of a type
    Undeprecate {
        #[command(flatten)]
        which: TypeArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a deprecated type
    Delete {
        #[command(flatten)]
        which: TypeArgs,
    },
}

/// Arguments that select a registered type.
#[derive(Debug, Args)]
pub struct TypeArgs {
    /// Name of the type, or NAME/VERSION if it has a version
    #[arg(value_name = "TYPE")]
    name: String,
    #[command(flatten)]
    kind: TypeKindArgs,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct TypeKindArgs {
    /// Type of workflows
    #[arg(long)]
    workflows: bool,
    /// Type of activities
    #[arg(long)]
    activities: bool,
}

impl TypeKindArgs {
    fn kind(&self) -> RegisteredKind {
        if self.activities { RegisteredKind::Activity } else { RegisteredKind::Workflow }
    }
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct TypeListArgs {
    /// Only types of workflows
    #[arg(long, conflicts_with = "activities")]
    workflows: bool,
    /// Only types of activities
    #[arg(long)]
    activities: bool,
    /// Only deprecated types
    #[arg(long)]
    deprecated: bool,
    /// Only types that are not deprecated
    #[arg(long, conflicts_with = "deprecated")]
    active: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub struct RegisterArgs {
    #[command(flatten)]
    which: TypeArgs,
    /// Description
    #[arg(long)]
    description: Option<String>,
    /// Defaults as JSON in the format of the REST API, e.g. '{"taskList": "orders"}': JSON, @file, or - for standard
    /// input
    #[arg(long, value_name = "DEFAULTS")]
    defaults: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Change of a registered type.
#[derive(Debug, Clone, Copy)]
enum TypeChange {
    Nothing,
    Deprecate,
    Undeprecate,
}

/// A type in a list. The API has a list for each kind, so its entries lack the kind.
#[derive(Debug, Serialize)]
struct TypeOfKind {
    kind: &'static str,
    #[serde(flatten)]
    listed: ListedType,
}

impl TypeCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::List(list) => list.run().await,
            Self::Show { which, json } => which.change(TypeChange::Nothing, json).await,
            Self::Register(register) => match register.which.kind.kind() {
                RegisteredKind::Workflow => register.run::<WorkflowDefaults>().await,
                RegisteredKind::Activity => register.run::<ActivityDefaults>().await,
            },
            Self::Deprecate { which, json } => which.change(TypeChange::Deprecate, json).await,
            Self::Undeprecate { which, json } => which.change(TypeChange::Undeprecate, json).await,
            Self::Delete { which } => Ok(which.target.client()?.delete_type(which.kind.kind(), &which.name).await?),
        }
    }
}

impl TypeArgs {
    /// Changes the type, and prints it.
    async fn change(self, change: TypeChange, json: bool) -> Done {
        let client = self.target.client()?;
        match self.kind.kind() {
            RegisteredKind::Workflow => print::<WorkflowDefaults>(&change.apply(&client, &self.name).await?, json),
            RegisteredKind::Activity => print::<ActivityDefaults>(&change.apply(&client, &self.name).await?, json),
        }
    }
}

impl TypeChange {
    async fn apply<D: TypeDefaults>(self, client: &Client, name: &str) -> Result<RegisteredType<D>, client::Error> {
        match self {
            Self::Nothing => client.describe_type(name).await,
            Self::Deprecate => client.deprecate_type(name).await,
            Self::Undeprecate => client.undeprecate_type(name).await,
        }
    }
}

impl TypeListArgs {
    async fn run(self) -> Done {
        let client = self.target.client()?;
        let deprecated = (self.deprecated || self.active).then_some(self.deprecated);
        let kinds: &[RegisteredKind] = match (self.workflows, self.activities) {
            (true, _) => &[RegisteredKind::Workflow],
            (_, true) => &[RegisteredKind::Activity],
            (false, false) => &[RegisteredKind::Workflow, RegisteredKind::Activity],
        };
        let mut found = Vec::new();
        for kind in kinds {
            let of_kind = all_pages(async |after: Option<String>| {
                let read = client.types(*kind, deprecated, None, after.as_deref()).await?;
                Ok((read.types, read.next))
            });
            found.extend(of_kind.await?.into_iter().map(|listed| TypeOfKind { kind: kind.word(), listed }));
        }
        if self.json {
            return print_json(&found);
        }
        print_rows(
            ["kind", "type", "status"],
            found.into_iter().map(|TypeOfKind { kind, listed }| {
                let status = if listed.deprecated { "deprecated" } else { "active" };
                [kind.to_owned(), listed.r#type, status.to_owned()]
            }),
        )
    }
}

impl RegisterArgs {
    async fn run<D: TypeDefaults>(self) -> Done {
        let defaults = match read_input(self.defaults.as_deref())? {
            Some(given) => serde_json::from_str(given.text().unwrap_or_default()).map_err(|error| {
                let kind = D::KIND.word();
                Failed::Usage(format!("--defaults is not an object with defaults of {kind} types: {error}"))
            })?,
            None => D::default(),
        };
        let (name, version) = match self.which.name.split_once('/') {
            Some((name, version)) => (name.to_owned(), Some(version.to_owned())),
            None => (self.which.name, None),
        };
        let register = RegisterType { name, version, description: self.description, defaults };
        print::<D>(&self.which.target.client()?.register_type(&register).await?, self.json)
    }
}

fn print<D: TypeDefaults>(registered: &RegisteredType<D>, json: bool) -> Done {
    if json { print_json(registered) } else { print_text(&show(registered)) }
}

fn show<D: TypeDefaults>(it: &RegisteredType<D>) -> String {
    let mut lines = vec![format!("type       {} ({}) since {}", it.r#type, D::KIND.word(), it.created_at)];
    lines.extend(it.description.iter().map(|description| format!("about      {description}")));
    lines.extend(it.deprecated_at.map(|at| format!("deprecated since {at}")));
    if let Ok(Value::Object(defaults)) = serde_json::to_value(&it.defaults) {
        lines.extend(defaults.into_iter().filter_map(|(name, value)| match value {
            Value::Null => None,
            Value::Object(members) if members.is_empty() => None,
            Value::String(text) => Some(format!("default    {name} {text}")),
            value => Some(format!("default    {name} {value}")),
        }));
    }
    shown(&lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_type_is_shown_with_all_of_its_defaults() {
        let at = "2026-01-01T00:00:00.000Z";
        let registered: RegisteredType<ActivityDefaults> = serde_json::from_value(json!({
            "type": "charge/1", "name": "charge", "version": "1", "description": "charges a card",
            "createdAt": at, "deprecatedAt": at,
            "defaults": { "taskList": "payments", "timeouts": { "heartbeat": "PT10S" }, "taskPriority": 3 },
        }))
        .unwrap();
        let expected = format!(
            "type       charge/1 (activity) since {at}\nabout      charges a card\ndeprecated since {at}\n\
             default    taskList payments\ndefault    taskPriority 3\ndefault    timeouts {{\"heartbeat\":\"PT10S\"}}"
        );
        assert_eq!(show(&registered), expected);
        let plain: RegisteredType<WorkflowDefaults> =
            serde_json::from_value(json!({ "type": "t", "name": "t", "createdAt": at, "defaults": {} })).unwrap();
        assert_eq!(show(&plain), format!("type       t (workflow) since {at}"));
    }
}
