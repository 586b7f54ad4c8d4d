//! Who may ask for which operation: what each needs of a credential, in the words of the REST API's. Where there are no
//! credentials nobody is asked.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::Uri;
use serde_json::{Map, Value};

use super::fault::{Fault, FaultKind};
use super::operations::Operation;
use super::signature::Signature;
use crate::engine::Engine;
use crate::http::{Credentials, Holder, Need};

/// Whoever sent a request: by its signature, or as everywhere else by a secret.
pub(super) fn holder<'a>(
    credentials: &'a Credentials,
    engine: &Engine,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<&'a Holder, Fault> {
    if let Some(holder) = credentials.bearer(headers) {
        return Ok(holder);
    }
    let signature = Signature::read(headers)?;
    let (holder, secret) = credentials.signer(signature.access_key_id).ok_or_else(|| {
        Fault::new(FaultKind::UnrecognizedClient, "The security token included in the request is invalid.")
    })?;
    signature.check(secret, uri, headers, body, engine.clock().now())?;
    Ok(holder)
}

fn text(input: &Map<String, Value>, name: &str) -> String {
    input.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn need(operation: Operation, engine: &Arc<Engine>, input: &Map<String, Value>) -> Result<Need, Fault> {
    use Operation as O;
    let domain = || text(input, "domain");
    let list = || input.get("taskList").and_then(Value::as_object).map(|list| text(list, "name")).unwrap_or_default();
    let token = || text(input, "taskToken");
    Ok(match operation {
        O::ListDomains | O::DescribeDomain | O::ListTagsForResource => Need::Known,
        O::RegisterDomain | O::DeprecateDomain | O::UndeprecateDomain | O::TagResource | O::UntagResource => {
            Need::Operator
        }
        O::PollForDecisionTask => Need::Decider(domain(), list()),
        O::RespondDecisionTaskCompleted => {
            let token = engine.decider_token(&token())?;
            Need::Decider(token.domain.to_string(), token.task_list)
        }
        O::PollForActivityTask => Need::Runner(domain(), list()),
        O::RecordActivityTaskHeartbeat
        | O::RespondActivityTaskCanceled
        | O::RespondActivityTaskCompleted
        | O::RespondActivityTaskFailed => {
            let token = engine.activity_token(&token())?;
            Need::Runner(token.domain.to_string(), token.task_list)
        }
        O::CountClosedWorkflowExecutions
        | O::CountOpenWorkflowExecutions
        | O::CountPendingActivityTasks
        | O::CountPendingDecisionTasks
        | O::DeleteActivityType
        | O::DeleteWorkflowType
        | O::DeprecateActivityType
        | O::DeprecateWorkflowType
        | O::DescribeActivityType
        | O::DescribeWorkflowExecution
        | O::DescribeWorkflowType
        | O::GetWorkflowExecutionHistory
        | O::ListActivityTypes
        | O::ListClosedWorkflowExecutions
        | O::ListOpenWorkflowExecutions
        | O::ListWorkflowTypes
        | O::RegisterActivityType
        | O::RegisterWorkflowType
        | O::RequestCancelWorkflowExecution
        | O::SignalWorkflowExecution
        | O::StartWorkflowExecution
        | O::TerminateWorkflowExecution
        | O::UndeprecateActivityType
        | O::UndeprecateWorkflowType => Need::Application(domain()),
    })
}

/// Whether the holder may ask for this.
///
/// # Errors
///
/// `OperationNotPermittedFault`, or what is wrong with the token that the request names.
pub(super) fn check(
    holder: &Holder,
    operation: Operation,
    engine: &Arc<Engine>,
    input: &Map<String, Value>,
) -> Result<(), Fault> {
    let need = need(operation, engine, input)?;
    if need.is_met_by(holder) {
        return Ok(());
    }
    Err(Fault::new(FaultKind::OperationNotPermitted, format!("The credential does not allow to {}", need.words())))
}
