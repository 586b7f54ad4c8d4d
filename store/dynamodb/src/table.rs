//! The table: its definition, its creation, and the check of an existing table.

use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, IndexStatus, KeySchemaElement, KeyType, Projection,
    ProjectionType, ReturnValuesOnConditionCheckFailure, ScalarAttributeType, TableDescription, TableStatus,
    TimeToLiveSpecification, TimeToLiveStatus,
};

use crate::attributes::{number, read_number, text};
use crate::errors::{lacks_credentials, why};
use crate::forms::TABLE;
use crate::keys;
use crate::{Dynamo, TableError};

/// Timeout for creating a table. Chosen: DynamoDB usually takes about ten seconds.
const CREATE_WAIT: Duration = Duration::from_secs(120);

/// Interval of checking whether the table is active.
const CREATE_POLL: Duration = Duration::from_millis(250);

/// Attribute used by DynamoDB's TTL.
const TTL: &str = "ttl";

/// Key attributes that are not texts. All other keys are texts.
const KEY_TYPES: [(&str, ScalarAttributeType); 3] =
    [("dt", ScalarAttributeType::N), ("gs", ScalarAttributeType::B), ("es", ScalarAttributeType::B)];

/// Names of the table's partition key and sort key.
const KEYS: (&str, &str) = ("k", "s");

/// An index: its keys, and the attributes that it contains in addition to all keys. It contains only attributes that
/// lists need. None of them changes with each commit, so an ordinary commit does not cost additional units for the
/// index.
struct Index {
    name: &'static str,
    keys: (&'static str, &'static str),
    projected: &'static [&'static str],
}

const INDEXES: [Index; 3] = [
    Index { name: "due", keys: ("d", "dt"), projected: &[] },
    Index { name: "vis", keys: ("g", "gs"), projected: &["r", "w"] },
    Index { name: "end", keys: ("e", "es"), projected: &["r", "w"] },
];

/// Properties of a usable table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedTable {
    /// True if DynamoDB's TTL deletes expired items.
    pub has_ttl: bool,
    /// True if the table is protected against deletion.
    pub is_protected: bool,
    /// Number of items. DynamoDB updates it every six hours.
    pub items: u64,
    /// Total size of the items in bytes. DynamoDB updates it every six hours.
    pub bytes: u64,
}

/// Options of a new table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Create {
    /// Protects the table against deletion.
    pub is_protected: bool,
}

/// Error codes that are caused by wrong or insufficient credentials. Source: the developer guide, "Error handling with
/// DynamoDB".
const CREDENTIAL_CODES: [&str; 6] = [
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "UnrecognizedClientException",
];

fn incomplete(error: impl std::fmt::Display) -> String {
    format!("the table's definition is incomplete: {error}")
}

fn schema((hash, range): (&str, &str)) -> Result<Vec<KeySchemaElement>, String> {
    [(hash, KeyType::Hash), (range, KeyType::Range)]
        .into_iter()
        .map(|(name, kind)| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().map_err(incomplete))
        .collect()
}

fn key_type(name: &str) -> ScalarAttributeType {
    let found = KEY_TYPES.into_iter().find(|(key, _)| *key == name);
    found.map_or(ScalarAttributeType::S, |(_, kind)| kind)
}

fn index(index: &Index) -> Result<GlobalSecondaryIndex, String> {
    let kind = if index.projected.is_empty() { ProjectionType::KeysOnly } else { ProjectionType::Include };
    let projected = (!index.projected.is_empty()).then(|| index.projected.iter().map(ToString::to_string).collect());
    GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(schema(index.keys)?))
        .projection(Projection::builder().projection_type(kind).set_non_key_attributes(projected).build())
        .build()
        .map_err(incomplete)
}

fn definitions() -> Result<Vec<AttributeDefinition>, String> {
    let keys = std::iter::once(KEYS).chain(INDEXES.iter().map(|index| index.keys));
    keys.flat_map(|(hash, range)| [hash, range])
        .map(|name| {
            let definition = AttributeDefinition::builder().attribute_name(name).attribute_type(key_type(name));
            definition.build().map_err(incomplete)
        })
        .collect()
}

