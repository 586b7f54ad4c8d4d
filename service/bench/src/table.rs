//! The table of a drill, and its address.

use aws_config::retry::RetryConfig;
use clap::Args;
use store_dynamodb::{Dynamo, Options};

/// Place of a drill's table. Credentials come from the usual sources of AWS tools.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Region of the table; by default that of `AWS_REGION`, of the profile, or of this machine
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// URL of the database: DynamoDB Local, or an Alternator
    #[arg(long, env = "BATON_ENDPOINT_URL", value_name = "URL")]
    pub(crate) endpoint_url: String,
}

impl Place {
    /// Returns the arguments of a `baton serve` that uses this table at another address.
    pub(crate) fn arguments(&self, table: &str, endpoint: &str) -> Vec<String> {
        let mut arguments = ["--table", table, "--endpoint-url", endpoint].map(str::to_owned).to_vec();
        if let Some(region) = &self.region {
            arguments.extend(["--region".to_owned(), region.clone()]);
        }
        arguments
    }

    /// Creates a store over the table of this name without checking it.
    pub(crate) async fn store(&self, table: &str) -> Result<Dynamo, String> {
        let loader = aws_config::defaults(aws_config::BehaviorVersion::latest()).retry_config(RetryConfig::standard());
        let mut loader = loader.endpoint_url(&self.endpoint_url);
        if let Some(region) = &self.region {
            loader = loader.region(aws_config::Region::new(region.clone()));
        }
        let config = loader.load().await;
        if config.region().is_none() {
            return Err("no region: set --region, AWS_REGION, or a profile with a region".to_owned());
        }
        let config = aws_sdk_dynamodb::config::Builder::from(&config).build();
        Ok(Dynamo::new(&config, self.endpoint_url.clone(), Options::new(table)))
    }
}
