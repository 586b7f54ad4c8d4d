package baton.flow;

import com.amazonaws.services.simpleworkflow.flow.DecisionContextProviderImpl;
import com.amazonaws.services.simpleworkflow.flow.WorkflowClock;
import com.amazonaws.services.simpleworkflow.flow.annotations.Asynchronous;
import com.amazonaws.services.simpleworkflow.flow.core.Promise;
import com.amazonaws.services.simpleworkflow.flow.core.Settable;
import com.amazonaws.services.simpleworkflow.flow.core.TryCatch;
import java.util.concurrent.CancellationException;

public class OrderImpl implements Order {
    private final ShopClient shop = new ShopClientImpl();
    private final DeliveryClientFactory deliveries = new DeliveryClientFactoryImpl();
    private final OrderSelfClient self = new OrderSelfClientImpl();
    private final WorkflowClock clock = new DecisionContextProviderImpl().getDecisionContext().getWorkflowClock();
    private final Settable<String> approved = new Settable<>();
    private String state = "begun";

    @Override
    public Promise<String> order(String id, int round) {
        if (round > 0) {
            return Promise.asPromise("round " + round + " of " + id);
        }
        // Two concurrent activities, a subsequent one that is retried, and a timer.
        Promise<Integer> first = shop.price("tea");
        Promise<Integer> second = shop.price("sugar");
        Promise<String> charged = charge(id, first, second);
        Promise<Void> rested = rest(charged);
        // Two children with ids assigned by the framework. The second one is canceled.
        DeliveryClient letter = deliveries.getClient();
        Promise<String> delivered = letter.deliver(id, "letter", rested);
        hurry(letter, letter.getRunId());
        Promise<String> parcel = canceled(id, rested);
        return goOn(id, approved, charged, delivered, parcel);
    }

    @Asynchronous
    private Promise<String> charge(String id, Promise<Integer> first, Promise<Integer> second) {
        return shop.charge(id, first.get() + second.get());
    }

    @Asynchronous
    private Promise<Void> rest(Promise<?> after) {
        return clock.createTimer(1);
    }

    @Asynchronous
    private void hurry(DeliveryClient letter, Promise<String> started) {
        letter.hurry("ann");
    }

    /** Starts a child and cancels it. Returns the text that the child leaves behind. */
    private Promise<String> canceled(String id, Promise<Void> rested) {
        Settable<String> outcome = new Settable<>();
        DeliveryClient parcel = deliveries.getClient();
        TryCatch scope = new TryCatch() {
            @Override
            protected void doTry() {
                outcome.chain(parcel.deliver(id, "parcel", rested));
            }

            @Override
            protected void doCatch(Throwable e) throws Throwable {
                if (!(e instanceof CancellationException)) {
                    throw e;
                }
                outcome.unchain();
                outcome.set("canceled");
            }
        };
        cancel(scope, rest(parcel.getRunId()));
        return outcome;
    }

    @Asynchronous
    private void cancel(TryCatch scope, Promise<Void> when) {
        scope.cancel(null);
    }

    @Asynchronous
    private Promise<String> goOn(String id, Promise<String> by, Promise<String> charged, Promise<String> delivered,
            Promise<String> parcel) {
        state = String.join("; ", "by " + by.get(), charged.get(), delivered.get(), parcel.get());
        self.order(id, 1);
        return Promise.asPromise(null);
    }

    @Override
    public void approve(String by) {
        state = "approved by " + by;
        approved.set(by);
    }

    @Override
    public String state() {
        return state;
    }
}
