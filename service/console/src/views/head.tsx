// The header of a run, above its views: status, a description, facts, and related runs.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { actionsOfRun, knownIn, resetPointOf } from '../actions';
import { problemOf, request } from '../api';
import type { Run } from '../live';
import { workflowPath } from '../paths';
import { pathOf } from '../route';
import { mayDo } from '../session';
import { anotherLike } from '../starts';
import { now, place } from '../state';
import { duration } from '../time';
import { Badge, Name, Time, Trouble } from '../ui';
import { reasonOf, standingOf } from '../words';
import { Actions, acting } from './act';

/** The header. It is a separate component, because it shows durations and is therefore drawn every second. */
export function Head({ run }: { run: Run }): JSX.Element {
  const described = run.described.value;
  const row = run.row.value;
  const { domain, workflowId } = run;
  // The actions use names, policies and events from the history, so they are shown when the history is loaded.
  const isRead = row.events.length > 0 || run.problem.value !== undefined;
  return (
    <header class="run-head">
      <div class="title">
        {described ? <Badge status={run.connection.value === 'gone' ? 'deleted' : standingOf(described)} /> : null}
        <h1>
          <Name>{workflowId}</Name>
        </h1>
        <Connection run={run} />
      </div>
      {described ? (
        <>
          <p class="reason">
            {run.connection.value === 'gone'
              ? 'This run no longer exists: it was deleted, or its retention has ended. The page shows what was loaded before.'
              : reasonOf(described, row.at(row.last), now.value)}
          </p>
          <Facts
            domain={domain}
            workflowType={described.workflowType}
            taskList={described.taskList}
            startedAt={described.startedAt}
            endedAt={described.closedAt ? Date.parse(described.closedAt) : undefined}
            isOpen={!described.closedAt}
            events={run.lastId.value}
            runId={described.runId}
            tags={described.tags}
          />
          <Family run={run} />
          {run.connection.value === 'gone' || !isRead ? null : <RunActions run={run} />}
        </>
      ) : null}
      <Trouble problem={run.problem.value} />
    </header>
  );
}

interface FactsProps {
  /** Domain in which links search for runs with the same type or tag. Absent for a recorded history. */
  domain?: string;
  workflowType: string;
  taskList: string;
  startedAt: string;
  /** Time of the close, if known. */
  endedAt: number | undefined;
  /** True if the run is open, so that its duration increases. */
  isOpen?: boolean;
  events: number;
  runId: string | undefined;
  tags: readonly string[];
}

export function Facts(facts: FactsProps): JSX.Element {
  const { domain, workflowType, taskList, startedAt, isOpen, events, runId, tags } = facts;
  const end = facts.endedAt ?? (isOpen ? now.value : undefined);
  const others = (name: string, value: string): string | undefined =>
    domain === undefined
      ? undefined
      : `${pathOf({ page: 'runs', domain })}?${new URLSearchParams({ [name]: value }).toString()}`;
  return (
    <dl class="facts">
      <div>
        <dt>type</dt>
        <dd>
          <a href={others('type', workflowType)}>
            <Name>{workflowType}</Name>
          </a>
        </dd>
      </div>
      <div>
        <dt>task list</dt>
        <dd>
          <Name>{taskList}</Name>
        </dd>
      </div>
      <div>
        <dt>started</dt>
        <dd>
          <Time at={startedAt} />
        </dd>
      </div>
      {end === undefined ? null : (
        <div>
          <dt>{isOpen ? 'age' : 'took'}</dt>
          <dd>{duration(end - Date.parse(startedAt))}</dd>
        </div>
      )}
      <div>
        <dt>events</dt>
        <dd>{events.toLocaleString('en')}</dd>
      </div>
      {runId ? (
        <div class="fact-run">
          <dt>run</dt>
          <dd>
            <Name class="mono">{runId}</Name>
          </dd>
        </div>
      ) : null}
      {tags.length > 0 ? (
        <div>
          <dt>tags</dt>
          <dd>
            {tags.map((tag) => (
              <a key={tag} class="tag" href={others('tag', tag)}>
                <Name>{tag}</Name>
              </a>
            ))}
          </dd>
        </div>
      ) : null}
    </dl>
  );
}

