//! Reasons why a table cannot be used, with messages for the operator.

/// Reason why a table cannot be used. Each message tells the operator what to do.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The table does not exist.
    #[error(
        "table `{table}` does not exist in {place}; create it with `baton dynamodb create-table`, or correct --region, \
         AWS_REGION or --endpoint-url"
    )]
    Missing {
        /// Name of the table.
        table: String,
        /// Region or endpoint.
        place: String,
    },
    /// The table exists already.
    #[error("table `{table}` already exists in {place}; `baton dynamodb check` reports whether it can be used")]
    Exists {
        /// Name of the table.
        table: String,
        /// Region or endpoint.
        place: String,
    },
    /// The table does not have the definition that Baton needs.
    #[error(
        "the table `{table}` does not belong to Baton: {what}; use a table created by `baton dynamodb create-table`"
    )]
    Foreign {
        /// Name of the table.
        table: String,
        /// Difference from the required definition.
        what: String,
    },
    /// The table is being created, updated or deleted.
    #[error("the table `{table}` has status {status}; try again when it is ACTIVE")]
    NotActive {
        /// Name of the table.
        table: String,
        /// Status reported by DynamoDB.
        status: String,
    },
    /// The table has provisioned capacity, beyond which commits are refused.
    #[error(
        "the table `{table}` has provisioned capacity, beyond which commits are refused; switch it to on-demand \
         capacity (PAY_PER_REQUEST), or pass --allow-provisioned if its capacity is monitored and scaled"
    )]
    Provisioned {
        /// Name of the table.
        table: String,
    },
    /// Other nodes use the table with other options.
    #[error(
        "the table `{table}` is in use with {found}, but this node has {expected}: all nodes of a table must use the \
         same"
    )]
    Layout {
        /// Name of the table.
        table: String,
        /// Options recorded in the table.
        found: String,
        /// Options of this node.
        expected: String,
    },
    /// A newer version of Baton has written data that this version would misread.
    #[error(
        "the table `{table}` has form {found}, written by a newer version of Baton, but this version supports form \
         {known}: use that version, or a table restored to a time before that version used it; see docs/upgrading.md"
    )]
    Newer {
        /// Name of the table.
        table: String,
        /// Recorded form.
        found: u64,
        /// Newest form that this version supports.
        known: u64,
    },
    /// No credentials were found.
    #[error(
        "no credentials for {place}: {why}; they are taken from the environment (AWS_ACCESS_KEY_ID), the profile \
         (AWS_PROFILE), or the role of this machine"
    )]
    NoCredentials {
        /// Region or endpoint.
        place: String,
        /// Error of the last source in which credentials were searched.
        why: String,
    },
    /// The credentials are invalid or lack permissions.
    #[error(
        "{place} refuses the credentials: {why}; they come from the environment, the profile (AWS_PROFILE), or the \
         role of this machine, and docs/dynamodb/policy.json lists the required permissions"
    )]
    Refused {
        /// Region or endpoint.
        place: String,
        /// Error returned by DynamoDB.
        why: String,
    },
    /// DynamoDB is unreachable or could not respond.
    #[error("{place} is unreachable: {why}")]
    Unreachable {
        /// Region or endpoint.
        place: String,
        /// Cause of the failure.
        why: String,
    },
}
