POST ./workflows

{"workflowId": "w", "workflowType": "order", "taskList": "deciders"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"identity": "me", "pollId": "p", "attempt": 1}
---
# The same poll, whose answer was lost.
POST ./task-lists/deciders/decider/poll

{"identity": "me", "pollId": "p", "attempt": 2}
---
POST ./task-lists/deciders/decider/poll

{"identity": "me"}
---
GET /v1/decider-tasks/$TURN/history
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "SucceedWorkflow"}, {"type": "RecordMarker", "name": "m"}]}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "Dance"}]}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "StartTimer", "timerId": "t"}]}
---
POST /v1/decider-tasks/$TURN/fail

{"reason": "confused", "details": {"n": 1}}
---
POST /v1/decider-tasks/$TURN/fail

{"reason": "confused"}
---
wait PT5S
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"identity": "me"}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [
 {"type": "ScheduleActivity", "activityId": "a", "activityType": "charge", "taskList": "runners", "input": {"n": 1}, "timeouts": {"startToClose": "PT1M", "heartbeat": "PT30S"}},
 {"type": "ScheduleActivity", "activityId": "b", "activityType": "charge", "taskList": "runners", "retry": {"maximumAttempts": 2, "initialInterval": "PT1S", "jitter": 0}, "taskPriority": 5},
 {"type": "ScheduleActivity", "activityId": "c", "activityType": "charge", "taskList": "nobody", "timeouts": {"scheduleToStart": "PT10S"}},
 {"type": "ScheduleActivity", "activityId": "a", "activityType": "charge"},
 {"type": "CancelActivity", "activityId": "nothing"},
 {"type": "StartTimer", "timerId": "t", "after": "PT1M", "control": "c"},
 {"type": "StartTimer", "timerId": "t", "after": "PT1M"},
 {"type": "StartTimer", "timerId": "u", "after": "PT1H"},
 {"type": "CancelTimer", "timerId": "u"},
 {"type": "CancelTimer", "timerId": "v"},
 {"type": "RecordMarker", "name": "m", "details": [1]},
 {"type": "RecordMarker", "name": "baton.m"},
 {"type": "StartChild", "workflowId": "c", "workflowType": "child", "taskList": "children", "childPolicy": "request-cancel"},
 {"type": "SignalExternal", "workflowId": "other", "name": "s", "input": 1},
 {"type": "CancelExternal", "workflowId": "other"}
], "context": {"page": 1}, "awaiting": ["go"]}
---
GET ./workflows/w
---
wait PT1S
---
GET ./workflows/w/history
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": []}
---
POST ./task-lists/runners/activity/poll
@$B = token

{"identity": "runner"}
---
POST ./task-lists/runners/activity/poll
@$A = token

{"identity": "runner"}
---
POST ./task-lists/runners/activity/poll

{}
---
POST /v1/activity-tasks/$A/heartbeat

{"details": {"done": 0.5}}
---
POST /v1/activity-tasks/$A/output

{"chunks": ["charging card 1\n", {"charged": 1, "of": 2}], "sequence": 0}
---
GET ./workflows/w/activities/a/output
---
GET ./workflows/w/activities/nothing/output
---
POST /v1/activity-tasks/$B/failure

{"reason": "busy", "details": 7}
---
GET ./workflows/w
---
wait PT2S
---
POST ./task-lists/runners/activity/poll
@$B2 = token

{}
---
POST /v1/activity-tasks/$B/success

{}
---
POST /v1/activity-tasks/$B2/failure

{"reason": "hopeless", "nonRetryable": true}
---
POST /v1/activity-tasks/$A/canceled

{}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"maxEvents": 3}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "CancelActivity", "activityId": "a"}]}
---
POST /v1/activity-tasks/$A/heartbeat

{}
---
POST /v1/activity-tasks/$A/canceled

{"details": "stopped"}
---
POST /v1/activity-tasks/$A/success

{}
---
POST /v1/activity-tasks/nonsense/success

{}
---
wait PT15S
---
POST ./task-lists/children/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "FailWorkflow", "reason": "no stock", "details": {"item": 3}}]}
---
wait PT1S
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
# Something came meanwhile.
POST ./workflows/w/signals/go

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "SucceedWorkflow", "result": 1}]}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
# Nobody answers it in time.
wait PT2M
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": []}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "ContinueAsNew", "input": 2, "tags": ["next"]}]}
---
wait PT1S
---
GET ./workflows/w/history
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "ScheduleActivity", "activityId": "last", "activityType": "charge", "taskList": "runners"}]}
---
POST ./task-lists/runners/activity/poll
@$LAST = token

{}
---
POST /v1/activity-tasks/$LAST/success

{"result": {"n": 1.0}}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "SucceedWorkflow", "result": {"ok": true}}]}
---
GET ./workflows/w/result
---
GET ./workflows/w
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": []}
---
POST ./workflows

{"workflowId": "waits", "workflowType": "order", "taskList": "deciders"}
---
wait PT5S
---
GET ./task-lists?limit=2
---
GET ./task-lists/deciders
---
GET ./task-lists/nothing%20known
---
GET ./task-lists?page=nonsense
---
POST ./workflows

{"workflowId": "crewed", "workflowType": "order", "taskList": "crew"}
---
# Tasks into slots, and answers with a receipt each.
POST ./task-lists/crew/decider/exchange
prefer: wait=0
@$TURN = token

{"maxTasks": 2, "identity": "host", "pollId": "e"}
---
POST ./task-lists/crew/decider/exchange
prefer: wait=0

{"answers": [{"token": "$TURN", "complete": {"decisions": [{"type": "ScheduleActivity", "activityId": "a", "activityType": "ship", "taskList": "crew"}]}}, {"token": "nonsense", "complete": {}}]}
---
POST ./task-lists/crew/activity/exchange
prefer: wait=0
@$LAST = token

{"maxTasks": 1, "identity": "runner"}
---
POST ./task-lists/crew/activity/exchange
prefer: wait=0

{"answers": [{"token": "$LAST", "success": {"result": "shipped"}}], "maxTasks": 1}
