//! The table of operations, with the level, the effect and the request fields of each operation.
//!
//! Source: SWF's API reference.

use std::pin::Pin;

use history::limits::{DECISIONS_MAX, DOMAIN_TAGS_MAX, TAGS_MAX};
use history::{ActivityDefaults, WorkflowDefaults};
use serde_json::{Map, Value};

use super::call::{Answer, SwfCall};
use super::shape::{Field, Form, Shape};
use super::{domains, tasks, types, visibility, workflows};
use crate::access::{CallAccess, CallEffect, Level, Wire};
use crate::http::{BODY_BYTES_MAX, POLL_BYTES_MAX};
use engine::TOKEN_CHARS_MAX;

const fn text(min: usize, max: usize, form: Form) -> Shape {
    Shape::Text { min, max, form }
}

/// Maximum length in characters of inputs, results, details, control values and execution contexts.
const DATA_MAX: usize = 32_768;

const NAME: Shape = text(1, 256, Form::Any);
const WORKFLOW_ID: Shape = text(1, 256, Form::Plain);
const NEW_NAME: Shape = text(1, 256, Form::Name);
const NEW_DOMAIN: Shape = text(1, 256, Form::TrimmedName);
const VERSION: Shape = text(1, 64, Form::Any);
const NEW_VERSION: Shape = text(1, 64, Form::Name);
const FUNCTION_NAME: Shape = text(1, 64, Form::Any);
const SHORT: Shape = text(0, 256, Form::Any);
const DESCRIPTION: Shape = text(0, 1_024, Form::Any);
const DATA: Shape = text(0, DATA_MAX, Form::Any);
const LIMITED_DATA: Shape = text(0, 2_048, Form::Any);
const ARN: Shape = text(1, 1_600, Form::Any);
const RUN_ID: Shape = text(1, 64, Form::Any);
const RUN_ID_OPTIONAL: Shape = text(0, 64, Form::Any);
/// Shape of page tokens. A page token of a turn contains the task token. If all names in the task token have the
/// maximum length, the page token is longer than the 2,048 characters of AWS SWF.
const PAGE_TOKEN: Shape = text(0, TOKEN_CHARS_MAX + 256, Form::Any);
/// Shape of task tokens. A task token contains the names of its task. If all of them have the maximum length, the token
/// is longer than the 1,024 characters of AWS SWF.
const TASK_TOKEN: Shape = text(1, TOKEN_CHARS_MAX, Form::Any);
const SECONDS: Shape = text(1, 8, Form::Seconds);
const FUNCTION_SECONDS: Shape = text(1, 3, Form::FunctionSeconds);
const RUN_SECONDS: Shape = text(1, 8, Form::RunSeconds);
const TURN_SECONDS_OR_NONE: Shape = text(0, 8, Form::TurnSecondsOrNone);
const SECONDS_OR_NONE: Shape = text(0, 8, Form::SecondsOrNone);
const DAYS: Shape = text(1, 8, Form::Days);
const PRIORITY: Shape = text(0, 16, Form::Priority);
const PAGE_SIZE: Shape = Shape::Whole { min: 0, max: 1_000 };
const TRUTH: Shape = Shape::Truth;
const REGISTRATION: Shape = Shape::Word(&["REGISTERED", "DEPRECATED"]);
const CHILD_POLICY: Shape = Shape::Word(&["TERMINATE", "REQUEST_CANCEL", "ABANDON"]);
const CLOSE_STATUS: Shape =
    Shape::Word(&["COMPLETED", "FAILED", "CANCELED", "TERMINATED", "CONTINUED_AS_NEW", "TIMED_OUT"]);
/// Types of decisions, in the order in which AWS SWF's messages list them.
const DECISION_TYPE: Shape = Shape::Word(&[
    "CompleteWorkflowExecution",
    "StartTimer",
    "RequestCancelExternalWorkflowExecution",
    "SignalExternalWorkflowExecution",
    "CancelTimer",
    "RecordMarker",
    "ScheduleActivityTask",
    "ContinueAsNewWorkflowExecution",
    "ScheduleLambdaFunction",
    "FailWorkflowExecution",
    "RequestCancelActivityTask",
    "StartChildWorkflowExecution",
    "CancelWorkflowExecution",
]);

