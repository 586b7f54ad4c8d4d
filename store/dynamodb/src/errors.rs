//! Conversion of DynamoDB's errors to errors of the store. The important question is whether a write may have happened.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use store::Error;

pub(crate) fn why<E: std::error::Error + ProvideErrorMetadata + 'static>(error: &SdkError<E, HttpResponse>) -> String {
    match error.as_service_error() {
        Some(service) => format!(
            "DynamoDB returned {}: {}",
            service.code().unwrap_or("an error without a code"),
            service.message().unwrap_or("no message")
        ),
        None => causes(error),
    }
}

/// Formats an error with its causes, omitting repetitions.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

/// Returns whether a request could not be signed because there are no credentials.
pub(crate) fn lacks_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<CredentialsError>)
}

/// Converts the error of a read, or of a write whose outcome callers cannot observe.
pub(crate) fn not_applied<E>(error: &SdkError<E, HttpResponse>) -> Error
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    Error::NotApplied { why: why(error), retry_after: None }
}

/// Converts the error of a write of a head. With 4xx errors (throttled, conflicting or refused requests), DynamoDB has
/// written nothing. After a 5xx error, a timeout or a lost connection, the outcome is unknown.
pub(crate) fn of_commit<E>(error: &SdkError<E, HttpResponse>) -> Error
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    let was_refused = match error {
        SdkError::ConstructionFailure(_) => true,
        SdkError::ServiceError(answer) => answer.raw().status().is_client_error(),
        _ => false,
    };
    if was_refused { not_applied(error) } else { Error::Unknown { why: why(error) } }
}
