//! JSON schemas of types with a hand-written JSON form. All other types derive their schemas.

use std::borrow::Cow;

use schemars::generate::Contract;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::caller::CallerName;
use crate::event::RequestKey;
use crate::factor::Factor;
use crate::ids::NamedRun;
use crate::payload::Payload;
use crate::time::{Duration, Timestamp};
use crate::trace::Traceparent;

impl JsonSchema for Payload {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Payload".into()
    }

    /// Any JSON value.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

impl JsonSchema for RequestKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RequestKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{16}$" })
    }
}

impl JsonSchema for Traceparent {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Traceparent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$" })
    }
}

impl JsonSchema for CallerName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CallerName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl JsonSchema for NamedRun {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NamedRun".into()
    }

    /// Any text, because SWF's protocol allows run ids of any form.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl JsonSchema for Factor {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Factor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

impl JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    /// An ISO 8601 duration. Requests may also use a form such as `1h 30m` or a number of seconds.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        if *generator.contract() == Contract::Serialize {
            // `format: duration` is not used, because its grammar has no fractions of a second.
            return json_schema!({
                "type": "string",
                "pattern": r"^P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$",
            });
        }
        json_schema!({ "type": ["string", "number"], "minimum": 0, "examples": ["30s", "PT30S", 30] })
    }
}
