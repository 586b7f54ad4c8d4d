POST ./imported-runs

{"events": [
  {"id": 1, "timestamp": "2023-11-01T00:00:00.000Z", "type": "WorkflowStarted", "workflowId": "w",
   "runId": "018b8fe5-6800-7000-8000-000000000001", "workflowType": "order", "taskList": "deciders", "executionTimeout": "P365D",
   "activityTimeouts": {"startToClose": "PT5M"}, "deciderStartToClose": "PT30S", "retention": "P30D", "input": {"n": 1}, "tags": ["eu"]},
  {"id": 2, "timestamp": "2023-11-01T00:00:00.000Z", "type": "DeciderScheduled", "taskList": "deciders", "attempt": 1, "startToClose": "PT30S"},
  {"id": 3, "timestamp": "2023-11-01T00:00:01.000Z", "type": "WorkflowTerminated", "reason": "over"}
]}
---
# Once more.
POST ./imported-runs

{"events": [
  {"id": 1, "timestamp": "2023-11-01T00:00:00.000Z", "type": "WorkflowStarted", "workflowId": "w",
   "runId": "018b8fe5-6800-7000-8000-000000000001", "workflowType": "order", "taskList": "deciders", "executionTimeout": "P365D",
   "activityTimeouts": {"startToClose": "PT5M"}, "deciderStartToClose": "PT30S", "retention": "P30D", "input": {"n": 1}, "tags": ["eu"]},
  {"id": 2, "timestamp": "2023-11-01T00:00:00.000Z", "type": "DeciderScheduled", "taskList": "deciders", "attempt": 1, "startToClose": "PT30S"},
  {"id": 3, "timestamp": "2023-11-01T00:00:01.000Z", "type": "WorkflowTerminated", "reason": "over"}
]}
---
# Another history.
POST ./imported-runs

{"events": [
  {"id": 1, "timestamp": "2023-11-01T00:00:00.000Z", "type": "WorkflowStarted", "workflowId": "w",
   "runId": "018b8fe5-6800-7000-8000-000000000001", "workflowType": "order", "taskList": "deciders", "executionTimeout": "P365D",
   "activityTimeouts": {"startToClose": "PT5M"}, "deciderStartToClose": "PT30S", "retention": "P30D", "input": {"n": 1}, "tags": ["eu"]},
  {"id": 2, "timestamp": "2023-11-01T00:00:00.000Z", "type": "DeciderScheduled", "taskList": "deciders", "attempt": 1, "startToClose": "PT30S"},
  {"id": 3, "timestamp": "2023-11-01T00:00:01.000Z", "type": "WorkflowTerminated", "reason": "enough"}
]}
---
POST ./imported-runs

{"events": []}
---
GET ./workflows/w
---
GET ./workflows/w/history
---
GET ./workflows?tag=eu
