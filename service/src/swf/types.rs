//! Registered workflow and activity types.

use history::event::ActivityTimeouts;
use history::{ActivityDefaults, WorkflowDefaults};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::{Answer, SwfCall, body, take};
use super::fault::{FaultKind, SwfFault};
use super::page::{PageKind, Paged, Paging, with_next};
use super::words::{self, List, instant, registration, set};
use engine::{Refusal, TypeKind, TypeRecord, split_type_name, type_name};

/// Differences between workflow types and activity types in this protocol.
pub(super) trait SwfTypeKind: TypeKind {
    /// Request member that contains the type's name and version.
    const MEMBER: &'static str;

    /// Word for a type of this kind in messages.
    const WORD: &'static str;

    /// Kind of list in page tokens.
    const LIST: PageKind;

    /// Reads the default settings of a type from a request.
    fn read(input: Map<String, Value>) -> Result<Self, SwfFault>;

    /// Renders the default settings of a type for a response.
    fn show(&self) -> Value;
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the wire")]
struct Defaults {
    default_task_start_to_close_timeout: Option<String>,
    default_execution_start_to_close_timeout: Option<String>,
    default_task_heartbeat_timeout: Option<String>,
    default_task_schedule_to_start_timeout: Option<String>,
    default_task_schedule_to_close_timeout: Option<String>,
    default_task_list: Option<List>,
    default_task_priority: Option<String>,
    default_child_policy: Option<String>,
    default_lambda_role: Option<String>,
}

impl SwfTypeKind for WorkflowDefaults {
    const MEMBER: &'static str = "workflowType";
    const WORD: &'static str = "WorkflowType";
    const LIST: PageKind = PageKind::WorkflowTypes;

    fn read(input: Map<String, Value>) -> Result<Self, SwfFault> {
        let defaults: Defaults = take(input)?;
        Ok(Self {
            task_list: defaults.default_task_list.map(|list| list.name),
            execution_timeout: words::span(defaults.default_execution_start_to_close_timeout.as_deref()),
            decider_start_to_close: words::span(defaults.default_task_start_to_close_timeout.as_deref()),
            task_priority: words::priority(defaults.default_task_priority.as_deref()),
            child_policy: words::child_policy(defaults.default_child_policy.as_deref()),
            lambda_role: defaults.default_lambda_role,
        })
    }

    fn show(&self) -> Value {
        let mut shown = json!({});
        set(&mut shown, "defaultTaskStartToCloseTimeout", self.decider_start_to_close.map(words::seconds));
        set(&mut shown, "defaultExecutionStartToCloseTimeout", self.execution_timeout.map(words::seconds));
        set(&mut shown, "defaultTaskList", self.task_list.as_ref().map(words::list));
        set(&mut shown, "defaultTaskPriority", self.task_priority.map(|priority| priority.to_string()));
        set(&mut shown, "defaultChildPolicy", self.child_policy.map(words::policy));
        set(&mut shown, "defaultLambdaRole", self.lambda_role.as_ref());
        shown
    }
}

impl SwfTypeKind for ActivityDefaults {
    const MEMBER: &'static str = "activityType";
    const WORD: &'static str = "ActivityType";
    const LIST: PageKind = PageKind::ActivityTypes;

    fn read(input: Map<String, Value>) -> Result<Self, SwfFault> {
        let defaults: Defaults = take(input)?;
        Ok(Self {
            task_list: defaults.default_task_list.map(|list| list.name),
            timeouts: ActivityTimeouts {
                schedule_to_start: words::span(defaults.default_task_schedule_to_start_timeout.as_deref()),
                start_to_close: words::span(defaults.default_task_start_to_close_timeout.as_deref()),
                schedule_to_close: words::span(defaults.default_task_schedule_to_close_timeout.as_deref()),
                heartbeat: words::span(defaults.default_task_heartbeat_timeout.as_deref()),
            },
            task_priority: words::priority(defaults.default_task_priority.as_deref()),
        })
    }

