package baton.flow;

import com.amazonaws.services.simpleworkflow.flow.annotations.Asynchronous;
import com.amazonaws.services.simpleworkflow.flow.core.Promise;
import com.amazonaws.services.simpleworkflow.flow.core.Settable;
import com.amazonaws.services.simpleworkflow.flow.core.TryFinally;

public class DeliveryImpl implements Delivery {
    private final ShopClient shop = new ShopClientImpl();
    private final Settable<String> hurried = new Settable<>();

    @Override
    public Promise<String> deliver(String order, String kind) {
        if (kind.equals("letter")) {
            return said(kind, hurried);
        }
        Settable<String> outcome = new Settable<>();
        new TryFinally() {
            @Override
            protected void doTry() {
                outcome.chain(shop.deliver(order));
            }

            @Override
            protected void doFinally() {
                shop.cleanUp(order);
            }
        };
        return outcome;
    }

    @Asynchronous
    private Promise<String> said(String kind, Promise<String> by) {
        return Promise.asPromise(kind + " for " + by.get());
    }

    @Override
    public void hurry(String by) {
        hurried.set(by);
    }
}
