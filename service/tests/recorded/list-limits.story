PUT ./limit-groups/bank

{"maxRunning": 30, "rate": {"perSecond": 100}}
---
GET ./limit-groups
---
GET ./limit-groups/bank
---
GET ./limit-groups/none
---
PUT ./task-lists/payments/activity/limits

{"maxRunning": 1, "rate": {"perSecond": 100, "burst": 10}, "perKey": {"maxRunning": 2}, "limits": [{"key": "visa", "maxRunning": 20, "weight": 3}], "group": "bank"}
---
PUT ./task-lists/payments/activity/limits

{"maxRunning": 0}
---
PUT ./task-lists/deciders/decider/limits

{"perKey": {"maxRunning": 1}}
---
POST ./task-lists/deciders/decider/pause

{"reason": "a deployment", "identity": "ops"}
---
POST ./task-lists/deciders/decider/resume
---
POST ./workflows

{"workflowId": "w", "workflowType": "order", "taskList": "deciders", "concurrencyKey": "visa"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [
 {"type": "ScheduleActivity", "activityId": "a", "activityType": "charge", "taskList": "payments"},
 {"type": "ScheduleActivity", "activityId": "b", "activityType": "charge", "taskList": "payments", "concurrencyKey": "gold"}
]}
---
POST ./task-lists/payments/activity/pause

{"reason": "maintenance", "identity": "ops"}
---
POST ./task-lists/payments/activity/pause

{}
---
GET ./task-lists/payments
---
GET ./workflows/w
---
POST ./task-lists/payments/activity/resume
---
POST ./task-lists/payments/activity/resume
---
GET ./task-lists/payments
---
DELETE ./limit-groups/bank
---
PUT ./task-lists/payments/activity/limits

{}
---
DELETE ./limit-groups/bank
