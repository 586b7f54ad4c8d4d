POST ./workflows

{"workflowId": "w", "workflowType": "order", "taskList": "deciders"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [
 {"type": "ScheduleActivity", "activityId": "a", "activityType": "charge", "taskList": "runners"},
 {"type": "ScheduleActivity", "activityId": "b", "activityType": "charge", "taskList": "runners", "retry": {"maximumAttempts": 1, "whenExhausted": "pause"}},
 {"type": "ScheduleActivity", "activityId": "c", "activityType": "charge", "taskList": "runners"}
]}
---
POST ./workflows/w/activities/a/pause

{"reason": "wait", "identity": "ops"}
---
POST ./workflows/w/activities/a/pause

{}
---
POST ./workflows/w/activities/a/options

{"taskList": "elsewhere", "timeouts": {"startToClose": "PT5M"}, "retry": {"maximumAttempts": 3}}
---
POST ./workflows/w/activities/a/options

{}
---
GET ./workflows/w
---
POST ./workflows/w/activities/a/resume

{}
---
POST ./workflows/w/activities/a/resume

{}
---
POST ./workflows/w/activities/a/success

{"result": {"by": "hand"}, "identity": "ops"}
---
POST ./workflows/w/activities/a/success

{}
---
POST ./task-lists/runners/activity/poll
@$B = token

{}
---
POST /v1/activity-tasks/$B/failure

{"reason": "busy"}
---
GET ./workflows/w
---
POST ./workflows/w/activities/b/retry

{"reason": "try once more"}
---
POST ./workflows/w/activities/b/failure

{"failureReason": "given up", "details": 1}
---
POST ./workflows/w/activities/c/retry

{}
---
POST ./workflows/w/activities/none/retry

{}
---
GET ./workflows/w/history
---
GET /v1/session
---
POST /v1/session

{}
---
DELETE /v1/session
---
GET /v1/credentials
---
GET /v1/nodes