function RunActions({ run }: { run: Run }): JSX.Element | null {
  const described = run.described.value;
  if (!described) return null;
  const { query } = place.value;
  const selected = query.get('event') ?? query.get('asof');
  const from = resetPointOf(selected === null ? undefined : Number(selected), run.turns.value, described.oneActivity);
  const known = knownIn(run.row.value.events);
  return (
    <div class="run-actions">
      <Actions actions={actionsOfRun(run.domain, described, from, known)} domain={run.domain} label="Actions" />
      {mayDo('start', run.domain) && !described.oneActivity ? <Another run={run} /> : null}
    </div>
  );
}

/**
 * Starts another run like this one. The first event is read as the service sends it, so that the input is not changed.
 */
function Another({ run }: { run: Run }): JSX.Element {
  const [isReading, setReading] = useState(false);
  const start = async (): Promise<void> => {
    setReading(true);
    try {
      const runId = encodeURIComponent(run.runId ?? '');
      const path = `${workflowPath(run.domain, run.workflowId)}/history?runId=${runId}&limit=1`;
      const answer = await (await request(path)).text();
      acting.value = { action: anotherLike(run.domain, run.workflowId, answer), domain: run.domain };
    } catch (error) {
      run.problem.value = problemOf(error);
    } finally {
      setReading(false);
    }
  };
  return (
    <button type="button" class="act" disabled={isReading} onClick={() => void start()}>
      Start similar run
    </button>
  );
}

function Connection({ run }: { run: Run }): JSX.Element | null {
  switch (run.connection.value) {
    case 'live':
      return (
        <span class="connection live" title="Events are shown as they happen">
          live
        </span>
      );
    case 'lost':
      return (
        <span class="connection lost" role="status">
          connection lost; reconnecting
        </span>
      );
    default:
      return null;
  }
}

function Family({ run }: { run: Run }): JSX.Element | null {
  const described = run.described.value;
  if (!described) return null;
  const { domain } = run;
  const link = (label: string, workflowId: string, runId?: string | null, event?: number): JSX.Element => (
    <li key={`${label}${runId ?? workflowId}`}>
      <span>{label}</span>{' '}
      <a
        href={`${pathOf({ page: 'run', domain, workflowId, ...(runId ? { runId } : {}), view: 'turns' })}${event ? `?event=${event}` : ''}`}
      >
        <Name>{workflowId}</Name>
        {runId && workflowId === run.workflowId ? <span class="mono"> {runId.slice(-6)}</span> : null}
      </a>
    </li>
  );
  const children = new Map<string, string | undefined>();
  let into: string | undefined;
  for (const event of run.row.value.events) {
    if (event.type === 'ChildStarted') children.set(event.workflowId, event.runId);
    if (event.type === 'WorkflowContinuedAsNew') into = event.newRunId;
  }
  const items = [
    described.parent
      ? link('parent', described.parent.workflowId, described.parent.runId, described.parent.eventId)
      : null,
    described.continuedFrom ? link('continues', run.workflowId, described.continuedFrom) : null,
    described.branchedFrom
      ? link(
          'reset from',
          described.branchedFrom.workflowId ?? run.workflowId,
          described.branchedFrom.runId,
          described.branchedFrom.eventId,
        )
      : null,
    into ? link('continued as', run.workflowId, into) : null,
    described.retriedAs ? link('retried as', run.workflowId, described.retriedAs) : null,
    described.resetAs ? link('reset as', run.workflowId, described.resetAs) : null,
    ...[...children].slice(0, 12).map(([id, runId]) => link('child', id, runId)),
    children.size > 12 ? <li key="more">and {children.size - 12} more children</li> : null,
  ].filter((item) => item !== null);
  return items.length > 0 ? (
    <ul class="family" aria-label="Related runs">
      {items}
    </ul>
  ) : null;
}
