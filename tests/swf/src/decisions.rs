//! Short functions for SWF decisions. Each takes the required attributes; optional ones are set on the builder of the
//! attributes.

use aws_sdk_swf::types::builders as of;
use aws_sdk_swf::types::{
    CancelWorkflowExecutionDecisionAttributes, CompleteWorkflowExecutionDecisionAttributes,
    ContinueAsNewWorkflowExecutionDecisionAttributes, Decision, DecisionType, FailWorkflowExecutionDecisionAttributes,
    ScheduleActivityTaskDecisionAttributes, StartChildWorkflowExecutionDecisionAttributes,
};

use crate::{CHARGE, ORDER, activity, workflow};

macro_rules! with_required {
    ($( $(#[$doc:meta])* $name:ident $kind:ident $member:ident $builder:ident; )+) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(attributes: of::$builder) -> Decision {
            let attributes = attributes.build().expect("its attributes have what they must");
            Decision::builder().decision_type(DecisionType::$kind).$member(attributes).build().expect("it has a type")
        }
    )+ };
}

with_required! {
    /// `ScheduleActivityTask`.
    schedule_activity ScheduleActivityTask
        schedule_activity_task_decision_attributes
        ScheduleActivityTaskDecisionAttributesBuilder;
    /// `RequestCancelActivityTask`.
    cancel_activity RequestCancelActivityTask
        request_cancel_activity_task_decision_attributes
        RequestCancelActivityTaskDecisionAttributesBuilder;
    /// `RecordMarker`.
    record_marker RecordMarker record_marker_decision_attributes RecordMarkerDecisionAttributesBuilder;
    /// `StartTimer`.
    start_timer StartTimer start_timer_decision_attributes StartTimerDecisionAttributesBuilder;
    /// `CancelTimer`.
    cancel_timer CancelTimer cancel_timer_decision_attributes CancelTimerDecisionAttributesBuilder;
    /// `SignalExternalWorkflowExecution`.
    signal_external SignalExternalWorkflowExecution
        signal_external_workflow_execution_decision_attributes
        SignalExternalWorkflowExecutionDecisionAttributesBuilder;
    /// `RequestCancelExternalWorkflowExecution`.
    cancel_external RequestCancelExternalWorkflowExecution
        request_cancel_external_workflow_execution_decision_attributes
        RequestCancelExternalWorkflowExecutionDecisionAttributesBuilder;
    /// `StartChildWorkflowExecution`.
    start_child StartChildWorkflowExecution
        start_child_workflow_execution_decision_attributes
        StartChildWorkflowExecutionDecisionAttributesBuilder;
    /// `ScheduleLambdaFunction`.
    schedule_lambda ScheduleLambdaFunction
        schedule_lambda_function_decision_attributes
        ScheduleLambdaFunctionDecisionAttributesBuilder;
}

macro_rules! without_required {
    ($( $(#[$doc:meta])* $name:ident $kind:ident $member:ident $attributes:ident; )+) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(attributes: $attributes) -> Decision {
            Decision::builder().decision_type(DecisionType::$kind).$member(attributes).build().expect("it has a type")
        }
    )+ };
}

without_required! {
    /// `CompleteWorkflowExecution`.
    complete_with CompleteWorkflowExecution
        complete_workflow_execution_decision_attributes
        CompleteWorkflowExecutionDecisionAttributes;
    /// `FailWorkflowExecution`.
    fail_with FailWorkflowExecution fail_workflow_execution_decision_attributes FailWorkflowExecutionDecisionAttributes;
    /// `CancelWorkflowExecution`.
    cancel_with CancelWorkflowExecution
        cancel_workflow_execution_decision_attributes
        CancelWorkflowExecutionDecisionAttributes;
    /// `ContinueAsNewWorkflowExecution`.
    continue_with ContinueAsNewWorkflowExecution
        continue_as_new_workflow_execution_decision_attributes
        ContinueAsNewWorkflowExecutionDecisionAttributes;
}

/// Completes the run.
#[must_use]
pub fn complete(result: &str) -> Decision {
    complete_with(CompleteWorkflowExecutionDecisionAttributes::builder().result(result).build())
}

/// Fails the run.
#[must_use]
pub fn fail(reason: &str) -> Decision {
    fail_with(FailWorkflowExecutionDecisionAttributes::builder().reason(reason).build())
}

/// Cancels the run.
#[must_use]
pub fn cancel() -> Decision {
    cancel_with(CancelWorkflowExecutionDecisionAttributes::builder().details("cleared").build())
}

/// Continues the run as new.
#[must_use]
pub fn go_on() -> Decision {
    continue_with(ContinueAsNewWorkflowExecutionDecisionAttributes::builder().input("next").build())
}

/// Returns the attributes of an activity of type `charge` with this id.
#[must_use]
pub fn charge(id: &str) -> of::ScheduleActivityTaskDecisionAttributesBuilder {
    ScheduleActivityTaskDecisionAttributes::builder().activity_id(id).activity_type(activity(CHARGE))
}

/// Schedules an activity of type `charge`.
#[must_use]
pub fn schedule(id: &str) -> Decision {
    schedule_activity(charge(id).input("in").control("note"))
}

/// Returns the attributes of a child of type `order` whose turns wait in the task list `children`.
#[must_use]
pub fn child_order(id: &str) -> of::StartChildWorkflowExecutionDecisionAttributesBuilder {
    let attributes = StartChildWorkflowExecutionDecisionAttributes::builder().workflow_id(id);
    attributes.workflow_type(workflow(ORDER)).task_list(crate::list("children"))
}

/// Starts a timer.
#[must_use]
pub fn timer(id: &str, seconds: u32) -> Decision {
    let attributes = aws_sdk_swf::types::StartTimerDecisionAttributes::builder();
    start_timer(attributes.timer_id(id).start_to_fire_timeout(seconds.to_string()))
}

/// Schedules a Lambda function.
#[must_use]
pub fn lambda(id: &str, name: &str) -> Decision {
    let attributes = aws_sdk_swf::types::ScheduleLambdaFunctionDecisionAttributes::builder();
    schedule_lambda(attributes.id(id).name(name).input("in").control("note"))
}

/// Records a marker.
#[must_use]
pub fn marker(name: &str) -> Decision {
    record_marker(aws_sdk_swf::types::RecordMarkerDecisionAttributes::builder().marker_name(name))
}
