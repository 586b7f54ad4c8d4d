"""Completes a run and reads its history with the client that openapi-python-client generates from the document."""

import sys

from baton import Client
from baton.api.tasks import complete_turn, poll_decider
from baton.api.workflows import read_history, signal_workflow, start_workflow
from baton.models import (
    CompleteTurn,
    PollDecider,
    Problem,
    RecordMarkerDecision,
    RetryPolicy,
    ScheduleActivityDecision,
    SignalEvent,
    SignalWorkflow,
    StartTimerDecision,
    StartWorkflow,
    SucceedWorkflowDecision,
)


def main(url):
    client = Client(base_url=url, raise_on_unexpected_status=True)
    start = StartWorkflow(workflow_id="w", workflow_type="order", task_list="orders", input_={"n": 1})
    start_workflow.sync("default", client=client, body=start)
    signal_workflow.sync("default", "w", "go", client=client, body=SignalWorkflow(input_="now"))
    task = poll_decider.sync("default", "orders", client=client, body=PollDecider(), prefer="wait=20")
    retry = RetryPolicy(maximum_attempts=3)
    decisions = [
        ScheduleActivityDecision(type_="ScheduleActivity", activity_id="a", activity_type="charge", retry=retry),
        StartTimerDecision(type_="StartTimer", timer_id="t", after="PT1H"),
        RecordMarkerDecision(type_="RecordMarker", name="noted", details=[1, None, {"deep": True}]),
        SucceedWorkflowDecision(type_="SucceedWorkflow", result={"total": 12}),
    ]
    complete_turn.sync(task.token, client=client, body=CompleteTurn(decisions=decisions))
    events = read_history.sync("default", "w", client=client).events
    for event in events:
        print(event.id, type(event).__name__)
        assert type(event).__name__ == event.type_ + "Event", event
    kinds = [event.type_ for event in events]
    assert kinds == [
        "WorkflowStarted",
        "DeciderScheduled",
        "Signal",
        "DeciderStarted",
        "DeciderCompleted",
        "ActivityScheduled",
        "TimerScheduled",
        "Marker",
        "WorkflowSuccess",
    ], kinds
    signal = events[2]
    assert isinstance(signal, SignalEvent) and (signal.name, signal.input_) == ("go", "now"), signal
    assert events[5].retry.maximum_attempts == 3, events[5]
    assert events[6].after == "PT1H", events[6]
    assert events[7].details == [1, None, {"deep": True}], events[7]
    problem = start_workflow.sync("default", client=client, body=start)
    assert isinstance(problem, Problem) and problem.code == "workflow-id-reuse-refused", problem
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main(sys.argv[1])