/// Formats a key schema, for example `k (S), s (S)`.
fn keys_shown(schema: &[KeySchemaElement], definitions: &[AttributeDefinition]) -> String {
    let of = |kind: &KeyType| {
        let name = schema.iter().find(|key| key.key_type() == kind).map_or("none", KeySchemaElement::attribute_name);
        let definition = definitions.iter().find(|definition| definition.attribute_name() == name);
        let kind = definition.map_or("?", |definition| definition.attribute_type().as_str());
        format!("{name} ({kind})")
    };
    format!("{}, {}", of(&KeyType::Hash), of(&KeyType::Range))
}

fn keys_expected((hash, range): (&str, &str)) -> String {
    format!("{hash} ({}), {range} ({})", key_type(hash).as_str(), key_type(range).as_str())
}

/// Returns how a table differs from the required definition, or `None` if it does not.
fn difference(table: &TableDescription) -> Option<String> {
    let definitions = table.attribute_definitions();
    let (found, expected) = (keys_shown(table.key_schema(), definitions), keys_expected(KEYS));
    if found != expected {
        return Some(format!("its keys are {found}, but must be {expected}"));
    }
    for index in &INDEXES {
        let name = index.name;
        let Some(there) = table.global_secondary_indexes().iter().find(|there| there.index_name() == Some(name)) else {
            return Some(format!("it has no index `{name}`"));
        };
        let (found, expected) = (keys_shown(there.key_schema(), definitions), keys_expected(index.keys));
        if found != expected {
            return Some(format!("the keys of its index `{name}` are {found}, but must be {expected}"));
        }
        let projection = there.projection();
        let has_all = projection.and_then(Projection::projection_type) == Some(&ProjectionType::All);
        let projected = projection.map(Projection::non_key_attributes).unwrap_or_default();
        if let Some(missing) = index.projected.iter().find(|name| !has_all && !projected.iter().any(|it| it == *name)) {
            return Some(format!("its index `{name}` does not contain `{missing}`"));
        }
    }
    None
}

impl Dynamo {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn table(&self) -> String {
        self.options.table.clone()
    }

    fn table_error<E>(&self, error: &aws_sdk_dynamodb::error::SdkError<E>) -> TableError
    where
        E: std::error::Error + aws_sdk_dynamodb::error::ProvideErrorMetadata + 'static,
    {
        let (place, why) = (self.place(), why(error));
        if error.code().is_some_and(|code| CREDENTIAL_CODES.contains(&code)) {
            TableError::Refused { place, why }
        } else if lacks_credentials(error) {
            TableError::NoCredentials { place, why }
        } else {
            TableError::Unreachable { place, why }
        }
    }

    /// Creates the table with on-demand capacity and TTL, and waits until it can be used. Returns whether TTL could be
    /// turned on.
    ///
    /// # Errors
    ///
    /// [`TableError::Exists`] if the table already exists, otherwise the error that prevented its creation.
    pub async fn create_table(&self, create: Create) -> Result<bool, TableError> {
        let internal = |why| TableError::Unreachable { place: self.place(), why };
        let indexes = INDEXES.iter().map(index).collect::<Result<Vec<_>, _>>().map_err(internal)?;
        let request = self
            .control
            .create_table()
            .table_name(&self.options.table)
            .billing_mode(BillingMode::PayPerRequest)
            .set_attribute_definitions(Some(definitions().map_err(internal)?))
            .set_key_schema(Some(schema(KEYS).map_err(internal)?))
            .set_global_secondary_indexes(Some(indexes))
            .set_deletion_protection_enabled(create.is_protected.then_some(true));
        if let Err(error) = request.send().await {
            return Err(match error.as_service_error() {
                Some(CreateTableError::ResourceInUseException(_)) => {
                    TableError::Exists { table: self.table(), place: self.place() }
                }
                _ => self.table_error(&error),
            });
        }
        let active = async {
            loop {
                let table = self.describe().await?;
                let indexes = table.global_secondary_indexes();
                if table.table_status() == Some(&TableStatus::Active)
                    && indexes.iter().all(|index| index.index_status() == Some(&IndexStatus::Active))
                {
                    return Ok(());
                }
                tokio::time::sleep(CREATE_POLL).await;
            }
        };
        let waited = tokio::time::timeout(CREATE_WAIT, active).await;
        waited.unwrap_or_else(|_| Err(TableError::NotActive { table: self.table(), status: "CREATING".to_owned() }))?;
        let ttl = TimeToLiveSpecification::builder().attribute_name(TTL).enabled(true).build();
        let ttl = ttl.map_err(|error| internal(incomplete(error)))?;
        let request =
            self.control.update_time_to_live().table_name(&self.options.table).time_to_live_specification(ttl);
        Ok(request.send().await.is_ok())
    }

