//! `--store dynamodb`: the options of the table, and opening it. If the program was built without the cargo feature
//! `dynamodb`, opening it fails with a message.

#[cfg(feature = "dynamodb")]
pub(crate) mod prices;

use std::sync::Arc;

#[cfg(feature = "dynamodb")]
use aws_config::{
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    meta::{credentials::CredentialsProviderChain, region::RegionProviderChain},
    profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider},
    retry::RetryConfig,
};
#[cfg(feature = "dynamodb")]
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials as _};
use clap::Args;
use serde::Deserialize;
use store::Store;

/// Default name of the table.
const TABLE_DEFAULT: &str = "baton";

/// Options that select a DynamoDB table and its endpoint. Credentials come from the standard sources of AWS tools. If
/// the endpoint is on this machine and no credentials are configured, made-up ones are used.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Table {
    /// Name of the table [default: baton]
    #[arg(help_heading = "DynamoDB options", long = "table", env = "BATON_TABLE", value_name = "NAME")]
    #[serde(rename = "table")]
    name: Option<String>,
    /// Region of the table [default: that of `AWS_REGION`, of the profile, or of this machine]
    #[arg(help_heading = "DynamoDB options", long, value_name = "REGION")]
    region: Option<String>,
    /// URL of DynamoDB Local or Alternator instead of AWS. If it is on this machine and no credentials are configured,
    /// made-up credentials are used
    #[arg(help_heading = "DynamoDB options", long, env = "BATON_ENDPOINT_URL", value_name = "URL")]
    endpoint_url: Option<String>,
    /// Accept a table with provisioned capacity
    #[arg(help_heading = "DynamoDB options", long, env = "BATON_ALLOW_PROVISIONED")]
    allow_provisioned: bool,
}

impl Table {
    /// Returns these options, with absent ones replaced by those of `other`.
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

/// Fails, because this program was built without the feature `dynamodb`.
#[cfg(not(feature = "dynamodb"))]
pub(crate) async fn open(table: &Table) -> Result<Arc<dyn Store>, String> {
    std::future::ready(Err(format!(
        "this `baton` was built without the store on DynamoDB, so the table `{}` cannot be opened; build it with \
         `cargo build --profile dist -p baton-service --features dynamodb`",
        table.name()
    )))
    .await
}

/// Checks the table and opens it as a store.
#[cfg(feature = "dynamodb")]
pub(crate) async fn open(table: &Table) -> Result<Arc<dyn Store>, String> {
    let (store, checked) = table.store().await?.open().await.map_err(|trouble| trouble.to_string())?;
    if !checked.has_ttl {
        tracing::warn!("the table has no TTL on `ttl`: expired runs are deleted by billed requests");
    }
    Ok(Arc::new(store))
}

/// Delay before the first retry of a read; it grows with each attempt. Source: AWS's recommendation for DynamoDB. The
/// AWS SDK's default is up to one second.
#[cfg(feature = "dynamodb")]
const READ_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_millis(50);

/// Maximum number of attempts to read, within the time limit of the store. Our choice.
#[cfg(feature = "dynamodb")]
const READ_TRIES: u32 = 8;

/// Access key of the made-up credentials for an endpoint on this machine. Also the region for such an endpoint if none
/// is configured.
#[cfg(feature = "dynamodb")]
const LOCAL: &str = "local";

/// Returns true if the URL is on this machine. Services of AWS are never on this machine.
#[cfg(any(feature = "dynamodb", test))]
fn is_on_this_machine(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Returns the region for an endpoint on this machine. Does not query the metadata service of a cloud.
#[cfg(feature = "dynamodb")]
fn local_region(region: Option<aws_config::Region>) -> RegionProviderChain {
    RegionProviderChain::first_try(region)
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(ProfileFileRegionProvider::new())
        .or_else(aws_config::Region::new(LOCAL))
}

/// Returns the credentials for an endpoint on this machine: those from the environment or a profile, otherwise
/// made-up ones. Does not query the metadata service of a cloud, because its credentials are for AWS only.
#[cfg(feature = "dynamodb")]
async fn local_credentials() -> Credentials {
    let configured = CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new())
        .or_else("profile", ProfileFileCredentialsProvider::builder().build());
    match configured.provide_credentials().await {
        Ok(credentials) => credentials,
        Err(error) => {
            tracing::debug!(%error, "no credentials for AWS are configured");
            tracing::info!(
                "no credentials for AWS are configured: made-up ones are used, because --endpoint-url is an address of \
                 this machine"
            );
            Credentials::new(LOCAL, LOCAL, None, None, "made-up")
        }
    }
}

#[cfg(feature = "dynamodb")]
impl Table {
    /// Returns the table as a store, without checking it.
    pub(crate) async fn store(&self) -> Result<store_dynamodb::Dynamo, String> {
        let retries = RetryConfig::standard().with_initial_backoff(READ_AGAIN_AFTER).with_max_attempts(READ_TRIES);
        let mut loader = aws_config::defaults(aws_config::BehaviorVersion::latest()).retry_config(retries);
        let region = self.region.clone().map(aws_config::Region::new);
        if self.endpoint_url.as_deref().is_some_and(is_on_this_machine) {
            loader = loader.region(local_region(region)).credentials_provider(local_credentials().await);
        } else if let Some(region) = region {
            loader = loader.region(region);
        }
        if let Some(url) = &self.endpoint_url {
            loader = loader.endpoint_url(url);
        }
        let config = loader.load().await;
        let Some(region) = config.region() else {
            return Err("no region: give --region, AWS_REGION, or a profile with a region".to_owned());
        };
        let place = config.endpoint_url().map_or_else(|| region.to_string(), str::to_owned);
        let options = store_dynamodb::Options {
            allows_provisioned: self.allow_provisioned,
            ..store_dynamodb::Options::new(self.name())
        };
        Ok(store_dynamodb::Dynamo::new(&aws_sdk_dynamodb::config::Builder::from(&config).build(), place, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_recognized() {
        for (url, expected) in [
            ("http://127.0.0.1:8000", true),
            ("http://127.1.2.3", true),
            ("http://localhost:8000/", true),
            ("https://[::1]:8000/path", true),
            ("localhost:8000", true),
            ("http://10.0.0.7:8000", false),
            ("http://127.0.0.1.example:8000", false),
            ("http://localhost.example", false),
            ("https://dynamodb.eu-west-1.amazonaws.com", false),
            ("", false),
        ] {
            assert_eq!(is_on_this_machine(url), expected, "{url}");
        }
    }
}