/// Defines a list of fields. `! name: SHAPE` is a required field, and `? name: SHAPE` is an optional field.
macro_rules! fields {
    ($( $mark:tt $name:ident : $shape:expr ),* $(,)?) => {
        &[$( Field { name: stringify!($name), is_required: is_required!($mark), shape: &$shape }, )*]
    };
}

macro_rules! is_required {
    (!) => {
        true
    };
    (?) => {
        false
    };
}

const TASK_LIST: Shape = Shape::Group(fields![! name: NEW_NAME]);
const TYPE: Shape = Shape::Group(fields![! name: NAME, ! version: VERSION]);
const EXECUTION: Shape = Shape::Group(fields![! runId: RUN_ID, ! workflowId: WORKFLOW_ID]);
const TIMES: Shape = Shape::Group(fields![! oldestDate: Shape::Instant, ? latestDate: Shape::Instant]);
const BY_ID: Shape = Shape::Group(fields![! workflowId: WORKFLOW_ID]);
const BY_TYPE: Shape = Shape::Group(fields![! name: NAME, ? version: text(0, 64, Form::Any)]);
const BY_TAG: Shape = Shape::Group(fields![! tag: SHORT]);
const BY_STATUS: Shape = Shape::Group(fields![! status: CLOSE_STATUS]);
const TAGS: Shape = Shape::List { of: &SHORT, max: TAGS_MAX, read: TAGS_MAX + 1 };
const RESOURCE_TAG_KEY: Shape = text(1, 128, Form::Any);
const RESOURCE_TAG: Shape = Shape::Group(fields![! key: RESOURCE_TAG_KEY, ? value: SHORT]);
const RESOURCE_TAGS: Shape = Shape::List { of: &RESOURCE_TAG, max: usize::MAX, read: DOMAIN_TAGS_MAX + 1 };
const RESOURCE_TAG_KEYS: Shape = Shape::List { of: &RESOURCE_TAG_KEY, max: usize::MAX, read: DOMAIN_TAGS_MAX + 1 };
const DECISIONS: Shape = Shape::List { of: &Shape::Decision(DECISION), max: usize::MAX, read: DECISIONS_MAX + 1 };

const DECISION: &[Field] = fields![
    ! decisionType: DECISION_TYPE,
    ? scheduleActivityTaskDecisionAttributes: Shape::Group(fields![
        ! activityType: TYPE, ! activityId: NEW_NAME, ? control: DATA, ? input: DATA,
        ? scheduleToCloseTimeout: SECONDS_OR_NONE, ? taskList: TASK_LIST, ? taskPriority: PRIORITY,
        ? scheduleToStartTimeout: SECONDS_OR_NONE, ? startToCloseTimeout: SECONDS_OR_NONE,
        ? heartbeatTimeout: SECONDS_OR_NONE,
    ]),
    ? requestCancelActivityTaskDecisionAttributes: Shape::Group(fields![! activityId: NAME]),
    ? completeWorkflowExecutionDecisionAttributes: Shape::Group(fields![? result: DATA]),
    ? failWorkflowExecutionDecisionAttributes: Shape::Group(fields![? reason: SHORT, ? details: DATA]),
    ? cancelWorkflowExecutionDecisionAttributes: Shape::Group(fields![? details: DATA]),
    ? continueAsNewWorkflowExecutionDecisionAttributes: Shape::Group(fields![
        ? input: DATA, ? executionStartToCloseTimeout: RUN_SECONDS, ? taskList: TASK_LIST, ? taskPriority: PRIORITY,
        ? taskStartToCloseTimeout: TURN_SECONDS_OR_NONE, ? childPolicy: CHILD_POLICY, ? tagList: TAGS,
        ? workflowTypeVersion: VERSION, ? lambdaRole: ARN,
    ]),
    ? recordMarkerDecisionAttributes: Shape::Group(fields![! markerName: NAME, ? details: DATA]),
    ? startTimerDecisionAttributes: Shape::Group(fields![
        ! timerId: NEW_NAME, ? control: DATA, ! startToFireTimeout: SECONDS,
    ]),
    ? cancelTimerDecisionAttributes: Shape::Group(fields![! timerId: NAME]),
    ? signalExternalWorkflowExecutionDecisionAttributes: Shape::Group(fields![
        ? runId: RUN_ID_OPTIONAL, ! workflowId: WORKFLOW_ID, ! signalName: NAME, ? input: DATA, ? control: DATA,
    ]),
    ? requestCancelExternalWorkflowExecutionDecisionAttributes: Shape::Group(fields![
        ? runId: RUN_ID_OPTIONAL, ! workflowId: WORKFLOW_ID, ? control: DATA,
    ]),
    ? startChildWorkflowExecutionDecisionAttributes: Shape::Group(fields![
        ! workflowType: TYPE, ! workflowId: WORKFLOW_ID, ? control: DATA, ? input: DATA,
        ? executionStartToCloseTimeout: RUN_SECONDS, ? taskList: TASK_LIST, ? taskPriority: PRIORITY,
        ? taskStartToCloseTimeout: TURN_SECONDS_OR_NONE, ? childPolicy: CHILD_POLICY, ? tagList: TAGS,
        ? lambdaRole: ARN,
    ]),
    ? scheduleLambdaFunctionDecisionAttributes: Shape::Group(fields![
        ! id: NAME, ! name: FUNCTION_NAME, ? control: DATA, ? input: DATA, ? startToCloseTimeout: FUNCTION_SECONDS,
    ]),
];

