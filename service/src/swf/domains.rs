//! Domains and their tags.

use std::collections::BTreeMap;

use history::Duration;
use history::limits::DOMAIN_TAGS_MAX;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::{ACCOUNT, Answer, SwfCall, body, take};
use super::fault::{FaultKind, SwfFault};
use super::page::{PageKind, Paged, Paging, with_next};
use super::words::{registration, set};
use engine::{Domain, Limited, Refusal};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegisterDomain {
    name: String,
    description: Option<String>,
    workflow_execution_retention_period_in_days: String,
    tags: Option<Vec<DomainTag>>,
}

#[derive(Deserialize)]
struct DomainTag {
    key: String,
    value: Option<String>,
}

fn tags_of(tags: Vec<DomainTag>) -> Result<BTreeMap<String, String>, SwfFault> {
    // The parser keeps at most one entry more than the maximum. A list with more entries than the maximum is refused,
    // even if some of its entries have the same key.
    if tags.len() > DOMAIN_TAGS_MAX {
        return Err(too_many_tags(Refusal::LimitExceeded { what: Limited::Tags, max: DOMAIN_TAGS_MAX }));
    }
    Ok(tags.into_iter().map(|tag| (tag.key, tag.value.unwrap_or_default())).collect())
}

#[derive(Deserialize)]
struct NamedDomain {
    name: String,
}

/// One day in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Parses a retention period in days. `NONE` and `0` mean that a run is not kept after its close.
fn retention(days: &str) -> Duration {
    days.parse().map_or(Duration::ZERO, Duration::from_days)
}

/// Formats a retention period in days, rounded up.
fn days(retention: Duration) -> String {
    match retention {
        Duration::ZERO => "NONE".to_owned(),
        retention => retention.as_millis().div_ceil(DAY_MS).to_string(),
    }
}

fn too_many_tags(refusal: Refusal) -> SwfFault {
    match refusal {
        Refusal::LimitExceeded { what: Limited::Tags, .. } => {
            SwfFault::new(FaultKind::TooManyTags, refusal.to_string())
        }
        other => other.into(),
    }
}

pub(super) async fn register(call: SwfCall, input: Map<String, Value>) -> Answer {
    let RegisterDomain { name, description, workflow_execution_retention_period_in_days, tags } = take(input)?;
    let retention = retention(&workflow_execution_retention_period_in_days);
    let tags = tags_of(tags.unwrap_or_default())?;
    let domain = Domain { description, tags, ..Domain::new(&name, retention, call.engine.clock().now()) };
    call.engine.registry().must_have_room_for_domain(call.engine.swf_quotas()).await?;
    call.engine.lists().create_domain(domain).await.map_err(too_many_tags)?;
    Ok(None)
}

fn arn(call: &SwfCall, name: &str) -> String {
    format!("arn:aws:swf:{}:{ACCOUNT}:/domain/{name}", call.region)
}

fn info(call: &SwfCall, domain: &Domain) -> Value {
    let mut info = json!({
        "name": domain.name,
        "status": registration(domain.deprecated_at),
        "arn": arn(call, &domain.name),
    });
    set(&mut info, "description", domain.description.as_ref());
    info
}

pub(super) async fn describe(call: SwfCall, input: Map<String, Value>) -> Answer {
    let NamedDomain { name } = take(input)?;
    // Reads all domains from the store again, because the cached domain may be outdated.
    call.engine.registry().domains().await?;
    let domain = call.engine.registry().domain(&name).await?;
    body(&json!({
        "domainInfo": info(&call, &domain),
        "configuration": { "workflowExecutionRetentionPeriodInDays": days(domain.retention) },
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListDomains {
    registration_status: String,
    #[serde(flatten)]
    paging: Paging,
}

pub(super) async fn list(call: SwfCall, input: Map<String, Value>) -> Answer {
    let ListDomains { registration_status, paging } = take(input)?;
    let mut domains = call.engine.registry().domains().await?;
    domains
        .retain(|domain| registration(domain.deprecated_at) == registration_status && call.caller.knows(&domain.name));
    let Paged { rows, next } = paging.page(PageKind::Domains, (&call.engine, &[]), domains, |domain| &domain.name)?;
    let infos: Vec<Value> = rows.iter().map(|domain| info(&call, domain)).collect();
    body(&with_next(json!({ "domainInfos": infos }), next))
}

pub(super) async fn deprecate(call: SwfCall, input: Map<String, Value>) -> Answer {
    let NamedDomain { name } = take(input)?;
    call.engine.registry().deprecate_domain(&name).await?;
    Ok(None)
}

pub(super) async fn undeprecate(call: SwfCall, input: Map<String, Value>) -> Answer {
    let NamedDomain { name } = take(input)?;
    call.engine.registry().undeprecate_domain(&name).await?;
    Ok(None)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tagging {
    resource_arn: String,
    #[serde(default)]
    tags: Vec<DomainTag>,
    #[serde(default)]
    tag_keys: Vec<String>,
}

/// Returns the domain that a resource name refers to. The region and the account in the name are ignored.
pub(super) fn domain_of(arn: &str) -> Result<&str, SwfFault> {
    let mut parts = arn.splitn(6, ':');
    let is_swf = parts.next() == Some("arn") && parts.next().is_some() && parts.next() == Some("swf");
    let resource = parts.nth(2).and_then(|resource| resource.strip_prefix("/domain/"));
    resource
        .filter(|_| is_swf)
        .ok_or_else(|| SwfFault::new(FaultKind::UnknownResource, format!("Unknown resource: {arn}")))
}

impl Tagging {
    fn domain(&self) -> Result<&str, SwfFault> {
        domain_of(&self.resource_arn)
    }
}

pub(super) async fn tag(call: SwfCall, input: Map<String, Value>) -> Answer {
    let mut tagging: Tagging = take(input)?;
    let tags = tags_of(std::mem::take(&mut tagging.tags))?;
    call.engine.registry().tag_domain(tagging.domain()?, &tags, &[]).await.map_err(too_many_tags)?;
    Ok(None)
}

pub(super) async fn untag(call: SwfCall, input: Map<String, Value>) -> Answer {
    let tagging: Tagging = take(input)?;
    call.engine
        .registry()
        .tag_domain(tagging.domain()?, &BTreeMap::new(), &tagging.tag_keys)
        .await
        .map_err(too_many_tags)?;
    Ok(None)
}

pub(super) async fn tags(call: SwfCall, input: Map<String, Value>) -> Answer {
    let tagging: Tagging = take(input)?;
    call.engine.registry().domains().await?;
    let domain = call.engine.registry().domain(tagging.domain()?).await?;
    let tags: Vec<Value> = domain.tags.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    body(&json!({ "tags": tags }))
}
