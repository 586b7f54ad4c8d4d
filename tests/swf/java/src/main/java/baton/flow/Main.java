package baton.flow;

import com.amazonaws.ClientConfiguration;
import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.simpleworkflow.AmazonSimpleWorkflow;
import com.amazonaws.services.simpleworkflow.AmazonSimpleWorkflowClientBuilder;
import com.amazonaws.services.simpleworkflow.flow.ActivityWorker;
import com.amazonaws.services.simpleworkflow.flow.WorkflowWorker;
import com.amazonaws.services.simpleworkflow.model.DescribeWorkflowExecutionRequest;
import com.amazonaws.services.simpleworkflow.model.GetWorkflowExecutionHistoryRequest;
import com.amazonaws.services.simpleworkflow.model.HistoryEvent;
import com.amazonaws.services.simpleworkflow.model.RegisterDomainRequest;
import com.amazonaws.services.simpleworkflow.model.RequestCancelWorkflowExecutionRequest;
import com.amazonaws.services.simpleworkflow.model.WorkflowExecution;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Collectors;

/** Runs the workers and the starter of a program in one process, and checks the resulting histories. */
public final class Main {
    private static final String DOMAIN = "flow";
    private static final String LIST = "flow";
    /** Time limit of each wait, in milliseconds. Long enough for a busy machine. */
    private static final long PATIENCE_MS = 180_000;

    /** Logger of the framework. This reference keeps it alive, because an unreferenced logger loses its level. */
    private static final Logger FRAMEWORK = Logger.getLogger("com.amazonaws.services.simpleworkflow.flow.worker");
    /** Logger of failed activities. This test expects such failures, which would be logged in full detail. */
    private static final Logger FAILURES = Logger.getLogger(FRAMEWORK.getName() + ".ActivityTaskPoller");

    private final AmazonSimpleWorkflow swf;

    private Main(String url) {
        // Longer than a poll, which waits for up to a minute.
        ClientConfiguration patient = new ClientConfiguration().withSocketTimeout(70_000);
        swf = AmazonSimpleWorkflowClientBuilder.standard()
                .withEndpointConfiguration(new EndpointConfiguration(url, "us-east-1"))
                .withCredentials(new AWSStaticCredentialsProvider(new BasicAWSCredentials("x", "x")))
                .withClientConfiguration(patient)
                .build();
    }