macro_rules! operations {
    ($( $name:ident $level:ident $effect:ident [$( $field:tt )*]; )+) => {
        /// Operations of the SWF protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Operation { $( $name, )+ }

        impl Operation {
            /// All operations.
            const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// Returns the operation's name.
            pub(super) fn name(self) -> &'static str {
                match self { $( Self::$name => stringify!($name), )+ }
            }

            /// Returns the level that the operation needs.
            pub(super) fn level(self) -> Level {
                match self { $( Self::$name => Level::$level, )+ }
            }

            /// Returns the operation's effect on stored data.
            pub(super) fn effect(self) -> CallEffect {
                match self { $( Self::$name => CallEffect::$effect, )+ }
            }

            /// Returns the operation with this name.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name { $( stringify!($name) => Some(Self::$name), )+ _ => None }
            }

            /// Returns the maximum size of a request in bytes. It is small for polls, because their requests stay in
            /// memory while the polls wait.
            pub(super) fn body_bytes_max(self) -> usize {
                let is_poll = matches!(self, Self::PollForActivityTask | Self::PollForDecisionTask);
                if is_poll { POLL_BYTES_MAX } else { BODY_BYTES_MAX }
            }

            /// Returns whether a request names a task that has been dispatched.
            pub(super) fn is_of_task(self) -> bool {
                self.fields().iter().any(|field| field.name == "taskToken")
            }

            /// Returns the fields of a request.
            pub(super) fn fields(self) -> &'static [Field] {
                match self { $( Self::$name => fields![$( $field )*], )+ }
            }
        }
    };
}

