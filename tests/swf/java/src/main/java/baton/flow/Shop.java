package baton.flow;

import com.amazonaws.services.simpleworkflow.flow.annotations.Activities;
import com.amazonaws.services.simpleworkflow.flow.annotations.ActivityRegistrationOptions;
import com.amazonaws.services.simpleworkflow.flow.annotations.ExponentialRetry;

/** Activities of an order. */
@Activities(version = "1.0")
@ActivityRegistrationOptions(defaultTaskScheduleToStartTimeoutSeconds = 60, defaultTaskStartToCloseTimeoutSeconds = 60)
public interface Shop {
    int price(String item);

    /** Fails twice and then succeeds. The framework schedules each retry. */
    @ExponentialRetry(initialRetryIntervalSeconds = 1, backoffCoefficient = 1, maximumAttempts = 5)
    String charge(String order, int amount);

    /** Works until its cancellation is requested. */
    String deliver(String order);

    String cleanUp(String order);
}