    public static void main(String[] args) throws Exception {
        FRAMEWORK.setLevel(Level.WARNING);
        FAILURES.setLevel(Level.OFF);
        // The workers may still wait in polls. The program need not wait for them after it has printed the outcome.
        try {
            new Main(args[0]).run();
        } catch (Throwable problem) {
            problem.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private void run() throws Exception {
        swf.registerDomain(new RegisterDomainRequest().withName(DOMAIN).withWorkflowExecutionRetentionPeriodInDays("1"));
        ActivityWorker activities = new ActivityWorker(swf, DOMAIN, LIST);
        activities.addActivitiesImplementation(new ShopImpl());
        activities.start();
        WorkflowWorker workflows = new WorkflowWorker(swf, DOMAIN, LIST);
        workflows.addWorkflowImplementationType(OrderImpl.class);
        workflows.addWorkflowImplementationType(DeliveryImpl.class);
        workflows.start();
        anOrderGoesOnAsNew();
        aDeliveryIsCanceled();
        System.out.println("2 passed, 0 failed");
    }

    private void anOrderGoesOnAsNew() {
        OrderClientExternal order = new OrderClientExternalFactoryImpl(swf, DOMAIN).getClient("order-1");
        order.order("order-1", 0);
        WorkflowExecution first = order.getWorkflowExecution();
        // The parcel's end is the last thing to happen.
        await("the parcel's end", () -> count(first, "ChildWorkflowExecutionCanceled") == 1);
        order.approve("bob");
        await("the first run's end", () -> closeStatus(first) != null);
        expect("the first run", "CONTINUED_AS_NEW", closeStatus(first));
        expect("its state", "\"by bob; 8 at try 3; letter for ann; canceled\"", latestContext(first));
        expect("tries", 3L, history(first).stream()
                .filter(event -> event.getEventType().equals("ActivityTaskScheduled"))
                .filter(event -> event.getActivityTaskScheduledEventAttributes().getActivityType().getName()
                        .equals("Shop.charge"))
                .count());
        expect("failed tries", 2L, count(first, "ActivityTaskFailed"));
        // Two timers for the pauses before retries, one for the rest, and one for the time until the parcel is
        // canceled.
        expect("timers fired", 4L, count(first, "TimerFired"));
        List<String> children = history(first).stream()
                .filter(event -> event.getEventType().equals("StartChildWorkflowExecutionInitiated"))
                .map(event -> event.getStartChildWorkflowExecutionInitiatedEventAttributes().getWorkflowId())
                .collect(Collectors.toList());
        expect("children", 2, children.size());
        for (String child : children) {
            expect("the name of " + child, true, child.startsWith(first.getRunId() + ":"));
        }
        expect("children signaled", 1L, count(first, "ExternalWorkflowExecutionSignaled"));
        expect("children asked to cancel", 1L, count(first, "ExternalWorkflowExecutionCancelRequested"));
        expect("other failures", List.of(), history(first).stream().map(HistoryEvent::getEventType)
                .filter(kind -> kind.endsWith("Failed") && !kind.equals("ActivityTaskFailed"))
                .collect(Collectors.toList()));
        HistoryEvent last = last(first);
        String next = last.getWorkflowExecutionContinuedAsNewEventAttributes().getNewExecutionRunId();
        WorkflowExecution second = new WorkflowExecution().withWorkflowId("order-1").withRunId(next);
        await("the second run's end", () -> closeStatus(second) != null);
        expect("the second run", "COMPLETED", closeStatus(second));
        expect("its result", "\"round 1 of order-1\"",
                last(second).getWorkflowExecutionCompletedEventAttributes().getResult());
    }

    private void aDeliveryIsCanceled() {
        // The framework gives children such ids with a colon, so callers may use them, too.
        String id = "anybody:1";
        DeliveryClientExternal delivery = new DeliveryClientExternalFactoryImpl(swf, DOMAIN).getClient(id);
        delivery.deliver("order-2", "parcel");
        WorkflowExecution run = delivery.getWorkflowExecution();
        await("the activity", () -> count(run, "ActivityTaskStarted") == 1);
        swf.requestCancelWorkflowExecution(
                new RequestCancelWorkflowExecutionRequest().withDomain(DOMAIN).withWorkflowId(id));
        await("its end", () -> closeStatus(run) != null);
        expect("the delivery", "CANCELED", closeStatus(run));
        expect("activities asked to cancel", 1L, count(run, "ActivityTaskCancelRequested"));
        expect("activities canceled", 1L, count(run, "ActivityTaskCanceled"));
        expect("activities done", 1L, count(run, "ActivityTaskCompleted"));
    }

    private List<HistoryEvent> history(WorkflowExecution run) {
        return swf.getWorkflowExecutionHistory(
                new GetWorkflowExecutionHistoryRequest().withDomain(DOMAIN).withExecution(run)).getEvents();
    }

    private HistoryEvent last(WorkflowExecution run) {
        List<HistoryEvent> events = history(run);
        return events.get(events.size() - 1);
    }

    private long count(WorkflowExecution run, String kind) {
        return history(run).stream().filter(event -> event.getEventType().equals(kind)).count();
    }

    private String closeStatus(WorkflowExecution run) {
        return swf.describeWorkflowExecution(
                new DescribeWorkflowExecutionRequest().withDomain(DOMAIN).withExecution(run))
                .getExecutionInfo().getCloseStatus();
    }

    private String latestContext(WorkflowExecution run) {
        return swf.describeWorkflowExecution(
                new DescribeWorkflowExecutionRequest().withDomain(DOMAIN).withExecution(run))
                .getLatestExecutionContext();
    }

    private static void await(String what, Supplier<Boolean> isSo) {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!isSo.get()) {
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("waited in vain for " + what);
            }
            try {
                Thread.sleep(100);
            } catch (InterruptedException interrupted) {
                throw new AssertionError(interrupted);
            }
        }
    }

    private static void expect(String what, Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError(what + ": expected " + expected + ", found " + found);
        }
        System.out.println("ok: " + what + ": " + found);
    }
}