operations! {
    CountClosedWorkflowExecutions Reader Reads [
        ! domain: NAME, ? startTimeFilter: TIMES, ? closeTimeFilter: TIMES, ? executionFilter: BY_ID,
        ? typeFilter: BY_TYPE, ? tagFilter: BY_TAG, ? closeStatusFilter: BY_STATUS,
    ];
    CountOpenWorkflowExecutions Reader Reads [
        ! domain: NAME, ! startTimeFilter: TIMES, ? typeFilter: BY_TYPE, ? tagFilter: BY_TAG, ? executionFilter: BY_ID,
    ];
    CountPendingActivityTasks Reader Reads [! domain: NAME, ! taskList: TASK_LIST];
    CountPendingDecisionTasks Reader Reads [! domain: NAME, ! taskList: TASK_LIST];
    DeleteActivityType DomainOperator Changes [! domain: NAME, ! activityType: TYPE];
    DeleteWorkflowType DomainOperator Changes [! domain: NAME, ! workflowType: TYPE];
    DeprecateActivityType DomainOperator Changes [! domain: NAME, ! activityType: TYPE];
    DeprecateDomain DomainOperator Changes [! name: NAME];
    DeprecateWorkflowType DomainOperator Changes [! domain: NAME, ! workflowType: TYPE];
    DescribeActivityType Related Reads [! domain: NAME, ! activityType: TYPE];
    DescribeDomain Related Reads [! name: NAME];
    DescribeWorkflowExecution Reader Reads [! execution: EXECUTION, ! domain: NAME];
    DescribeWorkflowType Related Reads [! domain: NAME, ! workflowType: TYPE];
    GetWorkflowExecutionHistory Reader Reads [
        ! execution: EXECUTION, ! domain: NAME, ? nextPageToken: PAGE_TOKEN, ? maximumPageSize: PAGE_SIZE,
        ? reverseOrder: TRUTH,
    ];
    ListActivityTypes Related Reads [
        ! domain: NAME, ? name: NAME, ! registrationStatus: REGISTRATION, ? nextPageToken: PAGE_TOKEN,
        ? maximumPageSize: PAGE_SIZE, ? reverseOrder: TRUTH,
    ];
    ListClosedWorkflowExecutions Reader Reads [
        ! domain: NAME, ? startTimeFilter: TIMES, ? closeTimeFilter: TIMES, ? executionFilter: BY_ID,
        ? closeStatusFilter: BY_STATUS, ? typeFilter: BY_TYPE, ? tagFilter: BY_TAG, ? nextPageToken: PAGE_TOKEN,
        ? maximumPageSize: PAGE_SIZE, ? reverseOrder: TRUTH,
    ];
    ListDomains Known Reads [
        ? nextPageToken: PAGE_TOKEN, ! registrationStatus: REGISTRATION, ? maximumPageSize: PAGE_SIZE,
        ? reverseOrder: TRUTH,
    ];
    ListOpenWorkflowExecutions Reader Reads [
        ! domain: NAME, ! startTimeFilter: TIMES, ? typeFilter: BY_TYPE, ? tagFilter: BY_TAG,
        ? nextPageToken: PAGE_TOKEN, ? maximumPageSize: PAGE_SIZE, ? reverseOrder: TRUTH, ? executionFilter: BY_ID,
    ];
    ListTagsForResource Related Reads [! resourceArn: ARN];
    ListWorkflowTypes Related Reads [
        ! domain: NAME, ? name: NAME, ! registrationStatus: REGISTRATION, ? nextPageToken: PAGE_TOKEN,
        ? maximumPageSize: PAGE_SIZE, ? reverseOrder: TRUTH,
    ];
    PollForActivityTask Runner Takes [! domain: NAME, ! taskList: TASK_LIST, ? identity: SHORT];
    PollForDecisionTask Decider Takes [
        ! domain: NAME, ! taskList: TASK_LIST, ? identity: SHORT, ? nextPageToken: PAGE_TOKEN,
        ? maximumPageSize: PAGE_SIZE, ? reverseOrder: TRUTH, ? startAtPreviousStartedEvent: TRUTH,
    ];
    RecordActivityTaskHeartbeat Runner Takes [! taskToken: TASK_TOKEN, ? details: LIMITED_DATA];
    RegisterActivityType DomainOperator Changes [
        ! domain: NAME, ! name: NEW_NAME, ! version: NEW_VERSION, ? description: DESCRIPTION,
        ? defaultTaskStartToCloseTimeout: SECONDS_OR_NONE, ? defaultTaskHeartbeatTimeout: SECONDS_OR_NONE,
        ? defaultTaskList: TASK_LIST, ? defaultTaskPriority: PRIORITY,
        ? defaultTaskScheduleToStartTimeout: SECONDS_OR_NONE, ? defaultTaskScheduleToCloseTimeout: SECONDS_OR_NONE,
    ];
    RegisterDomain Operator Changes [
        ! name: NEW_DOMAIN, ? description: DESCRIPTION, ! workflowExecutionRetentionPeriodInDays: DAYS,
        ? tags: RESOURCE_TAGS,
    ];
    RegisterWorkflowType DomainOperator Changes [
        ! domain: NAME, ! name: NEW_NAME, ! version: NEW_VERSION, ? description: DESCRIPTION,
        ? defaultTaskStartToCloseTimeout: TURN_SECONDS_OR_NONE, ? defaultExecutionStartToCloseTimeout: RUN_SECONDS,
        ? defaultTaskList: TASK_LIST, ? defaultTaskPriority: PRIORITY, ? defaultChildPolicy: CHILD_POLICY,
        ? defaultLambdaRole: ARN,
    ];
    RequestCancelWorkflowExecution Application Changes [
        ? runId: RUN_ID_OPTIONAL, ! domain: NAME, ! workflowId: WORKFLOW_ID,
    ];
    RespondActivityTaskCanceled Runner Changes [! taskToken: TASK_TOKEN, ? details: DATA];
    RespondActivityTaskCompleted Runner Changes [! taskToken: TASK_TOKEN, ? result: DATA];
    RespondActivityTaskFailed Runner Changes [! taskToken: TASK_TOKEN, ? reason: SHORT, ? details: DATA];
    RespondDecisionTaskCompleted Decider Changes [
        ! taskToken: TASK_TOKEN, ? decisions: DECISIONS, ? executionContext: DATA, ? taskList: TASK_LIST,
        ? taskListScheduleToStartTimeout: SECONDS_OR_NONE,
    ];
    SignalWorkflowExecution Application Changes [
        ? runId: RUN_ID_OPTIONAL, ! domain: NAME, ! workflowId: WORKFLOW_ID, ! signalName: NAME, ? input: DATA,
    ];
    StartWorkflowExecution Application Changes [
        ! domain: NAME, ! workflowId: WORKFLOW_ID, ! workflowType: TYPE, ? taskList: TASK_LIST,
        ? taskPriority: PRIORITY, ? input: DATA, ? executionStartToCloseTimeout: RUN_SECONDS, ? tagList: TAGS,
        ? taskStartToCloseTimeout: TURN_SECONDS_OR_NONE, ? childPolicy: CHILD_POLICY, ? lambdaRole: ARN,
    ];
    TagResource DomainOperator Changes [! resourceArn: ARN, ! tags: RESOURCE_TAGS];
    TerminateWorkflowExecution Application Changes [
        ? runId: RUN_ID_OPTIONAL, ! domain: NAME, ! workflowId: WORKFLOW_ID, ? reason: SHORT, ? details: DATA,
        ? childPolicy: CHILD_POLICY,
    ];
    UndeprecateActivityType DomainOperator Changes [! domain: NAME, ! activityType: TYPE];
    UndeprecateDomain DomainOperator Changes [! name: NAME];
    UndeprecateWorkflowType DomainOperator Changes [! domain: NAME, ! workflowType: TYPE];
    UntagResource DomainOperator Changes [! resourceArn: ARN, ! tagKeys: RESOURCE_TAG_KEYS];
}

