"""A decider, a runner and a starter written with boto3, and checks of the resulting histories."""

import sys
import threading
import time

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

DOMAIN = "python"
LIST = {"name": "python"}
ORDER = {"name": "order", "version": "1"}
CHARGE = {"name": "charge", "version": "1"}
# Time limit of each wait, long enough for a busy machine.
PATIENCE_SECONDS = 180
TRIES = 3


def client(url):
    # Longer than a poll, which waits for up to a minute.
    config = Config(read_timeout=70, retries={"max_attempts": 0})
    return boto3.client(
        "swf",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        config=config,
    )


def register(swf):
    swf.register_domain(name=DOMAIN, workflowExecutionRetentionPeriodInDays="1")
    swf.register_workflow_type(
        domain=DOMAIN,
        **ORDER,
        defaultTaskList=LIST,
        defaultTaskStartToCloseTimeout="60",
        defaultExecutionStartToCloseTimeout="600",
        defaultChildPolicy="REQUEST_CANCEL",
    )
    swf.register_activity_type(
        domain=DOMAIN,
        **CHARGE,
        defaultTaskList=LIST,
        defaultTaskStartToCloseTimeout="60",
        defaultTaskHeartbeatTimeout="NONE",
        defaultTaskScheduleToStartTimeout="NONE",
        defaultTaskScheduleToCloseTimeout="NONE",
    )


def member(kind):
    return kind[0].lower() + kind[1:]


def attributes(event):
    return event[member(event["eventType"]) + "EventAttributes"]


def decision(kind, **said):
    return {"decisionType": kind, member(kind) + "DecisionAttributes": said}


def schedule(activity_id, what):
    return decision("ScheduleActivityTask", activityId=activity_id, activityType=CHARGE, input=what)


class Story:
    """The events of a run, read from its history."""

    def __init__(self, events):
        self.events = events

    def all(self, kind):
        return [attributes(event) for event in self.events if event["eventType"] == kind]

    def has(self, kind):
        return any(event["eventType"] == kind for event in self.events)


def decide(task, story):
    started = story.all("WorkflowExecutionStarted")[0]
    kind = started["input"]
    if kind == "again":
        return [decision("CompleteWorkflowExecution", result="second round")]
    if kind == "child":
        # The child waits until its cancellation is requested, which happens after it has received a signal.
        if not story.has("WorkflowExecutionCancelRequested"):
            return []
        names = [signal["signalName"] for signal in story.all("WorkflowExecutionSignaled")]
        return [decision("CancelWorkflowExecution", details=",".join(names))]
    if kind == "patient":
        if not story.has("ActivityTaskScheduled"):
            return [schedule("wait", "until canceled")]
        if story.has("ActivityTaskCanceled"):
            return [decision("CancelWorkflowExecution")]
        if story.has("WorkflowExecutionCancelRequested") and not story.has("ActivityTaskCancelRequested"):
            return [decision("RequestCancelActivityTask", activityId="wait")]
        return []
    # Schedules an activity that is retried, a timer, a child, and requests to runs that do not exist. After the
    # approval, the run continues as new.
    child = task["workflowExecution"]["runId"] + ":1"
    if not story.has("ActivityTaskScheduled"):
        return [schedule("charge-1", "fail")]
    failed = len(story.all("ActivityTaskFailed"))
    if not story.has("ActivityTaskCompleted"):
        if len(story.all("ActivityTaskScheduled")) == failed:
            return [schedule(f"charge-{failed + 1}", "fail" if failed + 1 < TRIES else "succeed")]
        return []
    if not story.has("TimerStarted"):
        return [decision("StartTimer", timerId="rest", startToFireTimeout="1", control="")]
    if not story.has("TimerFired"):
        return []
    if not story.has("StartChildWorkflowExecutionInitiated"):
        return [decision("StartChildWorkflowExecution", workflowId=child, workflowType=ORDER, input="child")]
    if not story.has("ChildWorkflowExecutionStarted"):
        return []
    if not story.has("SignalExternalWorkflowExecutionInitiated"):
        return [
            decision("SignalExternalWorkflowExecution", workflowId=child, signalName="hurry"),
            decision("RequestCancelExternalWorkflowExecution", workflowId="nobody", runId="fake", control="note"),
        ]
    # The child must receive the signal before its cancellation is requested.
    if len(story.all("RequestCancelExternalWorkflowExecutionInitiated")) < 2:
        if story.has("ExternalWorkflowExecutionSignaled"):
            return [decision("RequestCancelExternalWorkflowExecution", workflowId=child)]
        return []
    if story.has("ChildWorkflowExecutionCanceled") and story.has("WorkflowExecutionSignaled"):
        return [decision("ContinueAsNewWorkflowExecution", input="again", tagList=["again"])]
    return []


def run_decider(swf):
    while True:
        pages = swf.get_paginator("poll_for_decision_task").paginate(
            domain=DOMAIN, taskList=LIST, identity="decider", PaginationConfig={"PageSize": 7}
        )
        task, events = None, []
        for page in pages:
            if "taskToken" not in page:
                break
            task = task or page
            events += page["events"]
        if task is None:
            continue
        ids = [event["eventId"] for event in events]
        assert ids == list(range(1, len(ids) + 1)), ids
        decisions = decide(task, Story(events))
        swf.respond_decision_task_completed(taskToken=task["taskToken"], decisions=decisions)


