POST ./workflows

{"workflowId": "w", "workflowType": "order", "taskList": "deciders"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "ScheduleActivity", "activityId": "a", "activityType": "mail", "taskList": "runners", "retry": {"maximumAttempts": 1, "whenExhausted": "pause"}}]}
---
POST ./task-lists/runners/activity/poll
@$A = token

{}
---
POST /v1/activity-tasks/$A/failure

{"reason": "smtp-refused"}
---
wait PT1S
---
POST ./workflows

{"workflowId": "v", "workflowType": "order", "taskList": "deciders"}
---
GET ./failures
---
POST ./batches

{"operation": {"type": "retry-activities"}, "filter": {"status": "blocked", "type": "order"}, "dryRun": true}
---
POST ./batches
idempotency-key: night
@$B = batchId

{"operation": {"type": "retry-activities"}, "filter": {"type": "order"}, "pace": 1, "reason": "the mail server is back", "identity": "ops"}
---
POST ./batches
idempotency-key: night

{"operation": {"type": "retry-activities"}, "filter": {"type": "order"}, "pace": 1, "reason": "the mail server is back", "identity": "ops"}
---
GET ./batches/$B
---
POST ./batches/$B/stop

{}
---
DELETE ./batches/none
---
PUT ./batches/$B/pace

{"pace": 100}
---
POST ./batches/$B/resume

{}
---
DELETE ./batches/$B
---
PUT ./batches/$B/pace

{"pace": 0}
---
wait PT1S
---
GET ./batches/$B
---
GET ./batches
---
POST ./batches/$B/stop

{}
---
POST ./batches

{"operation": {"type": "signal"}}
---
POST ./batches

{"operation": {"type": "delete"}, "filter": {"status": "open"}}
---
POST ./batches

{"operation": {"type": "signal", "name": "s", "input": 7}, "filter": {"workflowIds": ["v", "lost"]}, "identity": "ops"}
---
wait PT1S
---
GET ./batches
---
DELETE ./batches/$B
---
GET ./batches/$B
