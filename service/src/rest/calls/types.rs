//! Calls for workflow and activity types.

use ::history::{ActivityDefaults, WorkflowDefaults};
use client::body;

use super::super::document::{CallTable, Doc};
use super::super::types;
use super::codes::NO_TYPE;
use crate::access::{CallEffect as E, Level as L};

pub(super) fn all<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
    of_workflows(of_activities(calls))
}

/// Defines the calls for one kind of types: workflow types or activity types.
macro_rules! types_of {
    ($of:ident, $defaults:ty, $kind:literal, $Kind:literal, $a:literal) => {
        fn $of<const DOC: bool>(calls: CallTable<DOC>) -> CallTable<DOC> {
            calls
                .get(
                    concat!("/v1/domains/{domain}/", $kind, "-types"),
                    L::Related,
                    types::list::<$defaults>,
                    Doc::of(concat!("list", $Kind, "Types"), concat!("List ", $kind, " types, by name"))
                        .answers::<body::Types>(200, "Page of types."),
                )
                .post(
                    concat!("/v1/domains/{domain}/", $kind, "-types"),
                    L::DomainOperator,
                    E::Changes,
                    types::register::<$defaults>,
                    Doc::of(concat!("register", $Kind, "Type"), concat!("Register ", $a, " ", $kind, " type"))
                        .answers::<body::RegisteredType<$defaults>>(201, "The type is registered.")
                        .refuses(409, &["domain-deprecated", "limit-exceeded", "type-exists"]),
                )
                .get(
                    concat!("/v1/domains/{domain}/", $kind, "-types/{type}"),
                    L::Related,
                    types::show::<$defaults>,
                    Doc::of(concat!("describe", $Kind, "Type"), concat!("Describe ", $a, " ", $kind, " type"))
                        .answers::<body::RegisteredType<$defaults>>(200, "The type.")
                        .refuses(404, NO_TYPE),
                )
                .delete(
                    concat!("/v1/domains/{domain}/", $kind, "-types/{type}"),
                    L::DomainOperator,
                    E::Changes,
                    types::delete::<$defaults>,
                    Doc::of(concat!("delete", $Kind, "Type"), concat!("Delete a deprecated ", $kind, " type"))
                        .answers_nothing(204, "The type was deleted.")
                        .refuses(404, NO_TYPE)
                        .refuses(409, &["type-in-use"]),
                )
                .post(
                    concat!("/v1/domains/{domain}/", $kind, "-types/{type}/deprecate"),
                    L::DomainOperator,
                    E::Changes,
                    types::deprecate::<$defaults>,
                    Doc::of(
                        concat!("deprecate", $Kind, "Type"),
                        concat!("Deprecate ", $a, " ", $kind, " type, so that new work cannot use it"),
                    )
                    .answers::<body::RegisteredType<$defaults>>(200, "The deprecated type.")
                    .refuses(404, NO_TYPE)
                    .refuses(409, &["type-deprecated"]),
                )
                .post(
                    concat!("/v1/domains/{domain}/", $kind, "-types/{type}/undeprecate"),
                    L::DomainOperator,
                    E::Changes,
                    types::undeprecate::<$defaults>,
                    Doc::of(concat!("undeprecate", $Kind, "Type"), concat!("Undeprecate ", $a, " ", $kind, " type"))
                        .answers::<body::RegisteredType<$defaults>>(200, "The type, no longer deprecated.")
                        .refuses(404, NO_TYPE)
                        .refuses(409, &["type-exists"]),
                )
        }
    };
}
types_of!(of_workflows, WorkflowDefaults, "workflow", "Workflow", "a");
types_of!(of_activities, ActivityDefaults, "activity", "Activity", "an");
