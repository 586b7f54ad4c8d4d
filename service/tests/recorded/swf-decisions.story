SWF RegisterWorkflowType

{"domain": "default", "name": "order", "version": "1", "defaultTaskStartToCloseTimeout": "60", "defaultExecutionStartToCloseTimeout": "3600", "defaultTaskList": {"name": "deciders"}, "defaultChildPolicy": "REQUEST_CANCEL", "defaultLambdaRole": "arn:aws:iam::1:role/r"}
---
SWF RegisterActivityType

{"domain": "default", "name": "charge", "version": "1", "defaultTaskStartToCloseTimeout": "60", "defaultTaskHeartbeatTimeout": "NONE", "defaultTaskScheduleToStartTimeout": "60", "defaultTaskScheduleToCloseTimeout": "120", "defaultTaskList": {"name": "runners"}}
---
SWF RegisterActivityType

{"domain": "default", "name": "bare", "version": "1"}
---
SWF StartWorkflowExecution
@$RUN = runId

{"domain": "default", "workflowId": "w", "workflowType": {"name": "order", "version": "1"}, "input": "in"}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "StartTimer", "startTimerDecisionAttributes": {"timerId": "t", "startToFireTimeout": "5", "control": "c"}}, {"decisionType": "StartTimer", "startTimerDecisionAttributes": {"timerId": "t", "startToFireTimeout": "5"}}, {"decisionType": "StartTimer", "startTimerDecisionAttributes": {"timerId": "u", "startToFireTimeout": "500"}}, {"decisionType": "CancelTimer", "cancelTimerDecisionAttributes": {"timerId": "u"}}, {"decisionType": "CancelTimer", "cancelTimerDecisionAttributes": {"timerId": "v"}}, {"decisionType": "RecordMarker", "recordMarkerDecisionAttributes": {"markerName": "m", "details": "d"}}, {"decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {"activityType": {"name": "charge", "version": "1"}, "activityId": "a"}}, {"decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {"activityType": {"name": "charge", "version": "1"}, "activityId": "a"}}, {"decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {"activityType": {"name": "none", "version": "1"}, "activityId": "x"}}, {"decisionType": "ScheduleActivityTask", "scheduleActivityTaskDecisionAttributes": {"activityType": {"name": "bare", "version": "1"}, "activityId": "y"}}, {"decisionType": "RequestCancelActivityTask", "requestCancelActivityTaskDecisionAttributes": {"activityId": "zz"}}, {"decisionType": "SignalExternalWorkflowExecution", "signalExternalWorkflowExecutionDecisionAttributes": {"workflowId": "o", "signalName": "s", "input": "i", "control": "c"}}, {"decisionType": "RequestCancelExternalWorkflowExecution", "requestCancelExternalWorkflowExecutionDecisionAttributes": {"workflowId": "o", "control": "c"}}, {"decisionType": "StartChildWorkflowExecution", "startChildWorkflowExecutionDecisionAttributes": {"workflowId": "child", "workflowType": {"name": "order", "version": "1"}, "taskList": {"name": "children"}, "input": "i", "control": "c"}}, {"decisionType": "StartChildWorkflowExecution", "startChildWorkflowExecutionDecisionAttributes": {"workflowId": "child2", "workflowType": {"name": "none", "version": "1"}}}, {"decisionType": "ScheduleLambdaFunction", "scheduleLambdaFunctionDecisionAttributes": {"id": "l", "name": "f", "input": "i", "startToCloseTimeout": "5"}}]}
---
wait PT6S
---
wait PT6S
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "w", "runId": "$RUN"}}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "RequestCancelActivityTask", "requestCancelActivityTaskDecisionAttributes": {"activityId": "a"}}]}
---
wait PT61S
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "CompleteWorkflowExecution", "completeWorkflowExecutionDecisionAttributes": {"result": "r"}}]}
---
wait PT1S
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "w", "runId": "$RUN"}}
---
SWF StartWorkflowExecution
@$RUN = runId

{"domain": "default", "workflowId": "f", "workflowType": {"name": "order", "version": "1"}, "input": "in"}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "FailWorkflowExecution", "failWorkflowExecutionDecisionAttributes": {"reason": "r", "details": "d"}}]}
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "f", "runId": "$RUN"}}
---
SWF StartWorkflowExecution
@$RUN = runId

{"domain": "default", "workflowId": "x", "workflowType": {"name": "order", "version": "1"}, "input": "in"}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "CancelWorkflowExecution", "cancelWorkflowExecutionDecisionAttributes": {"details": "d"}}]}
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "x", "runId": "$RUN"}}
---
SWF StartWorkflowExecution
@$RUN = runId

{"domain": "default", "workflowId": "n", "workflowType": {"name": "order", "version": "1"}, "input": "in"}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "ContinueAsNewWorkflowExecution", "continueAsNewWorkflowExecutionDecisionAttributes": {"input": "i", "tagList": ["t"]}}]}
---
wait PT1S
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "n", "runId": "$RUN"}}
---
SWF ListOpenWorkflowExecutions

{"domain": "default", "startTimeFilter": {"oldestDate": 0}}
---
SWF StartWorkflowExecution
@$RUN = runId

{"domain": "default", "workflowId": "twice", "workflowType": {"name": "order", "version": "1"}, "input": "in"}
---
SWF PollForDecisionTask
@$TURN = taskToken

{"domain": "default", "taskList": {"name": "deciders"}}
---
SWF RespondDecisionTaskCompleted

{"taskToken": "$TURN", "decisions": [{"decisionType": "CompleteWorkflowExecution", "completeWorkflowExecutionDecisionAttributes": {}}, {"decisionType": "RecordMarker", "recordMarkerDecisionAttributes": {"markerName": "m"}}]}
---
wait PT61S
---
SWF GetWorkflowExecutionHistory

{"domain": "default", "execution": {"workflowId": "twice", "runId": "$RUN"}}
---
wait PT2H
---
SWF ListClosedWorkflowExecutions

{"domain": "default", "closeTimeFilter": {"oldestDate": 0}}
