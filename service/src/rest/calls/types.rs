//! Types of workflows and of activities.

use ::history::{ActivityDefaults, WorkflowDefaults};
use client::body;

use super::super::document::{CallTable, Doc};
use super::super::types;
use super::codes::NO_TYPE;
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all(calls: CallTable) -> CallTable {
    of_workflows(of_activities(calls))
}

fn of_workflows(calls: CallTable) -> CallTable {
    calls
        .get(
            "/v1/domains/{domain}/workflow-types",
            L::Related,
            types::list::<WorkflowDefaults>,
            Doc::of("listWorkflowTypes", "List workflow types, by name")
                .answers::<body::Types>(200, "A page of types."),
        )
        .post(
            "/v1/domains/{domain}/workflow-types",
            L::DomainOperator,
            E::Changes,
            types::register::<WorkflowDefaults>,
            Doc::of("registerWorkflowType", "Register a workflow type")
                .answers::<body::RegisteredType<WorkflowDefaults>>(201, "It is registered.")
                .refuses(409, &["domain-deprecated", "limit-exceeded", "type-exists"]),
        )
        .get(
            "/v1/domains/{domain}/workflow-types/{type}",
            L::Related,
            types::show::<WorkflowDefaults>,
            Doc::of("showWorkflowType", "Describe a workflow type")
                .answers::<body::RegisteredType<WorkflowDefaults>>(200, "The type.")
                .refuses(404, NO_TYPE),
        )
        .delete(
            "/v1/domains/{domain}/workflow-types/{type}",
            L::DomainOperator,
            E::Changes,
            types::delete::<WorkflowDefaults>,
            Doc::of("deleteWorkflowType", "Delete a deprecated workflow type")
                .answers_nothing(204, "It is gone.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-in-use"]),
        )
        .post(
            "/v1/domains/{domain}/workflow-types/{type}/deprecate",
            L::DomainOperator,
            E::Changes,
            types::deprecate::<WorkflowDefaults>,
            Doc::of("deprecateWorkflowType", "Deprecate a workflow type: nothing new of it begins")
                .answers::<body::RegisteredType<WorkflowDefaults>>(200, "It is deprecated.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-deprecated"]),
        )
        .post(
            "/v1/domains/{domain}/workflow-types/{type}/undeprecate",
            L::DomainOperator,
            E::Changes,
            types::undeprecate::<WorkflowDefaults>,
            Doc::of("undeprecateWorkflowType", "Undeprecate a workflow type")
                .answers::<body::RegisteredType<WorkflowDefaults>>(200, "It is in use.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-exists"]),
        )
}

fn of_activities(calls: CallTable) -> CallTable {
    calls
        .get(
            "/v1/domains/{domain}/activity-types",
            L::Related,
            types::list::<ActivityDefaults>,
            Doc::of("listActivityTypes", "List activity types, by name")
                .answers::<body::Types>(200, "A page of types."),
        )
        .post(
            "/v1/domains/{domain}/activity-types",
            L::DomainOperator,
            E::Changes,
            types::register::<ActivityDefaults>,
            Doc::of("registerActivityType", "Register an activity type")
                .answers::<body::RegisteredType<ActivityDefaults>>(201, "It is registered.")
                .refuses(409, &["domain-deprecated", "limit-exceeded", "type-exists"]),
        )
        .get(
            "/v1/domains/{domain}/activity-types/{type}",
            L::Related,
            types::show::<ActivityDefaults>,
            Doc::of("showActivityType", "Describe an activity type")
                .answers::<body::RegisteredType<ActivityDefaults>>(200, "The type.")
                .refuses(404, NO_TYPE),
        )
        .delete(
            "/v1/domains/{domain}/activity-types/{type}",
            L::DomainOperator,
            E::Changes,
            types::delete::<ActivityDefaults>,
            Doc::of("deleteActivityType", "Delete a deprecated activity type")
                .answers_nothing(204, "It is gone.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-in-use"]),
        )
        .post(
            "/v1/domains/{domain}/activity-types/{type}/deprecate",
            L::DomainOperator,
            E::Changes,
            types::deprecate::<ActivityDefaults>,
            Doc::of("deprecateActivityType", "Deprecate an activity type: nothing new of it begins")
                .answers::<body::RegisteredType<ActivityDefaults>>(200, "It is deprecated.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-deprecated"]),
        )
        .post(
            "/v1/domains/{domain}/activity-types/{type}/undeprecate",
            L::DomainOperator,
            E::Changes,
            types::undeprecate::<ActivityDefaults>,
            Doc::of("undeprecateActivityType", "Undeprecate an activity type")
                .answers::<body::RegisteredType<ActivityDefaults>>(200, "It is in use.")
                .refuses(404, NO_TYPE)
                .refuses(409, &["type-exists"]),
        )
}
