//! What DynamoDB's answers mean to the trait. The one query that matters: can the write have happened?

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use store::Error;

pub(crate) fn why<E: std::error::Error + ProvideErrorMetadata + 'static>(error: &SdkError<E, HttpResponse>) -> String {
    match error.as_service_error() {
        Some(service) => format!(
            "DynamoDB says {}: {}",
            service.code().unwrap_or("an error without a code"),
            service.message().unwrap_or("no message")
        ),
        None => causes(error),
    }
}

/// An error and what caused it, each once.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&told);
        }
        cause = error.source();
    }
    text
}

/// Whether a request was not even signed, for want of credentials.
pub(crate) fn lacks_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<CredentialsError>)
}

/// A read, or a write whose landing changes nothing that anybody can see.
pub(crate) fn not_applied<E>(error: &SdkError<E, HttpResponse>) -> Error
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
{
    Error::NotApplied { why: why(error), retry_after: None }
}

/// The write of a head. DynamoDB's answers of the 4xx kind (throttles, conflicts, refusals) are given before anything
/// is written; of a 5xx, a timeout or a broken connection nobody knows.
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
