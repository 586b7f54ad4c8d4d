// The view of the future: the deadlines of a run in order, and what can wake it up.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { get } from '../api';
import { type Deadline, consequenceOf, deadlinesOf } from '../deadlines';
import type { Schemas } from '../fold';
import { behindOf } from '../limits';
import { type TaskList, polledBy } from '../lists';
import { domainPath } from '../paths';
import { now } from '../state';
import { duration, exactTime } from '../time';
import { Empty, Name, Time, Since } from '../ui';
import { type Described, triesOf } from '../words';
import type { Shown } from './shown';

export function Future(shown: Shown): JSX.Element {
  const { state, isPast } = shown;
  const described = shown.run.described.value;
  const deadlines: Deadline[] =
    isPast || !described
      ? deadlinesOf(state)
      : described.deadlines.map(({ at, kind, name, scheduledEventId }) => ({
          at: Date.parse(at),
          kind,
          ...(name ? { name } : {}),
          ...(scheduledEventId ? { eventId: scheduledEventId } : {}),
        }));
  const from = isPast ? state.at : now.value;
  return (
    <div class="future">
      <h2>Scheduled deadlines{isPast ? `, as of event ${state.asOf}` : ''}</h2>
      {deadlines.length === 0 ? (
        <Empty>
          {state.closed
            ? 'None: the run has closed.'
            : state.paused?.stopClocks
              ? 'None while the run is paused: its timers and timeouts are stopped.'
              : 'None.'}
        </Empty>
      ) : (
        <ol class="deadlines">
          {deadlines.map((deadline) => {
            const { event, then } = consequenceOf(deadline);
            const left = deadline.at - from;
            const names = /^activity|timer/.test(deadline.kind);
            return (
              <li key={`${deadline.kind}${deadline.eventId ?? ''}`} class={left < 60_000 ? 'soon' : ''}>
                <span class="left" title={exactTime(deadline.at)}>
                  {left > 0 ? `in ${duration(Math.ceil(left / 1000) * 1000)}` : 'now'}
                </span>
                <span class="dot" aria-hidden="true" />
                <span class="what">
                  <b>{event === 'no event' ? then : event}</b>
                  {deadline.name && names ? (
                    <>
                      {' '}
                      of{' '}
                      {deadline.eventId === undefined ? (
                        <Name>{deadline.name}</Name>
                      ) : (
                        <button type="button" class="link" onClick={() => shown.select(deadline.eventId ?? 0)}>
                          <Name>{deadline.name}</Name>
                        </button>
                      )}
                    </>
                  ) : null}
                  {event === 'no event' || then === '' ? null : <>, then {then}</>}
                  <span class="quieter"> · {deadline.kind.replace(/-/g, ' ')}</span>
                </span>
              </li>
            );
          })}
        </ol>
      )}
      {isPast || !described || state.closed ? null : <Unblock described={described} shown={shown} />}
      {isPast && !state.closed ? (
        <p class="quieter">
          Computed from the history, which does not contain attempts of open activities with a retry policy.
        </p>
      ) : null}
    </div>
  );
}

/** Maximum number of task lists that are read for one run. Our choice. */
const LISTS_LOOKED_AT = 8;

/**
 * Returns the status of the task lists on which tasks of a run wait. Reads it again when a list gains or loses its
 * pollers.
 */
function useLists(described: Described, domain: string): TaskList[] {
  const [lists, setLists] = useState<TaskList[]>([]);
  const waiting = described.openActivities.filter((one) => !one.paused && !one.startedAt && !one.nextAttemptAt);
  const names = [...(described.turn === 'waiting' ? [described.taskList] : []), ...waiting.map((one) => one.taskList)];
  const wanted = JSON.stringify([[...new Set(names)].slice(0, LISTS_LOOKED_AT), described.noPollers ?? []]);
  useEffect(() => {
    const stop = new AbortController();
    const [wantedNames] = JSON.parse(wanted) as [string[]];
    const ask = (name: string): Promise<TaskList[]> =>
      get<Schemas['ListedTaskLists']>(`${domainPath(domain)}/task-lists/${encodeURIComponent(name)}`, stop.signal).then(
        ({ taskLists }) => taskLists,
      );
    // If reading fails, the view shows what the run waits for without the status of the lists.
    Promise.all(wantedNames.map(ask)).then(
      (found) => setLists(found.flat()),
      () => undefined,
    );
    return () => stop.abort();
  }, [domain, wanted]);
  return lists;
}

/** Shows the limits that hold a task back. */
function Behind({ words }: { words: string }): JSX.Element | null {
  if (!words) return null;
  return (
    <span class="warn">
      {' '}
      · <Name>{words}</Name>
    </span>
  );
}