def run_activities(swf):
    while True:
        task = swf.poll_for_activity_task(domain=DOMAIN, taskList=LIST, identity="runner")
        if "taskToken" not in task:
            continue
        token, what = task["taskToken"], task["input"]
        if what == "fail":
            swf.respond_activity_task_failed(taskToken=token, reason="no answer", details="from the bank")
        elif what == "until canceled":
            while not swf.record_activity_task_heartbeat(taskToken=token, details="waiting")["cancelRequested"]:
                time.sleep(0.1)
            swf.respond_activity_task_canceled(taskToken=token, details="left")
        else:
            swf.respond_activity_task_completed(taskToken=token, result="paid")


class Program:
    def __init__(self, swf):
        self.swf = swf
        self.oldest = {"oldestDate": 0}

    def start(self, workflow_id, kind, **more):
        return self.swf.start_workflow_execution(
            domain=DOMAIN, workflowId=workflow_id, workflowType=ORDER, input=kind, **more
        )["runId"]

    def history(self, workflow_id, run_id):
        pages = self.swf.get_paginator("get_workflow_execution_history").paginate(
            domain=DOMAIN,
            execution={"workflowId": workflow_id, "runId": run_id},
            PaginationConfig={"PageSize": 10},
        )
        return Story([event for page in pages for event in page["events"]])

    def status(self, workflow_id, run_id):
        execution = {"workflowId": workflow_id, "runId": run_id}
        described = self.swf.describe_workflow_execution(domain=DOMAIN, execution=execution)
        return described["executionInfo"].get("closeStatus", "OPEN")

    def closes(self, workflow_id, run_id):
        wait_for(f"the end of {workflow_id}", lambda: self.status(workflow_id, run_id) != "OPEN")
        return self.status(workflow_id, run_id)

    def an_order_goes_on_as_new(self):
        run_id = self.start("order-1", "order", tagList=["first"])
        wait_for("the child's end", lambda: self.history("order-1", run_id).has("ChildWorkflowExecutionCanceled"))
        self.swf.signal_workflow_execution(domain=DOMAIN, workflowId="order-1", signalName="approve", input="bob")
        expect("the first run", "CONTINUED_AS_NEW", self.closes("order-1", run_id))
        story = self.history("order-1", run_id)
        expect("failed tries", TRIES - 1, len(story.all("ActivityTaskFailed")))
        expect("the result", "paid", story.all("ActivityTaskCompleted")[0]["result"])
        child = story.all("StartChildWorkflowExecutionInitiated")[0]["workflowId"]
        expect("the child", f"{run_id}:1", child)
        expect("what the child was told", "hurry", story.all("ChildWorkflowExecutionCanceled")[0]["details"])
        asked = story.all("RequestCancelExternalWorkflowExecutionInitiated")[0]
        expect("the run that was asked", ("nobody", "fake"), (asked["workflowId"], asked["runId"]))
        failed = story.all("RequestCancelExternalWorkflowExecutionFailed")
        expect("those that failed", [("fake", "note")], [(it["runId"], it["control"]) for it in failed])
        second = story.all("WorkflowExecutionContinuedAsNew")[0]["newExecutionRunId"]
        expect("the second run", "COMPLETED", self.closes("order-1", second))
        result = self.history("order-1", second).all("WorkflowExecutionCompleted")[0]["result"]
        expect("its result", "second round", result)
        for filters, expected in [
            ({"executionFilter": {"workflowId": child}}, [child]),
            ({"executionFilter": {"workflowId": "order-1"}}, ["order-1", "order-1"]),
            ({"tagFilter": {"tag": "again"}}, ["order-1"]),
            ({"closeStatusFilter": {"status": "CANCELED"}}, [child]),
        ]:
            asked = {"domain": DOMAIN, "startTimeFilter": self.oldest, **filters}
            listed = self.swf.list_closed_workflow_executions(**asked)["executionInfos"]
            expect(f"closed by {filters}", expected, [info["execution"]["workflowId"] for info in listed])
            count = self.swf.count_closed_workflow_executions(**asked)["count"]
            expect("how many", len(expected), count)

    def an_activity_is_canceled(self):
        run_id = self.start("a/b|c", "patient")
        wait_for("the activity", lambda: self.history("a/b|c", run_id).has("ActivityTaskStarted"))
        self.swf.request_cancel_workflow_execution(domain=DOMAIN, workflowId="a/b|c", runId=run_id)
        expect("the run", "CANCELED", self.closes("a/b|c", run_id))
        expect("the activity", "left", self.history("a/b|c", run_id).all("ActivityTaskCanceled")[0]["details"])

    def faults_are_boto3s_own(self):
        expect("an unknown run", "UnknownResourceFault", self.fault("order-1", "fake"))
        self.start("twice", "child")
        try:
            second = self.start("twice", "child")
        except self.swf.exceptions.WorkflowExecutionAlreadyStartedFault:
            second = None
        expect("a second start", None, second)
        self.swf.terminate_workflow_execution(domain=DOMAIN, workflowId="twice", reason="enough")

    def fault(self, workflow_id, run_id):
        try:
            self.status(workflow_id, run_id)
            return None
        except ClientError as error:
            return error.response["Error"]["Code"]


def wait_for(what, is_so):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def expect(what, expected, found):
    assert expected == found, f"{what}: expected {expected!r}, found {found!r}"
    print(f"ok: {what}: {found!r}")


def main(url):
    register(client(url))
    for work in [run_decider, run_activities]:
        # Workers wait in polls and end together with the program.
        threading.Thread(target=work, args=[client(url)], daemon=True).start()
    program = Program(client(url))
    stories = [program.an_order_goes_on_as_new, program.an_activity_is_canceled, program.faults_are_boto3s_own]
    for story in stories:
        story()
    print(f"{len(stories)} passed, 0 failed")


if __name__ == "__main__":
    main(sys.argv[1])
