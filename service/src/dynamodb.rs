//! `--store dynamodb`: the options of the table, and opening it. Without the cargo feature `dynamodb` opening it
//! fails with a message.

#[cfg(feature = "dynamodb")]
pub(crate) mod prices;

use std::sync::Arc;

#[cfg(feature = "dynamodb")]
use aws_config::retry::RetryConfig;
use clap::Args;
use serde::Deserialize;
use store::Store;

/// Default name of the table.
const TABLE_DEFAULT: &str = "baton";

/// A DynamoDB table, and where it is. Credentials come from where every AWS tool takes them.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Table {
    /// The DynamoDB table [default: baton]
    #[arg(long = "table", env = "BATON_TABLE", value_name = "NAME")]
    #[serde(rename = "table")]
    name: Option<String>,
    /// The table's region; otherwise that of `AWS_REGION`, of the profile, or of this machine
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Where DynamoDB is, if not at AWS: DynamoDB Local, or an Alternator
    #[arg(long, env = "BATON_ENDPOINT_URL", value_name = "URL")]
    endpoint_url: Option<String>,
    /// Take a table with provisioned capacity
    #[arg(long, env = "BATON_ALLOW_PROVISIONED")]
    allow_provisioned: bool,
}

impl Table {
    /// Adds other options for those that are absent.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            region: self.region.or(other.region),
            endpoint_url: self.endpoint_url.or(other.endpoint_url),
            allow_provisioned: self.allow_provisioned || other.allow_provisioned,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(TABLE_DEFAULT)
    }
}

/// Fails, because the feature is missing.
#[cfg(not(feature = "dynamodb"))]
pub(crate) async fn open(table: &Table) -> Result<Arc<dyn Store>, String> {
    std::future::ready(Err(format!(
        "this `baton` was built without the store on DynamoDB, so the table `{}` cannot be opened; build it with \
         `cargo build --profile dist -p baton-service --features dynamodb`",
        table.name()
    )))
    .await
}

/// Opens the store after checking its table.
#[cfg(feature = "dynamodb")]
pub(crate) async fn open(table: &Table) -> Result<Arc<dyn Store>, String> {
    let (store, checked) = table.store().await?.open().await.map_err(|trouble| trouble.to_string())?;
    if !checked.has_ttl {
        tracing::warn!("the table has no TTL on `ttl`: runs are forgotten by requests that are billed");
    }
    Ok(Arc::new(store))
}

/// Delay before a read is retried for the first time; it grows with each attempt. Source: AWS's recommendation for
/// DynamoDB. The default of its SDK is up to one second.
#[cfg(feature = "dynamodb")]
const READ_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_millis(50);

/// Maximum number of attempts of a read, within the time limit of the store. Ours.
#[cfg(feature = "dynamodb")]
const READ_TRIES: u32 = 8;

#[cfg(feature = "dynamodb")]
impl Table {
    /// Creates a store over the table without checking it.
    pub(crate) async fn store(&self) -> Result<store_dynamodb::Dynamo, String> {
        let retries = RetryConfig::standard().with_initial_backoff(READ_AGAIN_AFTER).with_max_attempts(READ_TRIES);
        let mut loader = aws_config::defaults(aws_config::BehaviorVersion::latest()).retry_config(retries);
        if let Some(region) = &self.region {
            loader = loader.region(aws_config::Region::new(region.clone()));
        }
        if let Some(url) = &self.endpoint_url {
            loader = loader.endpoint_url(url);
        }
        let config = loader.load().await;
        let Some(region) = config.region() else {
            return Err("no region: give --region, AWS_REGION, or a profile that has one".to_owned());
        };
        let place = config.endpoint_url().map_or_else(|| region.to_string(), str::to_owned);
        let options = store_dynamodb::Options {
            allows_provisioned: self.allow_provisioned,
            ..store_dynamodb::Options::new(self.name())
        };
        Ok(store_dynamodb::Dynamo::new(&aws_sdk_dynamodb::config::Builder::from(&config).build(), place, options))
    }
}
