// The page of schedules: the next times and the last runs of each schedule.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Problem, get, problemOf } from '../api';
import type { Schemas } from '../fold';
import { domainPath } from '../paths';
import { useReading } from '../reading';
import { pathOf } from '../route';
import { now } from '../state';
import { exactTime, relative } from '../time';
import { actionsOfSchedule } from '../manage';
import { rawOf } from '../raw';
import { Empty, Name, Payload, Refresh, Time, Trouble } from '../ui';
import { Actions } from './act';

/** Number of times and of actions that are shown for each schedule. Our choice. */
const NEXT = 10;
const LAST = 10;

export function Schedules({ domain, scheduleId }: { domain: string; scheduleId: string | undefined }): JSX.Element {
  const { value, problem, refresh, times } = useReading(domain, (signal) =>
    get<Schemas['Schedules']>(`${domainPath(domain)}/schedules`, signal),
  );
  const list = value?.schedules;
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>Schedules</h1>
        <span class="grow" />
        <Refresh refresh={refresh} />
      </div>
      <Trouble problem={problem} />
      {list?.length === 0 ? (
        <Empty>
          No schedules. Create one with <code>baton schedule create</code>.
        </Empty>
      ) : null}
      <div class="schedules">
        {(list ?? []).map((one) => (
          <section
            key={one.scheduleId}
            data-row
            tabIndex={-1}
            class={`card schedule${one.scheduleId === scheduleId ? ' chosen' : ''}`}
          >
            <header>
              <h2>
                <a href={pathOf({ page: 'schedules', domain, scheduleId: one.scheduleId })}>
                  <Name>{one.scheduleId}</Name>
                </a>
              </h2>
              <span class="meta">
                <span>
                  starts <Name>{one.workflowType}</Name>
                </span>
                {one.paused ? <span class="warn">paused</span> : null}
                <span>
                  created <Time at={one.createdAt} />
                </span>
              </span>
            </header>
            <Details domain={domain} id={one.scheduleId} times={times} />
            <Actions
              actions={actionsOfSchedule(domain, one.scheduleId, one.paused)}
              domain={domain}
              label={`Actions for ${one.scheduleId}`}
              done={refresh}
            />
          </section>
        ))}
      </div>
    </main>
  );
}

/** Details of a schedule. They are read again each time the list is read. */
function Details({ domain, id, times }: { domain: string; id: string; times: number }): JSX.Element | null {
  const [one, setOne] = useState<Schemas['DescribedSchedule']>();
  const [next, setNext] = useState<string[]>([]);
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    const stop = new AbortController();
    const path = `${domainPath(domain)}/schedules/${encodeURIComponent(id)}`;
    Promise.all([
      get<Schemas['DescribedSchedule']>(path, stop.signal),
      get<Schemas['NextTimes']>(`${path}/next?limit=${NEXT}`, stop.signal),
    ]).then(
      ([described, { times }]) => {
        setOne(described);
        setNext(times);
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setProblem(problemOf(error));
      },
    );
    return () => stop.abort();
  }, [domain, id, times]);
  if (!one) return <Trouble problem={problem} />;
  const { totals } = one;
  return (
    <>
      <p class="reason">
        {one.pausedAt
          ? `Paused ${relative(Date.parse(one.pausedAt), now.value)}${one.pauseReason ? `: ${one.pauseReason}` : ''}. `
          : ''}
        {one.schedule.note ?? ''}
      </p>
      <div class="columns two">
        <div>
          <h3>{one.pausedAt ? 'next times, if it were not paused' : 'next times'}</h3>
          <ol class="plain next-times">
            {next.length === 0 ? (
              <li class="quieter">none</li>
            ) : (
              next.map((at) => (
                <li key={at} class="time">
                  {exactTime(Date.parse(at)).slice(0, 19)}{' '}
                  <span class="quieter">{relative(Date.parse(at), now.value)}</span>
                </li>
              ))
            )}
          </ol>
        </div>
        <div>
          <h3>recent actions</h3>
          <ol class="plain">
            {one.recentActions.length === 0 ? (
              <li class="quieter">none yet</li>
            ) : (
              one.recentActions.slice(0, LAST).map((action) => (
                <li key={action.action}>
                  <Time at={action.at} /> {action.outcome}
                  {action.cause === 'time' ? '' : `, ${action.cause}`}{' '}
                  {action.workflowId && action.runId ? (
                    <a
                      href={pathOf({
                        page: 'run',
                        domain,
                        workflowId: action.workflowId,
                        runId: action.runId,
                        view: 'turns',
                      })}
                    >
                      <Name>{action.workflowId}</Name>
                    </a>
                  ) : (
                    (action.refusal ?? '')
                  )}
                </li>
              ))
            )}
          </ol>
          <p class="quieter">
            {totals.started} started, {totals.skipped} skipped, {totals.missed} missed, {totals.refused} refused;{' '}
            {one.running} running, {one.waiting} waiting
          </p>
        </div>
      </div>
      <details>
        <summary>definition</summary>
        <Payload json={rawOf(one, 'schedule')} />
      </details>
    </>
  );
}