/// Returns the rows of the operations in the access table.
pub(crate) fn rows() -> Vec<CallAccess> {
    let row = |operation: &Operation| CallAccess {
        wire: Wire::Swf,
        method: "POST",
        name: operation.name(),
        level: operation.level(),
        effect: operation.effect(),
    };
    Operation::ALL.iter().map(row).collect()
}

/// Future of an operation. The futures of all operations are boxed separately, so that a waiting poll does not take the
/// memory of the largest one.
pub(super) type Performing = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Runs an operation.
pub(super) fn perform(operation: Operation, call: SwfCall, input: Map<String, Value>) -> Performing {
    match operation {
        Operation::RegisterDomain => Box::pin(domains::register(call, input)),
        Operation::DescribeDomain => Box::pin(domains::describe(call, input)),
        Operation::ListDomains => Box::pin(domains::list(call, input)),
        Operation::DeprecateDomain => Box::pin(domains::deprecate(call, input)),
        Operation::UndeprecateDomain => Box::pin(domains::undeprecate(call, input)),
        Operation::TagResource => Box::pin(domains::tag(call, input)),
        Operation::UntagResource => Box::pin(domains::untag(call, input)),
        Operation::ListTagsForResource => Box::pin(domains::tags(call, input)),
        Operation::RegisterWorkflowType => Box::pin(types::register::<WorkflowDefaults>(call, input)),
        Operation::DescribeWorkflowType => Box::pin(types::describe::<WorkflowDefaults>(call, input)),
        Operation::DeprecateWorkflowType => Box::pin(types::deprecate::<WorkflowDefaults>(call, input)),
        Operation::UndeprecateWorkflowType => Box::pin(types::undeprecate::<WorkflowDefaults>(call, input)),
        Operation::DeleteWorkflowType => Box::pin(types::delete::<WorkflowDefaults>(call, input)),
        Operation::ListWorkflowTypes => Box::pin(types::list::<WorkflowDefaults>(call, input)),
        Operation::RegisterActivityType => Box::pin(types::register::<ActivityDefaults>(call, input)),
        Operation::DescribeActivityType => Box::pin(types::describe::<ActivityDefaults>(call, input)),
        Operation::DeprecateActivityType => Box::pin(types::deprecate::<ActivityDefaults>(call, input)),
        Operation::UndeprecateActivityType => Box::pin(types::undeprecate::<ActivityDefaults>(call, input)),
        Operation::DeleteActivityType => Box::pin(types::delete::<ActivityDefaults>(call, input)),
        Operation::ListActivityTypes => Box::pin(types::list::<ActivityDefaults>(call, input)),
        Operation::StartWorkflowExecution => Box::pin(workflows::start(call, input)),
        Operation::SignalWorkflowExecution => Box::pin(workflows::signal(call, input)),
        Operation::RequestCancelWorkflowExecution => Box::pin(workflows::request_cancel(call, input)),
        Operation::TerminateWorkflowExecution => Box::pin(workflows::terminate(call, input)),
        Operation::DescribeWorkflowExecution => Box::pin(workflows::describe(call, input)),
        Operation::GetWorkflowExecutionHistory => Box::pin(workflows::history(call, input)),
        Operation::PollForDecisionTask => Box::pin(tasks::poll_decision(call, input)),
        Operation::PollForActivityTask => Box::pin(tasks::poll_activity(call, input)),
        Operation::RespondDecisionTaskCompleted => Box::pin(tasks::respond_decision(call, input)),
        Operation::RespondActivityTaskCompleted => Box::pin(tasks::respond_completed(call, input)),
        Operation::RespondActivityTaskFailed => Box::pin(tasks::respond_failed(call, input)),
        Operation::RespondActivityTaskCanceled => Box::pin(tasks::respond_canceled(call, input)),
        Operation::RecordActivityTaskHeartbeat => Box::pin(tasks::heartbeat(call, input)),
        Operation::CountPendingDecisionTasks => Box::pin(tasks::count_pending(call, input, true)),
        Operation::CountPendingActivityTasks => Box::pin(tasks::count_pending(call, input, false)),
        Operation::ListOpenWorkflowExecutions => Box::pin(visibility::list(call, input, true)),
        Operation::ListClosedWorkflowExecutions => Box::pin(visibility::list(call, input, false)),
        Operation::CountOpenWorkflowExecutions => Box::pin(visibility::count(call, input, true)),
        Operation::CountClosedWorkflowExecutions => Box::pin(visibility::count(call, input, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_the_members_of_awss_model() {
        let mut lines: Vec<String> = Vec::new();
        for operation in Operation::ALL {
            let required = |field: &Field| if field.is_required { "!" } else { "" };
            let mut members: Vec<_> =
                operation.fields().iter().map(|field| format!("{}{}", field.name, required(field))).collect();
            members.sort_unstable();
            lines.push(format!("{}: {}", operation.name(), members.join(" ")));
        }
        let model = include_str!("../../tests/shared/swf-members.txt");
        let model: Vec<&str> = model.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, model);
    }
}
