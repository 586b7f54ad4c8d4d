// The panel with the state of a run as of an event: open items, context and input.
import type { JSX } from 'preact';
import type { Activity } from '../actions';
import { duration } from '../time';
import { Name, Payload, useNarrow } from '../ui';
import { behindOf } from '../limits';
import { rawOf } from '../raw';
import { payloadsOf } from '../words';
import { ByHand } from './byhand';
import type { Shown } from './shown';

/** The state of a run as of the slider's event. For the newest event, the description by the service is used. */
export function StatePanel({ shown }: { shown: Shown }): JSX.Element {
  const { state, isPast } = shown;
  const described = isPast ? undefined : shown.run.described.value;
  const narrow = useNarrow(1000);
  const { closed } = state;
  const turn = described ? described.turn : state.turn;
  const left = (at: number): string => (isPast ? `${duration(Math.max(0, at - state.at))} left` : '');
  const activities = described
    ? described.openActivities.map((one): Open => [
        one.activityId,
        one.scheduledEventId,
        `${progressOf(one)} · ${one.taskList}`,
      ])
    : [...state.activities.values()].map((one): Open => [
        one.scheduled.activityId,
        one.scheduled.id,
        `${one.paused ? 'paused' : one.started ? 'running' : 'open'} · ${one.taskList}`,
      ]);
  const timers = described
    ? described.openTimers.map((one): Open => [one.timerId, one.scheduledEventId, ''])
    : [...state.timers.values()].map((one): Open => [one.scheduled.timerId, one.scheduled.id, left(one.at)]);
  const children = described
    ? described.openChildren.map((one): Open => [
        one.workflowId,
        one.scheduledEventId,
        one.startedEventId ? 'open' : 'starting',
      ])
    : [...state.children.values()].map((one): Open => [
        one.scheduled.workflowId,
        one.scheduled.id,
        one.runId ? 'open' : 'starting',
      ]);
  const updates = [...state.updates.values()].map((one): Open => [one.name, one.id, 'accepted']);
  const awaiting = described?.awaiting ?? state.awaiting;
  const title = isPast ? `As of event ${state.asOf}` : 'Current state';
  const parts = (
    <>
      <p class="when">
        {closed ? (
          <>
            closed:{' '}
            <button type="button" class="link" onClick={() => shown.select(closed.id)}>
              {closed.type}
            </button>
          </>
        ) : state.started?.oneActivity ? (
          'a single activity, without a decider'
        ) : turn === 'none' ? (
          'no open turn'
        ) : turn === 'waiting' ? (
          `a turn ${behindOf(described?.behind, described?.taskList ?? '') || 'is waiting for a decider'}`
        ) : (
          'a decider is working on a turn'
        )}
        {state.paused ? ' · paused' : ''}
        {state.cancelRequested && !closed ? ' · cancel requested' : ''}
        {state.failingTurns > 0 ? ` · ${state.failingTurns} turns failed` : ''}
      </p>
      {closed ? null : (
        <>
          {awaiting.length > 0 ? (
            <>
              <h3>awaited signals</h3>
              <p>
                {awaiting.map((name) => (
                  <span key={name} class="tag">
                    <Name>{name}</Name>
                  </span>
                ))}
              </p>
            </>
          ) : null}
          <OpenOnes
            title="activities"
            ones={activities}
            select={shown.select}
            more={(index) => {
              const activity = described?.openActivities[index];
              // The activity's retry policy is read from the history, so the history must be loaded.
              return described && activity && shown.run.row.value.events.length > 0 ? (
                <ByHand
                  domain={shown.run.domain}
                  run={described}
                  activity={activity}
                  events={shown.run.row.value.events}
                />
              ) : null;
            }}
          />
          <OpenOnes title="timers" ones={timers} select={shown.select} />
          <OpenOnes title="children" ones={children} select={shown.select} />
          <OpenOnes title="updates" ones={updates} select={shown.select} />
        </>
      )}
      {state.context !== undefined && state.contextOf !== undefined ? (
        <Payload key={`context${state.asOf}`} name="context" json={rawOf(state.contextOf, 'context')} />
      ) : described?.context !== undefined ? (
        // The event that contains it is not loaded.
        <Payload key={`context${described.version}`} name="context" json={rawOf(described, 'context')} />
      ) : null}
      {state.started && state.started.input !== undefined ? (
        <Payload name="input" json={rawOf(state.started, 'input')} />
      ) : null}
      {closed ? payloadsOf(closed).map(([name, json]) => <Payload key={name} name={name} json={json} />) : null}
    </>
  );
  return narrow ? (
    <details class="panel">
      <summary>{title}: open items, context, input</summary>
      {parts}
    </details>
  ) : (
    <div class="panel">
      <h2>{title}</h2>
      {parts}
    </div>
  );
}

/** Describes what an open activity does or waits for. */
function progressOf(one: Activity): string {
  if (one.paused) return 'paused';
  if (one.startedAt) return 'running';
  if (one.nextAttemptAt) return 'waiting for its next attempt';
  return behindOf(one.behind, one.taskList) || 'waiting';
}

/** Name of an open item, id of the event that began it, and a short description. */
type Open = [string, number, string];
/** Maximum number of open items that are listed. Our choice. */
const OPEN_SHOWN_MAX = 50;

function OpenOnes({
  title,
  ones,
  select,
  more,
}: {
  title: string;
  ones: Open[];
  select: (id: number) => void;
  /** Returns further content to show below an item. */
  more?: (index: number) => JSX.Element | null;
}): JSX.Element | null {
  if (ones.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="plain">
        {ones.slice(0, OPEN_SHOWN_MAX).map(([name, id, word], index) => (
          <li key={id}>
            <button type="button" class="link" onClick={() => select(id)}>
              <Name>{name}</Name>
            </button>{' '}
            <span class="quieter">{word}</span>
            {more?.(index)}
          </li>
        ))}
        {ones.length > OPEN_SHOWN_MAX ? <li class="quieter">and {ones.length - OPEN_SHOWN_MAX} more</li> : null}
      </ul>
    </>
  );
}
