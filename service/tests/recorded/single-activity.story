POST ./task-lists/runners/activities
idempotency-key: k

{"activityType": "charge", "input": {"n": 1}, "timeouts": {"heartbeat": "PT30S"}, "retry": {"maximumAttempts": 3}, "tags": ["eu"]}
---
POST ./task-lists/runners/activities
idempotency-key: k

{"activityType": "charge", "input": {"n": 1}}
---
POST ./task-lists/runners/activity/poll
@$TASK = token

{"identity": "me"}
---
POST /v1/activity-tasks/$TASK/success

{"result": {"n": 2}}
---
& POST ./task-lists/runners/activities
prefer: wait=60

{"activityType": "charge", "workflowId": "w", "timeouts": {"scheduleToStart": "PT5S"}}
---
wait PT5S
---
join
---
POST ./task-lists/runners/activities
@$RUN = runId

{"activityType": "charge", "workflowId": "v"}
---
POST ./workflows/v/signals/go

{}
---
POST ./workflows/v/queries/total

{}
---
POST ./workflows/v/updates/add

{}
---
SWF SignalWorkflowExecution

{"domain": "default", "workflowId": "v", "signalName": "go"}
---
GET ./workflows/v
---
POST ./workflows/v/cancel

{}
---
GET ./workflows/v/history
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "v", "runId": "$RUN"}}
---
POST ./task-lists/runners/activities

{"activityType": ""}
---
POST ./task-lists/runners/activities

{"workflowType": "charge"}