    fn show(&self) -> Value {
        let mut shown = json!({});
        let timeouts = self.timeouts;
        set(&mut shown, "defaultTaskStartToCloseTimeout", timeouts.start_to_close.map(words::seconds));
        set(&mut shown, "defaultTaskHeartbeatTimeout", timeouts.heartbeat.map(words::seconds));
        set(&mut shown, "defaultTaskList", self.task_list.as_ref().map(words::list));
        set(&mut shown, "defaultTaskPriority", self.task_priority.map(|priority| priority.to_string()));
        set(&mut shown, "defaultTaskScheduleToStartTimeout", timeouts.schedule_to_start.map(words::seconds));
        set(&mut shown, "defaultTaskScheduleToCloseTimeout", timeouts.schedule_to_close.map(words::seconds));
        shown
    }
}

/// Describes a type in a message.
pub(super) fn words_of<D: SwfTypeKind>(full: &str) -> String {
    let (name, version) = split_type_name(full);
    format!("{}=[name={name}, version={}]", <D as SwfTypeKind>::WORD, version.unwrap_or_default())
}

/// Converts a refusal that concerns a type to a fault.
pub(super) fn type_fault<D: SwfTypeKind>(refusal: Refusal) -> SwfFault {
    match refusal {
        Refusal::UnknownType { name, .. } => {
            SwfFault::new(FaultKind::UnknownResource, format!("Unknown type: {}", words_of::<D>(&name)))
        }
        Refusal::TypeExists { name, .. } => SwfFault::new(FaultKind::TypeAlreadyExists, words_of::<D>(&name)),
        Refusal::TypeDeprecated { name, .. } => SwfFault::new(FaultKind::TypeDeprecated, words_of::<D>(&name)),
        Refusal::TypeInUse { .. } => {
            let message = "The type is currently registered and cannot be deleted in its current state";
            SwfFault::new(FaultKind::TypeNotDeprecated, message)
        }
        other => other.into(),
    }
}

#[derive(Deserialize)]
struct RegisterTypeInput {
    domain: String,
    name: String,
    version: String,
    description: Option<String>,
}

pub(super) async fn register<D: SwfTypeKind>(call: SwfCall, input: Map<String, Value>) -> Answer {
    let defaults = D::read(input.clone())?;
    let RegisterTypeInput { domain, name, version, description } = take(input)?;
    let created_at = call.engine.clock().now();
    let version = Some(version);
    let registered = TypeRecord { name, version, description, created_at, deprecated_at: None, defaults };
    call.engine.registry().register_type(&domain, registered).await.map_err(type_fault::<D>)?;
    Ok(None)
}

/// Name and version of a type.
#[derive(Deserialize)]
pub(super) struct TypeRef {
    pub(super) name: String,
    pub(super) version: String,
}

impl TypeRef {
    /// Returns the full name of the type, by which runs and decisions refer to it.
    pub(super) fn full(&self) -> String {
        type_name(&self.name, Some(&self.version))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedType {
    domain: String,
    #[serde(alias = "activityType")]
    workflow_type: TypeRef,
}

/// Renders the name and version of a type from its full name.
pub(super) fn shown(full: &str) -> Value {
    let (name, version) = split_type_name(full);
    json!({ "name": name, "version": version.unwrap_or_default() })
}

fn info<D: SwfTypeKind>(registered: &TypeRecord<D>) -> Value {
    let mut info = json!({ "status": registration(registered.deprecated_at) });
    set(&mut info, D::MEMBER, Some(shown(&registered.full_name())));
    set(&mut info, "description", registered.description.as_ref());
    set(&mut info, "creationDate", Some(instant(registered.created_at)));
    set(&mut info, "deprecationDate", registered.deprecated_at.map(instant));
    info
}

/// Reads a registered type. In a deprecated domain, all types count as deprecated.
async fn read<D: SwfTypeKind>(call: &SwfCall, domain: &str, full: &str) -> Result<TypeRecord<D>, SwfFault> {
    let registered = call.engine.registry().registered_type::<D>(domain, full).await;
    let mut registered = registered.map_err(type_fault::<D>)?;
    let domain = call.engine.registry().domain(domain).await?;
    registered.deprecated_at = registered.deprecated_at.or(domain.deprecated_at);
    Ok(registered)
}

pub(super) async fn describe<D: SwfTypeKind>(call: SwfCall, input: Map<String, Value>) -> Answer {
    let NamedType { domain, workflow_type } = take(input)?;
    let registered = read::<D>(&call, &domain, &workflow_type.full()).await?;
    body(&json!({ "typeInfo": info(&registered), "configuration": registered.defaults.show() }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListTypes {
    domain: String,
    name: Option<String>,
    registration_status: String,
    #[serde(flatten)]
    paging: Paging,
}

pub(super) async fn list<D: SwfTypeKind>(call: SwfCall, input: Map<String, Value>) -> Answer {
    let ListTypes { domain, name, registration_status, paging } = take(input)?;
    let wants_deprecated = registration_status == "DEPRECATED";
    let all_deprecated = call.engine.registry().domain(&domain).await?.deprecated_at.is_some();
    let names = call.engine.registry().type_names::<D>(&domain).await?;
    let wanted = names.into_iter().filter(|(full, deprecated)| {
        (*deprecated || all_deprecated) == wants_deprecated
            && name.as_deref().is_none_or(|name| split_type_name(full).0 == name)
    });
    // Sorts by name, then by version. The separator `/` is replaced by `\0`, so that the characters of longer names do
    // not affect the order.
    let keyed = wanted.map(|(full, _)| (full.replacen('/', "\u{0}", 1), full));
    let Paged { rows, next } = paging.page(D::LIST, (&call.engine, &[&domain]), keyed.collect(), |(key, _)| key)?;
    let reads = rows.iter().map(|(_, full)| read::<D>(&call, &domain, full));
    let mut infos = Vec::with_capacity(rows.len());
    for read in futures_util::future::join_all(reads).await {
        match read {
            Ok(registered) => infos.push(info(&registered)),
            // The type was deleted after its name was listed.
            Err(fault) if fault.kind() == FaultKind::UnknownResource => {}
            Err(fault) => return Err(fault),
        }
    }
    body(&with_next(json!({ "typeInfos": infos }), next))
}

pub(super) async fn deprecate<D: SwfTypeKind>(call: SwfCall, input: Map<String, Value>) -> Answer {
    let NamedType { domain, workflow_type } = take(input)?;
    call.engine.registry().deprecate_type::<D>(&domain, &workflow_type.full()).await.map_err(type_fault::<D>)?;
    Ok(None)
}

pub(super) async fn undeprecate<D: SwfTypeKind>(call: SwfCall, input: Map<String, Value>) -> Answer {
    let NamedType { domain, workflow_type } = take(input)?;
    call.engine.registry().undeprecate_type::<D>(&domain, &workflow_type.full()).await.map_err(type_fault::<D>)?;
    Ok(None)
}

pub(super) async fn delete<D: SwfTypeKind>(call: SwfCall, input: Map<String, Value>) -> Answer {
    let NamedType { domain, workflow_type } = take(input)?;
    call.engine.registry().delete_type::<D>(&domain, &workflow_type.full()).await.map_err(type_fault::<D>)?;
    Ok(None)
}
