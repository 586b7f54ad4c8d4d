POST ./workflows

{"workflowId": "w", "workflowType": "order", "taskList": "deciders"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{}
---
POST /v1/decider-tasks/$TURN/complete

{"decisions": [{"type": "StartTimer", "timerId": "t", "after": "P9D"}]}
---
& POST ./workflows/w/queries/total
Prefer: wait=20

{"input": {"of": "cents"}}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token
@$QUERY = id

{"queries": true}
---
POST /v1/decider-tasks/$TURN/complete

{"queryResults": [{"id": "$QUERY", "result": 7}]}
---
join
@$TAG = header etag
---
& POST ./workflows/w/queries/color
Prefer: wait=20

{}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token
@$QUERY = id

{"queries": true}
---
POST /v1/decider-tasks/$TURN/complete

{"queryResults": [{"id": "$QUERY", "error": {"reason": "unknown-query", "message": "what?", "known": ["total"]}}]}
---
join
---
# Nobody is there.
POST ./workflows/w/queries/total
Prefer: wait=1

{}
---
POST ./workflows/nobody/queries/total

{}
---
& POST ./workflows/w/updates/add
Prefer: wait=20

{"updateId": "u1", "input": [1], "identity": "web"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"updates": 4}
---
POST /v1/decider-tasks/$TURN/complete

{"updateResults": [{"id": "u1", "accepted": {"n": 2}}]}
---
join
@$TAG = header etag
---
POST ./workflows/w/updates/add
Prefer: wait=1

{"updateId": "u1", "input": [1]}
---
& POST ./workflows/w/updates/add
If-Match: $TAG
Prefer: wait=20

{"updateId": "u2"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"updates": 4}
---
POST /v1/decider-tasks/$TURN/complete

{"updateResults": [{"id": "u2", "rejected": {"reason": "taken", "details": {"by": "bob"}}}]}
---
join
---
& POST ./workflows/w/updates/add
Prefer: wait=20

{"updateId": "u3"}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"updates": 4}
---
POST /v1/decider-tasks/$TURN/complete

{"updateResults": [{"id": "u3", "later": true}]}
---
wait PT1S
---
POST ./workflows/w/signals/go

{}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"updates": 4}
---
POST /v1/decider-tasks/$TURN/complete

{"updateResults": [{"id": "u3", "failed": {"reason": "no stock"}}]}
---
join
---
POST ./workflows/w/updates/add
If-Match: $TAG
Prefer: wait=1

{"updateId": "u4"}
---
POST ./workflows/w/updates/add
Prefer: wait=1

{"updateId": "u5"}
---
& POST ./workflows/new/updates/add
Prefer: wait=20

{"updateId": "u1", "start": {"workflowId": "new", "workflowType": "order", "taskList": "deciders"}}
---
POST ./task-lists/deciders/decider/poll
@$TURN = token

{"updates": 4}
---
POST /v1/decider-tasks/$TURN/complete

{"updateResults": [{"id": "u1", "accepted": null}], "decisions": [{"type": "SucceedWorkflow"}]}
---
join
---
POST ./workflows/new/updates/add

{"updateId": "u9"}
---
GET ./workflows/w/history
