//! Describes the inputs of a call for the `OpenAPI` document, from the signature of its handler. `rest/document.rs`
//! builds the document.

mod components;

use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

pub(crate) use components::{combine, plain as plain_form};

/// Handler argument that reads a part of the request, and describes this part for the `OpenAPI` document.
pub(crate) trait OperationInput {
    /// True if the extractor reads the body.
    const IS_BODY: bool = false;

    /// Adds the extractor's input to the description of a call.
    fn describe(call: &mut Operation<'_>);
}

/// Handler whose arguments all describe the parts of the request that they read.
pub(crate) trait OperationHandler<Arguments> {
    /// True if one of the arguments reads the body.
    const HAS_BODY: bool;

    /// Adds the inputs of all arguments to the description of a call.
    fn describe(call: &mut Operation<'_>);
}

macro_rules! described {
    ($($argument:ident)*) => {
        impl<Function, Answer, $($argument: OperationInput),*> OperationHandler<($($argument,)*)> for Function
        where
            Function: Fn($($argument),*) -> Answer,
        {
            const HAS_BODY: bool = false $( || $argument::IS_BODY )*;

            #[allow(unused_variables, reason = "a handler may have no arguments")]
            fn describe(call: &mut Operation<'_>) {
                $( $argument::describe(call); )*
            }
        }
    };
}
described!();
described!(A);
described!(A B);
described!(A B C);
described!(A B C D);
described!(A B C D E);
described!(A B C D E F);
described!(A B C D E F G);
described!(A B C D E F G H);
described!(A B C D E F G H I);

/// Implements [`OperationInput`] for a tuple of extractors, so that the tuple can be one argument of a handler.
macro_rules! together {
    ($($argument:ident)*) => {
        impl<$($argument: OperationInput),*> OperationInput for ($($argument),*) {
            fn describe(call: &mut Operation<'_>) {
                $( $argument::describe(call); )*
            }
        }
    };
}
together!(A B C);
together!(A B C D);
together!(A B C D E);
together!(A B C D E F);

/// Description of one call in the `OpenAPI` document, while it is being built.
pub(crate) struct Operation<'a> {
    pub(crate) requests: &'a mut SchemaGenerator,
    pub(crate) parameters: Vec<Value>,
    pub(crate) body: Option<Value>,
    pub(crate) answer_headers: Map<String, Value>,
}

impl Operation<'_> {
    /// Adds a request header.
    pub(crate) fn header(&mut self, name: &str, what: &str) {
        self.parameters.push(parameter("header", name, false, what, &json!({ "type": "string" })));
    }

    /// Adds a response header.
    pub(crate) fn answer_header(&mut self, name: &str, what: &str) {
        self.answer_headers.insert(name.to_owned(), header(what));
    }

    /// Adds the query parameters that are the fields of `T`.
    pub(crate) fn query<T: JsonSchema>(&mut self) {
        let mut schema = plain(T::json_schema(self.requests));
        let required: Vec<String> =
            schema.get("required").and_then(|names| serde_json::from_value(names.clone()).ok()).unwrap_or_default();
        let fields = schema.get_mut("properties").map(Value::take);
        for (name, mut field) in fields.as_ref().and_then(Value::as_object).cloned().unwrap_or_default() {
            let what = field.as_object_mut().and_then(|field| field.remove("description")).unwrap_or_default();
            let is_required = required.contains(&name);
            self.parameters.push(parameter("query", &name, is_required, what.as_str().unwrap_or_default(), &field));
        }
    }

    /// Adds a JSON body of type `T`.
    pub(crate) fn body<T: JsonSchema>(&mut self) {
        let schema = plain(self.requests.subschema_for::<T>());
        self.body = Some(json!({ "content": { "application/json": { "schema": schema } } }));
    }
}

/// Simplifies a schema. Named schemas that it refers to are simplified separately.
pub(crate) fn plain(mut schema: Schema) -> Schema {
    RecursiveTransform(components::plain).transform(&mut schema);
    schema
}

/// Returns the description of a parameter of a call.
pub(crate) fn parameter(place: &str, name: &str, required: bool, what: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": place, "required": required, "description": what, "schema": schema })
}

/// Returns the description of a response header.
pub(crate) fn header(what: &str) -> Value {
    json!({ "description": what, "schema": { "type": "string" } })
}
