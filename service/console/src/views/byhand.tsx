// An open activity: its attempts, its last failure, and the actions for it.
import type { JSX } from 'preact';
import { type Activity, actionsOfActivity, retryOf } from '../actions';
import type { Event } from '../fold';
import { behindOf } from '../limits';
import { rawOf } from '../raw';
import { Name, Payload, Time } from '../ui';
import { type Described, triesOf } from '../words';
import { Actions } from './act';

export function ByHand({
  domain,
  run,
  activity,
  events,
}: {
  domain: string;
  run: Described;
  activity: Activity;
  /** Loaded events of the run. */
  events: readonly Event[];
}): JSX.Element {
  const { lastFailure, paused, nextAttemptAt, startedAt, lastHeartbeatAt, identity, by } = activity;
  const failure = lastFailure?.reason ?? lastFailure?.timeout;
  return (
    <details class="by-hand" open={paused != null}>
      <summary>
        {triesOf(activity)}
        {failure ? (
          <>
            {' '}
            · failed: <Name>{failure}</Name>
          </>
        ) : null}
      </summary>
      <p class="quieter">
        {startedAt ? (
          <>
            started <Time at={startedAt} />
            {identity ? (
              <>
                {' '}
                by <Name>{identity}</Name>
              </>
            ) : null}
            {by ? (
              <>
                {' '}
                (credential <Name>{by}</Name>)
              </>
            ) : null}
          </>
        ) : nextAttemptAt ? (
          <>
            next attempt <Time at={nextAttemptAt} />
          </>
        ) : paused ? (
          'paused; not available to runners'
        ) : (
          behindOf(activity.behind, activity.taskList) || 'waiting for a runner'
        )}
        {lastHeartbeatAt ? (
          <>
            {' '}
            · last heartbeat <Time at={lastHeartbeatAt} />
          </>
        ) : null}
      </p>
      {activity.heartbeatDetails === undefined ? null : (
        <Payload name="heartbeat" json={rawOf(activity, 'heartbeatDetails')} />
      )}
      {lastFailure?.details === undefined ? null : <Payload name="last failure" json={rawOf(lastFailure, 'details')} />}
      <Actions
        actions={actionsOfActivity(domain, run, activity, retryOf(events, activity.scheduledEventId))}
        domain={domain}
        label={`Actions for ${activity.activityId}`}
      />
    </details>
  );
}
