POST ./workflows
Idempotency-Key: k1
@$FIRST = runId

{"workflowId": "w", "workflowType": "order", "taskList": "deciders", "input": {"a": 1}, "tags": ["eu"], "executionTimeout": "PT1H", "runTimeout": "PT30M", "retention": "P7D", "taskPriority": 3, "deciderStartToClose": "PT20S", "deciderScheduleToStart": "PT5M", "activityTimeouts": {"startToClose": "PT1M"}, "retry": {"maximumAttempts": 2, "initialInterval": "PT1S"}, "identity": "web"}
---
# The same once more, and another with its key.
POST ./workflows
Idempotency-Key: k1

{"workflowId": "w", "workflowType": "order", "taskList": "deciders", "input": {"a": 1}}
---
POST ./workflows

{"workflowId": "w", "workflowType": "order"}
---
POST ./workflows

{"workflowId": "w", "workflowType": "order", "taskList": "deciders", "conflictPolicy": "use-existing", "signal": {"name": "hello"}}
---
POST ./workflows

{"workflowId": "w", "workflowType": "order", "conflictPolicy": "terminate-existing", "reusePolicy": "reject-duplicate"}
---
POST ./workflows

{"workflowId": "bad", "workflowType": "order", "runTimeout": "PT0S"}
---
POST ./workflows

{"workflowId": "bad", "workflowType": "order", "retry": {"maximumAttempts": 0}}
---
POST ./workflows

{"workflowId": "bad", "workflowType": "order", "retry": {"whenExhausted": "pause"}}
---
POST ./workflows

{"workflowId": "", "workflowType": "order"}
---
GET ./workflows/w
@$TAG = header etag
---
POST ./workflows/w/signals/go

{"input": [1, 2.50], "identity": "web"}
---
POST ./workflows/w/signals/go
Idempotency-Key: s1

{"input": null}
---
POST ./workflows/w/signals/go
Idempotency-Key: s1

{"input": null}
---
POST ./workflows/w/signals/go
If-Match: $TAG

{}
---
POST ./workflows/nobody/signals/go

{}
---
GET ./workflows/w
---
GET ./workflows/w?runId=00000000-0000-0000-0000-000000000000
---
GET ./workflows/w/history
---
GET ./workflows/w/history?limit=2&reverse=true
---
GET ./workflows/w/result
---
POST ./workflows/w/cancel

{"reason": "why", "identity": "web"}
---
POST ./workflows/w/pause

{"stopClocks": true, "reason": "stocktaking", "identity": "ops"}
---
POST ./workflows/w/pause

{}
---
GET ./workflows/w
---
wait PT10M
---
POST ./workflows/w/resume

{}
---
POST ./workflows/w/resume

{}
---
# Its turn is taken by nobody.
wait PT6M
---
GET ./workflows/w/history?after=9
---
POST ./workflows/w/terminate

{"reason": "enough", "details": {"by": 1}, "identity": "ops"}
---
POST ./workflows/w/terminate

{}
---
POST ./workflows/w/signals/go

{}
---
POST ./workflows/w/cancel

{}
---
POST ./workflows/w/pause

{}
---
GET ./workflows/w/result
---
POST ./workflows

{"workflowId": "w", "workflowType": "order", "reusePolicy": "reject-duplicate"}
---
POST ./workflows/w/reset
@$SECOND = runId

{"eventId": 2, "reason": "again", "signals": "reapply"}
---
GET ./workflows/w/history
---
GET ./workflows/w?runId=$FIRST
---
POST ./workflows/w/signals/go?runId=$FIRST

{}
---
POST ./workflows/w/reset?runId=$FIRST

{"eventId": 7000}
---
# It times out, and is tried again.
POST ./workflows

{"workflowId": "t", "workflowType": "order", "taskList": "others", "runTimeout": "PT1M", "retry": {"maximumAttempts": 2, "initialInterval": "PT1S", "jitter": 0}, "startAfter": "PT5S"}
---
wait PT2M
---
GET ./workflows/t/history
---
wait PT3S
---
wait PT3M
---
GET ./workflows/t
---
GET ./workflows
---
GET ./workflows?status=closed&type=order&order=-closedAt&limit=1
---
GET ./workflows?tag=eu&startedFrom=2020-01-01T00:00:00Z
---
GET ./workflows?status=asleep
---
GET ./workflow-count
---
GET ./workflow-count?status=open
---
DELETE ./workflows/w?runId=$SECOND
---
POST ./workflows/w/terminate

{}
---
DELETE ./workflows/w
---
GET ./workflows/w
