//! Why a table cannot be used, in sentences for whoever starts a service.

/// Why a table cannot be used. Each says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// There is no such table there.
    #[error(
        "there is no table `{table}` in {place}; `baton dynamodb create-table` makes one, and --region, AWS_REGION or \
         --endpoint-url say where to look"
    )]
    Missing {
        /// The table's name.
        table: String,
        /// The region, or the endpoint.
        place: String,
    },
    /// There is one already.
    #[error("there is a table `{table}` in {place} already; `baton dynamodb check` says whether it can be used")]
    Exists {
        /// The table's name.
        table: String,
        /// The region, or the endpoint.
        place: String,
    },
    /// It is not as Baton needs it.
    #[error(
        "the table `{table}` is not one of Baton's: {what}; give it a table that `baton dynamodb create-table` made"
    )]
    Foreign {
        /// The table's name.
        table: String,
        /// What differs: found and expected.
        what: String,
    },
    /// It cannot be used yet, or any more.
    #[error("the table `{table}` is not active but {status}; try again when it is")]
    NotActive {
        /// The table's name.
        table: String,
        /// What DynamoDB says it is.
        status: String,
    },
    /// It has provisioned capacity, beyond which every commit waits.
    #[error(
        "the table `{table}` is billed by provisioned capacity, beyond which commits are refused; switch it to on-demand \
         (PAY_PER_REQUEST), or say --allow-provisioned if its capacity is watched and scaled"
    )]
    Provisioned {
        /// The table's name.
        table: String,
    },
    /// Other nodes were given other options.
    #[error(
        "the table `{table}` is in use with {found}, and this node has {expected}: every node over a table must be the same"
    )]
    Layout {
        /// The table's name.
        table: String,
        /// What is written in it.
        found: String,
        /// What this node would write.
        expected: String,
    },
    /// A newer version of Baton has written in it what this one would misread.
    #[error(
        "the table `{table}` has form {found}, which a newer version of Baton wrote, and this one knows form {known}: use that \
         version, or a table restored to an instant before it was used; docs/upgrading.md says how"
    )]
    Newer {
        /// The table's name.
        table: String,
        /// What is written in it.
        found: u64,
        /// What this node knows.
        known: u64,
    },
    /// There are no credentials.
    #[error(
        "no credentials for {place}: {why}; they are taken from the environment (AWS_ACCESS_KEY_ID), the profile \
         (AWS_PROFILE), or the role of this machine"
    )]
    NoCredentials {
        /// The region, or the endpoint.
        place: String,
        /// Where they were looked for last.
        why: String,
    },
    /// The credentials are not good, or not good enough.
    #[error(
        "{place} refuses the credentials: {why}; they come from the environment, the profile (AWS_PROFILE), or the role of \
         this machine, and docs/dynamodb/policy.json lists what they must allow"
    )]
    Refused {
        /// The region, or the endpoint.
        place: String,
        /// What DynamoDB says.
        why: String,
    },
    /// DynamoDB could not be asked, or could not answer.
    #[error("{place} cannot be asked: {why}")]
    Unreachable {
        /// The region, or the endpoint.
        place: String,
        /// What stood in the way.
        why: String,
    },
}
