SWF RegisterDomain

{"name": "shop", "workflowExecutionRetentionPeriodInDays": "7", "description": "d", "tags": [{"key": "k", "value": "v"}]}
---
SWF RegisterDomain

{"name": "shop", "workflowExecutionRetentionPeriodInDays": "7"}
---
SWF RegisterDomain

{"name": "shop"}
---
SWF DescribeDomain
@$ARN = arn

{"name": "shop"}
---
SWF DescribeDomain

{"name": "nowhere"}
---
SWF ListDomains

{"registrationStatus": "REGISTERED"}
---
SWF TagResource

{"resourceArn": "$ARN", "tags": [{"key": "stage", "value": "test"}]}
---
SWF UntagResource

{"resourceArn": "$ARN", "tagKeys": ["k"]}
---
SWF ListTagsForResource

{"resourceArn": "$ARN"}
---
SWF DeprecateDomain

{"name": "shop"}
---
SWF DeprecateDomain

{"name": "shop"}
---
SWF UndeprecateDomain

{"name": "shop"}
---
SWF RegisterWorkflowType

{"domain": "default", "name": "order", "version": "1", "defaultTaskStartToCloseTimeout": "60", "defaultExecutionStartToCloseTimeout": "3600", "defaultTaskList": {"name": "deciders"}, "defaultChildPolicy": "TERMINATE", "defaultTaskPriority": "2"}
---
SWF RegisterWorkflowType

{"domain": "default", "name": "order", "version": "1"}
---
SWF RegisterWorkflowType

{"domain": "default", "name": "bare", "version": "1"}
---
SWF DescribeWorkflowType

{"domain": "default", "workflowType": {"name": "order", "version": "1"}}
---
SWF DescribeWorkflowType

{"domain": "default", "workflowType": {"name": "none", "version": "1"}}
---
SWF ListWorkflowTypes
@$PAGE = nextPageToken

{"domain": "default", "registrationStatus": "REGISTERED", "maximumPageSize": 1}
---
SWF ListWorkflowTypes

{"domain": "default", "registrationStatus": "REGISTERED", "maximumPageSize": 1, "nextPageToken": "$PAGE"}
---
SWF StartWorkflowExecution

{"domain": "default", "workflowId": "b", "workflowType": {"name": "bare", "version": "1"}}
---
SWF DeprecateWorkflowType

{"domain": "default", "workflowType": {"name": "bare", "version": "1"}}
---
SWF UndeprecateWorkflowType

{"domain": "default", "workflowType": {"name": "bare", "version": "1"}}
---
SWF DeleteWorkflowType

{"domain": "default", "workflowType": {"name": "bare", "version": "1"}}
---
SWF DeprecateWorkflowType

{"domain": "default", "workflowType": {"name": "bare", "version": "1"}}
---
SWF DeleteWorkflowType

{"domain": "default", "workflowType": {"name": "bare", "version": "1"}}
---
SWF RegisterActivityType

{"domain": "default", "name": "charge", "version": "1", "defaultTaskStartToCloseTimeout": "60", "defaultTaskHeartbeatTimeout": "NONE", "defaultTaskScheduleToStartTimeout": "60", "defaultTaskScheduleToCloseTimeout": "120", "defaultTaskList": {"name": "runners"}}
---
SWF RegisterActivityType

{"domain": "default", "name": "old", "version": "1"}
---
SWF DescribeActivityType

{"domain": "default", "activityType": {"name": "charge", "version": "1"}}
---
SWF ListActivityTypes

{"domain": "default", "registrationStatus": "REGISTERED"}
---
SWF DeprecateActivityType

{"domain": "default", "activityType": {"name": "old", "version": "1"}}
---
SWF UndeprecateActivityType

{"domain": "default", "activityType": {"name": "old", "version": "1"}}
---
SWF DeprecateActivityType

{"domain": "default", "activityType": {"name": "old", "version": "1"}}
---
SWF DeleteActivityType

{"domain": "default", "activityType": {"name": "old", "version": "1"}}
---
SWF StartWorkflowExecution
@$RUN = runId

