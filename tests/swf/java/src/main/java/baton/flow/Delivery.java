package baton.flow;

import com.amazonaws.services.simpleworkflow.flow.annotations.Execute;
import com.amazonaws.services.simpleworkflow.flow.annotations.Signal;
import com.amazonaws.services.simpleworkflow.flow.annotations.Workflow;
import com.amazonaws.services.simpleworkflow.flow.annotations.WorkflowRegistrationOptions;
import com.amazonaws.services.simpleworkflow.flow.core.Promise;

/** A letter waits to be hurried on; a parcel is on its way until that is canceled, and cleans up. */
@Workflow
@WorkflowRegistrationOptions(defaultExecutionStartToCloseTimeoutSeconds = 600, defaultTaskStartToCloseTimeoutSeconds = 60)
public interface Delivery {
    @Execute(version = "1.0")
    Promise<String> deliver(String order, String kind);

    @Signal
    void hurry(String by);
}
