//! What DynamoDB's answers mean to the trait. The one question that matters: can the write have happened?

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use store::Error;

fn why<E: std::error::Error + ProvideErrorMetadata + 'static>(error: &SdkError<E, HttpResponse>) -> String {
    match error.as_service_error() {
        Some(service) => format!(
            "DynamoDB says {}: {}",
            service.code().unwrap_or("an error without a code"),
            service.message().unwrap_or("no message")
        ),
        None => format!("{}", DisplayErrorContext(error)),
    }
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