{"domain": "default", "workflowId": "w", "workflowType": {"name": "order", "version": "1"}, "input": "in", "tagList": ["a"]}
---
SWF StartWorkflowExecution

{"domain": "default", "workflowId": "w", "workflowType": {"name": "order", "version": "1"}}
---
SWF StartWorkflowExecution

{"domain": "default", "workflowId": "w2", "workflowType": {"name": "none", "version": "1"}}
---
SWF CountPendingDecisionTasks

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF CountPendingActivityTasks

{"domain": "default", "taskList": {"name": "runners"}}
---
SWF SignalWorkflowExecution

{"domain": "default", "workflowId": "w", "signalName": "s", "input": "x"}
---
SWF SignalWorkflowExecution

{"domain": "default", "workflowId": "none", "signalName": "s"}
---
SWF DescribeWorkflowExecution

{"domain": "default", "execution": {"workflowId": "w", "runId": "$RUN"}}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}, "identity": "me"}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "ScheduleActivityTask"}]}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "executionContext": "c", "decisions": [{"decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {"activityType": {"name": "charge", "version": "1"}, "activityId": "a", "input": "x", "taskPriority": "1"}}, {"decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {"activityType": {"name": "charge", "version": "1"}, "activityId": "b", "input": "x", "taskPriority": "1"}}, {"decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {"activityType": {"name": "charge", "version": "1"}, "activityId": "c", "input": "x", "taskPriority": "1"}}]}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN"}
---
SWF PollForActivityTask
@$A = taskToken

{"domain": "default", "taskList": {"name": "runners"}, "identity": "r"}
---
SWF PollForActivityTask
@$B = taskToken

{"domain": "default", "taskList": {"name": "runners"}}
---
SWF PollForActivityTask
@$C = taskToken

{"domain": "default", "taskList": {"name": "runners"}}
---
SWF RecordActivityTaskHeartbeat

{"taskToken": "$A", "details": "d"}
---
SWF RespondActivityTaskCompleted

{"taskToken": "$A", "result": "r"}
---
SWF RespondActivityTaskCompleted

{"taskToken": "$A", "result": "r"}
---
SWF RespondActivityTaskFailed

{"taskToken": "$B", "reason": "why", "details": "d"}
---
SWF RespondActivityTaskCanceled

{"taskToken": "$C"}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}, "startAtPreviousStartedEvent": true}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "RequestCancelActivityTask", "requestCancelActivityTaskDecisionAttributes": {"activityId": "c"}}]}
---
SWF RecordActivityTaskHeartbeat

{"taskToken": "$C"}
---
SWF RespondActivityTaskCanceled

{"taskToken": "$C", "details": "d"}
---
SWF RequestCancelWorkflowExecution

{"domain": "default", "workflowId": "w", "runId": "$RUN"}
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "w", "runId": "$RUN"}}
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "w", "runId": "$RUN"}, "maximumPageSize": 2, "reverseOrder": true}
---
SWF ListOpenWorkflowExecutions

{"domain": "default", "startTimeFilter": {"oldestDate": 0}}
---
SWF CountOpenWorkflowExecutions

{"domain": "default", "startTimeFilter": {"oldestDate": 0}}
---
SWF TerminateWorkflowExecution

{"domain": "default", "workflowId": "w", "childPolicy": "REQUEST_CANCEL", "reason": "r", "details": "d"}
---
SWF TerminateWorkflowExecution

{"domain": "default", "workflowId": "w"}
---
SWF ListClosedWorkflowExecutions

{"domain": "default", "closeTimeFilter": {"oldestDate": 0}}
---
SWF ListClosedWorkflowExecutions

{"domain": "default", "closeTimeFilter": {"oldestDate": 0}, "closeStatusFilter": {"status": "FAILED"}}
---
SWF CountClosedWorkflowExecutions

{"domain": "default", "closeTimeFilter": {"oldestDate": 0}}
---
SWF DescribeWorkflowExecution

{"domain": "default", "execution": {"workflowId": "w", "runId": "$RUN"}}
---
SWF Dance

{}
