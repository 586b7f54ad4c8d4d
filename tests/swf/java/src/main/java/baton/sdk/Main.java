package baton.sdk;

import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.swf.SwfClient;
import software.amazon.awssdk.services.swf.model.ActivityType;
import software.amazon.awssdk.services.swf.model.ChildPolicy;
import software.amazon.awssdk.services.swf.model.Decision;
import software.amazon.awssdk.services.swf.model.DecisionType;
import software.amazon.awssdk.services.swf.model.EventType;
import software.amazon.awssdk.services.swf.model.HistoryEvent;
import software.amazon.awssdk.services.swf.model.PollForActivityTaskResponse;
import software.amazon.awssdk.services.swf.model.PollForDecisionTaskResponse;
import software.amazon.awssdk.services.swf.model.TaskList;
import software.amazon.awssdk.services.swf.model.UnknownResourceException;
import software.amazon.awssdk.services.swf.model.WorkflowExecution;
import software.amazon.awssdk.services.swf.model.WorkflowType;

/** A workflow with one activity and a signal, only with the SDK's second generation. The decider is a loop. */
public final class Main {
    private static final String DOMAIN = "sdk-2";
    private static final TaskList LIST = TaskList.builder().name("sdk-2").build();
    private static final WorkflowType ORDER = WorkflowType.builder().name("order").version("1").build();
    private static final ActivityType CHARGE = ActivityType.builder().name("charge").version("1").build();

    private Main() {}

    public static void main(String[] args) {
        try (SwfClient swf = client(args[0])) {
            run(swf);
        }
    }

    private static SwfClient client(String url) {
        // Longer than a poll, which waits for up to a minute.
        return SwfClient.builder()
                .endpointOverride(URI.create(url))
                .region(Region.US_EAST_1)
                .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("x", "x")))
                .httpClient(UrlConnectionHttpClient.builder().socketTimeout(Duration.ofSeconds(70)).build())
                .build();
    }

    private static void run(SwfClient swf) {
        swf.registerDomain(it -> it.name(DOMAIN).workflowExecutionRetentionPeriodInDays("1"));
        swf.registerWorkflowType(it -> it.domain(DOMAIN).name(ORDER.name()).version(ORDER.version()));
        swf.registerActivityType(it -> it.domain(DOMAIN).name(CHARGE.name()).version(CHARGE.version()));
        String runId = swf.startWorkflowExecution(it -> it.domain(DOMAIN)
                        .workflowId("order-1")
                        .workflowType(ORDER)
                        .taskList(LIST)
                        .input("42")
                        .childPolicy(ChildPolicy.TERMINATE)
                        .executionStartToCloseTimeout("3600")
                        .taskStartToCloseTimeout("60"))
                .runId();

        decide(swf, Decision.builder()
                .decisionType(DecisionType.SCHEDULE_ACTIVITY_TASK)
                .scheduleActivityTaskDecisionAttributes(it -> it.activityType(CHARGE)
                        .activityId("charge-1")
                        .taskList(LIST)
                        .input("42")
                        .scheduleToStartTimeout("60")
                        .startToCloseTimeout("60")
                        .scheduleToCloseTimeout("120")
                        .heartbeatTimeout("NONE"))
                .build());
        PollForActivityTaskResponse task = swf.pollForActivityTask(it -> it.domain(DOMAIN).taskList(LIST));
        is("the activity's input", task.input(), "42");
        is("nobody cancels", swf.recordActivityTaskHeartbeat(it -> it.taskToken(task.taskToken())).cancelRequested(), false);
        swf.respondActivityTaskCompleted(it -> it.taskToken(task.taskToken()).result("charged"));
        swf.signalWorkflowExecution(
                it -> it.domain(DOMAIN).workflowId("order-1").runId(runId).signalName("go").input("now"));
        decide(swf, Decision.builder()
                .decisionType(DecisionType.COMPLETE_WORKFLOW_EXECUTION)
                .completeWorkflowExecutionDecisionAttributes(it -> it.result("done"))
                .build());

        WorkflowExecution order = WorkflowExecution.builder().workflowId("order-1").runId(runId).build();
        String closed = swf.describeWorkflowExecution(it -> it.domain(DOMAIN).execution(order))
                .executionInfo()
                .closeStatusAsString();
        is("how it ended", closed, "COMPLETED");
        // The SDK's paginator reads the history in pages of three events.
        List<EventType> types = swf.getWorkflowExecutionHistoryPaginator(
                        it -> it.domain(DOMAIN).execution(order).maximumPageSize(3))
                .events()
                .stream()
                .map(HistoryEvent::eventType)
                .toList();
        for (EventType wanted : List.of(
                EventType.ACTIVITY_TASK_COMPLETED,
                EventType.WORKFLOW_EXECUTION_SIGNALED,
                EventType.WORKFLOW_EXECUTION_COMPLETED)) {
            is(wanted.toString(), types.stream().filter(wanted::equals).count(), 1L);
        }
        try {
            swf.signalWorkflowExecution(it -> it.domain(DOMAIN).workflowId("nobody").signalName("go"));
            throw new AssertionError("nobody was signaled");
        } catch (UnknownResourceException fault) {
            is("a fault is one of the SDK's own", fault.statusCode(), 400);
        }
    }

    /** Takes the next turn and answers it. */
    private static void decide(SwfClient swf, Decision decision) {
        PollForDecisionTaskResponse turn =
                swf.pollForDecisionTask(it -> it.domain(DOMAIN).taskList(LIST).identity("sdk-2"));
        is("a turn's type", turn.workflowType(), ORDER);
        swf.respondDecisionTaskCompleted(it -> it.taskToken(turn.taskToken()).decisions(decision));
    }

    private static void is(String what, Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(what + ": " + found + ", not " + wanted);
        }
        System.out.println("ok: " + what + ": " + found);
    }
}
