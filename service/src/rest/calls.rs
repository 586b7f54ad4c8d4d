//! The table of all calls of the API. It contains the route and the handler of each call, and the parts of its
//! documentation that cannot be generated from the handler's signature.

mod batches;
mod codes;
mod looked_at;
mod manual;
mod schedules;
mod tasks;
mod types;
mod workflows;

use client::body;

use super::document::{CallTable, Doc};
use super::{audit, clock, domains, process, secret};
use crate::access::{CallEffect as E, Level as L};

pub(crate) fn calls<const DOC: bool>() -> CallTable<DOC> {
    let calls = manual::all(workflows::all(of_domains(CallTable::none())));
    let calls = batches::all(schedules::all(tasks::all(looked_at::all(calls))));
    let calls = types::all(calls);
    calls
        .get(
            "/healthz",
            L::Nothing,
            process::healthy,
            Doc::of("checkHealth", "Check that the process responds")
                .answers_text("text/plain", "The process responds."),
        )
        .get(
            "/readyz",
            L::Nothing,
            process::ready,
            Doc::of("checkReadiness", "Check that the service accepts work, and list conditions that need attention")
                .answers::<body::Readiness>(
                    200,
                    "The service accepts work; `warnings` lists conditions that need an operator.",
                )
                .refuses(503, &["stopping"]),
        )
        .get(
            "/metrics",
            L::Metrics,
            process::metrics,
            Doc::of("readMetrics", "Get metrics for Prometheus")
                .answers_text("application/openmetrics-text", "Metrics as OpenMetrics text.")
                .refuses(401, &["credential-expired", "credential-not-yet-valid", "credential-revoked", "unauthorized"])
                .refuses(403, &["forbidden"])
                .refuses(429, &["quota-exceeded", "too-many-failed-attempts"]),
        )
        .post(
            "/v1/clock/confirm",
            L::Operator,
            E::Changes,
            clock::confirm,
            Doc::of("confirmClock", "Confirm the service's clock after it has jumped (operators only)")
                .answers::<body::ConfirmedClock>(200, "The clock is confirmed."),
        )
        .post(
            "/v1/secret/rotate",
            L::Operator,
            E::Changes,
            secret::rotate,
            Doc::of("rotateSecret", "Rotate the secret of task tokens (operators only)")
                .answers::<body::RotatedSecret>(200, "The new secret was created.")
                .refuses(409, &["limit-exceeded"]),
        )
        .get(
            "/v1/audit",
            L::Operator,
            audit::list,
            Doc::of("listAuditEntries", "List entries of this node's audit log (operators only)")
                .answers::<body::AuditEntries>(200, "Page of entries, oldest first.")
                .refuses(404, &["audit-log-disabled"])
                .refuses(503, &["audit-log-unavailable"]),
        )
        .get(
            "/openapi.json",
            L::Nothing,
            process::openapi,
            Doc::of("readOpenApi", "Get this document")
                .answers::<serde_json::Map<String, serde_json::Value>>(200, "The OpenAPI document."),
        )
}

fn of_domains<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    calls
        .get(
            "/v1/domains",
            L::Known,
            domains::list,
            Doc::of("listDomains", "List domains").answers::<body::Domains>(200, "The domains."),
        )
        .post(
            "/v1/domains",
            L::Operator,
            E::Changes,
            domains::create,
            Doc::of("createDomain", "Create a domain")
                .answers::<body::Domain>(201, "The domain was created.")
                .refuses(409, &["domain-exists", "limit-exceeded"]),
        )
        .get(
            "/v1/domains/{domain}",
            L::Related,
            domains::show,
            Doc::of("describeDomain", "Describe a domain").answers::<body::Domain>(200, "The domain."),
        )
        .patch(
            "/v1/domains/{domain}",
            L::DomainOperator,
            E::Changes,
            domains::change,
            Doc::of("changeDomain", "Change the description of a domain, or the retention of its future runs")
                .answers::<body::Domain>(200, "The changed domain."),
        )
        .delete(
            "/v1/domains/{domain}",
            L::Operator,
            E::Changes,
            domains::delete,
            Doc::of("deleteDomain", "Delete a deprecated domain that has no runs, no schedules and no open batches")
                .answers_nothing(204, "The domain and its registered types were deleted.")
                .refuses(409, &["domain-in-use"]),
        )
        .post(
            "/v1/domains/{domain}/deprecate",
            L::DomainOperator,
            E::Changes,
            domains::deprecate,
            Doc::of("deprecateDomain", "Deprecate a domain, so that nothing can be started or registered in it")
                .answers::<body::Domain>(200, "The deprecated domain.")
                .refuses(409, &["domain-deprecated"]),
        )
        .post(
            "/v1/domains/{domain}/undeprecate",
            L::DomainOperator,
            E::Changes,
            domains::undeprecate,
            Doc::of("undeprecateDomain", "Undeprecate a domain")
                .answers::<body::Domain>(200, "The domain, no longer deprecated.")
                .refuses(409, &["domain-exists"]),
        )
        .post(
            "/v1/domains/{domain}/tags",
            L::DomainOperator,
            E::Changes,
            domains::tag,
            Doc::of("tagDomain", "Add, replace or remove tags of a domain")
                .answers::<body::Domain>(200, "The domain with its tags.")
                .refuses(409, &["limit-exceeded"]),
        )
}
