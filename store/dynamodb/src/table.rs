//! The table: its keys and two sparse indexes, on demand. Owns no data.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use store::Error;

use crate::Dynamo;
use crate::errors::not_applied;

fn incomplete(error: impl std::fmt::Display) -> Error {
    Error::NotApplied { why: format!("the table's definition is incomplete: {error}"), retry_after: None }
}

fn schema(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, Error> {
    [(hash, KeyType::Hash), (range, KeyType::Range)]
        .into_iter()
        .map(|(name, kind)| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().map_err(incomplete))
        .collect()
}

fn index(name: &str, hash: &str, range: &str, projection: Projection) -> Result<GlobalSecondaryIndex, Error> {
    GlobalSecondaryIndex::builder()
        .index_name(name)
        .set_key_schema(Some(schema(hash, range)?))
        .projection(projection)
        .build()
        .map_err(incomplete)
}

impl Dynamo {
    /// Creates the table, on demand. It is usable a few seconds later.
    ///
    /// # Errors
    ///
    /// [`Error::NotApplied`] with what DynamoDB says, for example that the table exists.
    pub async fn create_table(&self) -> Result<(), Error> {
        let keys_only = || Projection::builder().projection_type(ProjectionType::KeysOnly).build();
        // Only what a list shows, and none of what changes with each commit: such a commit costs the index nothing.
        let rows = Projection::builder()
            .projection_type(ProjectionType::Include)
            .non_key_attributes("r")
            .non_key_attributes("w")
            .build();
        let mut request = self
            .writes
            .create_table()
            .table_name(&self.options.table)
            .billing_mode(BillingMode::PayPerRequest)
            .set_key_schema(Some(schema("k", "s")?))
            .global_secondary_indexes(index("due", "d", "dt", keys_only())?)
            .global_secondary_indexes(index("vis", "g", "gs", rows)?);
        for (name, kind) in [
            ("k", ScalarAttributeType::S),
            ("s", ScalarAttributeType::S),
            ("d", ScalarAttributeType::S),
            ("dt", ScalarAttributeType::N),
            ("g", ScalarAttributeType::S),
            ("gs", ScalarAttributeType::B),
        ] {
            let definition = AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build();
            request = request.attribute_definitions(definition.map_err(incomplete)?);
        }
        request.send().await.map_err(|error| not_applied(&error))?;
        Ok(())
    }
}