    async fn describe(&self) -> Result<TableDescription, TableError> {
        match self.control.describe_table().table_name(&self.options.table).send().await {
            Ok(answer) => answer.table.ok_or_else(|| TableError::Unreachable {
                place: self.place(),
                why: "the response contains no table".to_owned(),
            }),
            Err(error) => Err(match error.as_service_error() {
                Some(DescribeTableError::ResourceNotFoundException(_)) => {
                    TableError::Missing { table: self.table(), place: self.place() }
                }
                _ => self.table_error(&error),
            }),
        }
    }

    /// Checks whether the table exists and has the required definition.
    ///
    /// # Errors
    ///
    /// An error that says why the table cannot be used. Nothing was written.
    pub async fn check(&self) -> Result<CheckedTable, TableError> {
        let table = self.describe().await?;
        if let Some(what) = difference(&table) {
            return Err(TableError::Foreign { table: self.table(), what });
        }
        match table.table_status() {
            Some(TableStatus::Active | TableStatus::Updating) => {}
            status => {
                let status = status.map_or("unknown", TableStatus::as_str).to_owned();
                return Err(TableError::NotActive { table: self.table(), status });
            }
        }
        // A table that has always had provisioned capacity has no billing mode.
        let billing = table.billing_mode_summary().and_then(|billing| billing.billing_mode());
        if billing != Some(&BillingMode::PayPerRequest) && !self.options.allows_provisioned {
            return Err(TableError::Provisioned { table: self.table() });
        }
        let count = |count: Option<i64>| count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        Ok(CheckedTable {
            has_ttl: self.has_ttl().await,
            is_protected: table.deletion_protection_enabled() == Some(true),
            items: count(table.item_count()),
            bytes: count(table.table_size_bytes()),
        })
    }

    /// Returns whether TTL is on. If this cannot be determined, the table is treated as a table without TTL.
    async fn has_ttl(&self) -> bool {
        let answer = self.control.describe_time_to_live().table_name(&self.options.table).send().await;
        let Some(ttl) = answer.ok().and_then(|answer| answer.time_to_live_description) else { return false };
        let is_on = matches!(ttl.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
        is_on && ttl.attribute_name() == Some(TTL)
    }

    /// Checks the table, and compares the options recorded in it with the options of this node. If the table has no
    /// recorded options yet, records the options of this node.
    ///
    /// # Errors
    ///
    /// An error that says why the table cannot be used, or how this node's options differ.
    pub async fn open(mut self) -> Result<(Self, CheckedTable), TableError> {
        let checked = self.check().await?;
        self.options.has_ttl &= checked.has_ttl;
        let shown = |form, due, rows| format!("form {form}, {due} shards of `due` and {rows} of `vis`");
        let (due, rows) = (u64::from(self.options.due_shards), u64::from(self.options.row_shards));
        let request = self
            .control
            .put_item()
            .table_name(&self.options.table)
            .set_item(Some(
                [
                    ("k", text(keys::CONFIGURATION)),
                    ("s", text(keys::LAYOUT)),
                    ("f", number(TABLE)),
                    ("dn", number(due)),
                    ("gn", number(rows)),
                ]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ))
            .condition_expression("attribute_not_exists(k)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let Err(error) = request.send().await else { return Ok((self, checked)) };
        let Some(PutItemError::ConditionalCheckFailedException(there)) = error.as_service_error() else {
            return Err(self.table_error(&error));
        };
        let there = there.item();
        let read = |name| there.and_then(|item| read_number(item, name).ok()).unwrap_or(0);
        if read("f") > TABLE {
            return Err(TableError::Newer { table: self.table(), found: read("f"), known: TABLE });
        }
        let (found, expected) = (shown(read("f"), read("dn"), read("gn")), shown(TABLE, due, rows));
        if found == expected {
            Ok((self, checked))
        } else {
            Err(TableError::Layout { table: self.table(), found, expected })
        }
    }
}
