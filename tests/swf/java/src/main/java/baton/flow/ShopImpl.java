package baton.flow;

import com.amazonaws.services.simpleworkflow.flow.ActivityExecutionContextProvider;
import com.amazonaws.services.simpleworkflow.flow.ActivityExecutionContextProviderImpl;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CancellationException;

public class ShopImpl implements Shop {
    private final ActivityExecutionContextProvider context = new ActivityExecutionContextProviderImpl();
    private final Map<String, Integer> tries = new ConcurrentHashMap<>();

    @Override
    public int price(String item) {
        return item.length();
    }

    @Override
    public String charge(String order, int amount) {
        int attempt = tries.merge(order, 1, Integer::sum);
        if (attempt < 3) {
            throw new IllegalStateException("no answer from the bank");
        }
        return amount + " at try " + attempt;
    }

    @Override
    public String deliver(String order) {
        try {
            while (true) {
                // Throws an exception after the cancellation of the activity was requested.
                context.getActivityExecutionContext().recordActivityHeartbeat("on the way");
                Thread.sleep(100);
            }
        } catch (InterruptedException interrupted) {
            throw new CancellationException();
        }
    }

    @Override
    public String cleanUp(String order) {
        return "cleaned up";
    }
}