function Unblock({ described, shown }: { described: Described; shown: Shown }): JSX.Element {
  const unpolled = new Map((described.noPollers ?? []).map((list) => [`${list.decider}${list.taskList}`, list]));
  const lists = useLists(described, shown.run.domain);
  const who: JSX.Element[] = [];
  const polled = (list: string, decider: boolean): JSX.Element => {
    const nobody = unpolled.get(`${decider}${list}`);
    const known = lists.find((one) => one.name === list && (one.kind === 'decider') === decider);
    const before = known && known.waiting > 1 ? `; ${known.waiting - 1} other tasks waiting` : '';
    if (nobody)
      return (
        <span class="warn">
          no pollers <Since at={nobody.since} />
          {before}
        </span>
      );
    if (!known) return <span class="quieter">has pollers</span>;
    const names = (known.pollers ?? []).filter((one) => one.polls > 0).map((one) => one.identity ?? one.by ?? '');
    return (
      <span class="quieter">
        {polledBy(known, now.value) || 'has pollers'}
        {names.filter(Boolean).length > 0 ? (
          <>
            {': '}
            {names
              .filter(Boolean)
              .slice(0, 3)
              .map((name, index) => (
                <span key={name}>
                  {index > 0 ? ', ' : ''}
                  <Name>{name}</Name>
                </span>
              ))}
          </>
        ) : null}
        {before}
      </span>
    );
  };
  if (described.paused)
    who.push(
      <li key="paused">
        <b>an operator</b> who resumes the run
      </li>,
    );
  if (described.turn === 'waiting')
    who.push(
      <li key="turn">
        <b>a decider</b> of the task list <Name>{described.taskList}</Name>: {polled(described.taskList, true)}
        <Behind words={behindOf(described.behind, described.taskList)} />
      </li>,
    );
  if (described.turn === 'started')
    who.push(
      <li key="turn">
        <b>the decider</b> that has the turn
      </li>,
    );
  for (const one of described.openActivities.slice(0, 100)) {
    who.push(
      <li key={one.scheduledEventId}>
        {one.paused ? (
          <>
            <b>an operator</b> who retries, completes or fails{' '}
          </>
        ) : one.startedAt ? (
          <>
            <b>the runner</b> {one.identity ? <Name>{one.identity}</Name> : null} that has{' '}
          </>
        ) : one.nextAttemptAt ? (
          <>
            <b>a runner</b> of the task list <Name>{one.taskList}</Name>, after the retry interval, for{' '}
          </>
        ) : (
          <>
            <b>a runner</b> of the task list <Name>{one.taskList}</Name> ({polled(one.taskList, false)}), for{' '}
          </>
        )}
        activity{' '}
        <button type="button" class="link" onClick={() => shown.select(one.scheduledEventId)}>
          <Name>{one.activityId}</Name>
        </button>
        <span class="quieter">
          {' '}
          · {triesOf(one)}
          {one.nextAttemptAt ? (
            <>
              , next <Time at={one.nextAttemptAt} />
            </>
          ) : null}
          {one.lastFailure ? (
            <>
              , last failure <Name>{one.lastFailure.reason ?? one.lastFailure.timeout ?? ''}</Name>
            </>
          ) : null}
          {one.lastHeartbeatAt ? (
            <>
              , heartbeat <Time at={one.lastHeartbeatAt} />
            </>
          ) : null}
        </span>
        <Behind words={behindOf(one.behind, one.taskList)} />
      </li>,
    );
  }
  for (const child of described.openChildren.slice(0, 100)) {
    who.push(
      <li key={child.scheduledEventId}>
        <b>the child</b>{' '}
        <button type="button" class="link" onClick={() => shown.select(child.scheduledEventId)}>
          <Name>{child.workflowId}</Name>
        </button>
        , by closing
      </li>,
    );
  }
  for (const name of described.awaiting) {
    who.push(
      <li key={`s${name}`}>
        {name === 'baton.cancel' ? (
          <>
            <b>a cancel request</b>
          </>
        ) : (
          <>
            <b>the signal</b>{' '}
            <span class="tag">
              <Name>{name}</Name>
            </span>
          </>
        )}
      </li>,
    );
  }
  if (described.stuck)
    who.push(
      <li key="stuck">
        <b>a signal</b>; its decider has not declared which one it awaits
      </li>,
    );
  return (
    <>
      <h2>What can wake it up</h2>
      {who.length === 0 ? <Empty>Only the deadlines above.</Empty> : <ul class="who">{who}</ul>}
    </>
  );
}
