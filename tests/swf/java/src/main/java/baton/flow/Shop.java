package baton.flow;

import com.amazonaws.services.simpleworkflow.flow.annotations.Activities;
import com.amazonaws.services.simpleworkflow.flow.annotations.ActivityRegistrationOptions;
import com.amazonaws.services.simpleworkflow.flow.annotations.ExponentialRetry;

/** Activities. */
@Activities(version = "1.0")
@ActivityRegistrationOptions(defaultTaskScheduleToStartTimeoutSeconds = 60, defaultTaskStartToCloseTimeoutSeconds = 60)
public interface Shop {
    int price(String item);

    /** Fails twice, then succeeds: the framework schedules it again. */
    @ExponentialRetry(initialRetryIntervalSeconds = 1, backoffCoefficient = 1, maximumAttempts = 5)
    String charge(String order, int amount);

    /** Works until it is asked to cancel. */
    String deliver(String order);

    String cleanUp(String order);
}
