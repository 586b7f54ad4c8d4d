//! The table of all calls: the route of each one, its handler, and the documentation that the handler's signature does
//! not contain.

mod by_hand;
mod codes;
mod looked_at;
mod schedules;
mod tasks;
mod types;
mod workflows;

use client::body;

use super::document::{CallTable, Doc};
use super::{audit, clock, domains, process, secret};
use crate::access::{CallEffect as E, Level as L};

pub(crate) fn calls<const DOC: bool>() -> CallTable<DOC> {
    let calls = by_hand::all(workflows::all(of_domains(CallTable::none())));
    let calls = schedules::all(tasks::all(looked_at::all(calls)));
    let calls = types::all(calls);
    calls
        .get(
            "/healthz",
            L::Nothing,
            process::healthy,
            Doc::of("isHealthy", "Check that the process answers").answers_text("text/plain", "It does."),
        )
        .get(
            "/readyz",
            L::Nothing,
            process::ready,
            Doc::of("isReady", "Check that the service accepts work, and what somebody should see to")
                .answers::<body::Readiness>(200, "It does, and this is what somebody should see to.")
                .refuses(503, &["stopping"]),
        )
        .get(
            "/metrics",
            L::Metrics,
            process::metrics,
            Doc::of("readMetrics", "Get metrics for Prometheus")
                .answers_text("application/openmetrics-text", "The metrics, as OpenMetrics text.")
                .refuses(401, &["early-secret", "expired-secret", "revoked-secret", "unauthorized"])
                .refuses(403, &["forbidden"])
                .refuses(429, &["quota-exceeded", "too-many-guesses"]),
        )
        .post(
            "/v1/clock/confirm",
            L::Operator,
            E::Changes,
            clock::confirm,
            Doc::of(
                "confirmClock",
                "Confirm that the service's clock is right after it has jumped ahead; for operators",
            )
            .answers::<body::ConfirmedClock>(200, "It is believed."),
        )
        .post(
            "/v1/secret/rotate",
            L::Operator,
            E::Changes,
            secret::rotate,
            Doc::of("rotateSecret", "Rotate the secret of task tokens, with an overlap; for operators")
                .answers::<body::RotatedSecret>(200, "It was made.")
                .refuses(409, &["limit-exceeded"]),
        )
        .get(
            "/v1/audit",
            L::Operator,
            audit::list,
            Doc::of("listAudit", "List changes and who made them, from the audit log of this node; for operators")
                .answers::<body::AuditEntries>(200, "A page of entries, oldest first.")
                .refuses(404, &["no-audit-log"])
                .refuses(503, &["audit-log-unavailable"]),
        )
        .get(
            "/openapi.json",
            L::Nothing,
            process::openapi,
            Doc::of("readOpenApi", "Get this document")
                .answers::<serde_json::Map<String, serde_json::Value>>(200, "This document."),
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
                .answers::<body::Domain>(201, "It was created.")
                .refuses(409, &["domain-exists", "limit-exceeded"]),
        )
        .get(
            "/v1/domains/{domain}",
            L::Related,
            domains::show,
            Doc::of("showDomain", "Describe a domain").answers::<body::Domain>(200, "The domain."),
        )
        .patch(
            "/v1/domains/{domain}",
            L::DomainOperator,
            E::Changes,
            domains::change,
            Doc::of("changeDomain", "Change a domain's description, or how long its next runs are kept")
                .answers::<body::Domain>(200, "The domain as it is now."),
        )
        .delete(
            "/v1/domains/{domain}",
            L::Operator,
            E::Changes,
            domains::delete,
            Doc::of("deleteDomain", "Delete a deprecated domain that has no runs and no schedules")
                .answers_nothing(204, "It is deleted, and the types that were registered in it.")
                .refuses(409, &["domain-in-use"]),
        )
        .post(
            "/v1/domains/{domain}/deprecate",
            L::DomainOperator,
            E::Changes,
            domains::deprecate,
            Doc::of("deprecateDomain", "Deprecate a domain: nothing new starts or is registered in it")
                .answers::<body::Domain>(200, "It is deprecated.")
                .refuses(409, &["domain-deprecated"]),
        )
        .post(
            "/v1/domains/{domain}/undeprecate",
            L::DomainOperator,
            E::Changes,
            domains::undeprecate,
            Doc::of("undeprecateDomain", "Undeprecate a domain")
                .answers::<body::Domain>(200, "It is in use.")
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
