// The page of a run: four views of its history with a common selection, and a slider that shows the run as of an event.
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Problem } from '../api';
import { stateAsOf } from '../fold';
import type { History } from '../history';
import { Run } from '../live';
import { type View, VIEWS, pathOf } from '../route';
import { go, place, setQuery } from '../state';
import { Empty, Name, useKeys } from '../ui';
import { visible } from '../words';
import { EventPanel } from './event';
import { Events } from './events';
import { Future } from './future';
import { Head } from './head';
import type { Shown } from './shown';
import { StatePanel } from './standing';
import { Timeline } from './timeline';
import { Turns } from './turns';

export function RunPage({
  domain,
  workflowId,
  runId,
  view,
}: {
  domain: string;
  workflowId: string;
  runId: string | undefined;
  view: View;
}): JSX.Element {
  const [run, setRun] = useState<Run>();
  const opened = useRef<Run | undefined>(undefined);
  // The run changes before the page is painted, so that data of another run is never shown under this address.
  useLayoutEffect(() => {
    const before = opened.current;
    // If only the run id was added to the address, the run stays the same.
    if (before?.domain === domain && before.workflowId === workflowId && before.runId === runId) return;
    before?.close();
    opened.current = new Run(domain, workflowId, runId);
    setRun(opened.current);
  }, [domain, workflowId, runId]);
  useEffect(() => () => opened.current?.close(), []);
  // The element stays the same, so that the header is drawn only when its own data changes.
  const head = useMemo(() => (run ? <Head run={run} /> : null), [run]);
  const described = run?.described.value;
  useEffect(() => {
    if (run && runId === undefined && described)
      go({ page: 'run', domain, workflowId, runId: described.runId, view }, place.value.query, true);
  }, [runId, described?.runId]);
  if (!run) return <main class="page" id="main" />;
  if (run.problem.value?.status === 404 && !described)
    return <NotFound domain={domain} workflowId={workflowId} runId={runId} problem={run.problem.value} />;
  const hrefOf = (to: View): string =>
    pathOf({ page: 'run', domain, workflowId, ...(run.runId ? { runId: run.runId } : {}), view: to });
  return <RunOf run={run} view={view} head={head} hrefOf={hrefOf} />;
}

/** The page for a run that does not exist. */
function NotFound({
  domain,
  workflowId,
  runId,
  problem,
}: {
  domain: string;
  workflowId: string;
  runId: string | undefined;
  problem: Problem;
}): JSX.Element {
  return (
    <main class="page not-found" id="main">
      <h1>Run not found</h1>
      <p>
        Domain <Name>{domain}</Name> has no {runId === undefined ? 'workflow' : 'run of workflow'}{' '}
        <Name class="strong">{workflowId}</Name>
        {runId === undefined ? null : (
          <>
            {' '}
            with the run id <Name class="mono">{runId}</Name>
          </>
        )}
        . It may have been deleted, or its retention may have ended.
      </p>
      <p>
        {runId === undefined ? null : (
          <>
            <a class="link" href={pathOf({ page: 'run', domain, workflowId, view: 'turns' })}>
              Newest run of this workflow
            </a>{' '}
            ·{' '}
          </>
        )}
        <a class="link" href={pathOf({ page: 'runs', domain })}>
          All runs
        </a>
      </p>
      <p class="quieter">
        <code>{problem.code}</code>: {visible(problem.detail)}
      </p>
    </main>
  );
}

/** The four views of a history. */
export function RunOf({
  run,
  view,
  head,
  hrefOf,
}: {
  run: History;
  view: View;
  /** Header of the run, shown above the views. */
  head: JSX.Element | null;
  hrefOf: (view: View) => string;
}): JSX.Element {
  const row = run.row.value;
  const { workflowId } = run;
  const { query } = place.value;
  const number = (name: string): number | undefined => {
    const text = query.get(name);
    return text !== null && /^\d+$/.test(text) ? Number(text) : undefined;
  };
  const asOfAsked = number('asof');
  const asOf = Math.min(asOfAsked ?? row.last, row.last);
  const selected = number('event');
  const state = useMemo(() => stateAsOf(row, asOf), [row, asOf]);
  const select = (id: number): void => setQuery({ event: String(id) });
  const newest = Math.max(row.last, run.lastId.value);
  const isEarlier = asOf < newest;
  // Later events of a recorded run are unknown, so it is always shown as of an event.
  const shown: Shown = { run, selected, asOf, isPast: isEarlier || run.isRecorded, state, select };
  const scrub = (id: number): void => setQuery({ asof: id >= row.last ? undefined : String(Math.max(row.first, id)) });
  const show = (to: View): void => go(hrefOf(to), query, true);
  const step = (by: number): void =>
    select(Math.max(row.first, Math.min(asOf, (selected ?? (by > 0 ? row.first - 1 : asOf + 1)) + by)));
  useKeys({
    1: () => show('turns'),
    2: () => show('timeline'),
    3: () => show('future'),
    4: () => show('events'),
    '[': () => scrub(asOf - 1),
    ']': () => scrub(asOf + 1),
    j: () => step(1),
    k: () => step(-1),
    Escape: () => setQuery({ event: undefined }),
  });
  useEffect(() => {
    document.title = `${workflowId} · Baton`;
  }, [workflowId]);

  // If the event in the address is not loaded, it is read: only the end of a long history is loaded at first. The
  // selected event takes precedence over the slider's event, because both may be too far apart to be loaded together.
  const wanted = selected ?? asOfAsked;
  useEffect(() => {
    if (
      wanted !== undefined &&
      row.events.length > 0 &&
      row.at(wanted) === undefined &&
      wanted >= 1 &&
      wanted <= run.lastId.value
    )
      void run.goTo(wanted);
  }, [wanted, row.first, row.last]);

  const event = row.at(selected);
  return (
    <main class="page run-page" id="main">
      {head}
      <div class="views">
        <nav class="tabs" aria-label="Views of the run">
          {VIEWS.map((name, index) => (
            <a
              key={name}
              aria-current={name === view ? 'page' : undefined}
              title={`Key ${index + 1}`}
              href={`${hrefOf(name)}${query.toString() ? `?${query}` : ''}`}
            >
              {name}
            </a>
          ))}
        </nav>
        <div class="scrub">
          <label for="asof">
            as of event <output>{asOf}</output>
            <span class="of"> of {newest}</span>
          </label>
          <input
            id="asof"
            type="range"
            min={row.first}
            max={Math.max(row.first, row.last)}
            value={asOf}
            onInput={(input) => scrub(Number(input.currentTarget.value))}
            title="Keys [ and ]"
            aria-valuetext={`event ${asOf} of ${newest}`}
          />
          <button
            type="button"
            class="quiet"
            disabled={!isEarlier}
            onClick={() => {
              setQuery({ asof: undefined, ...(run.isElsewhere.value ? { event: undefined } : {}) });
              if (run.isElsewhere.value) void run.goToNewest();
            }}
          >
            newest
          </button>
        </div>
      </div>
      <div class={`split${event ? ' has-event' : ''}`}>
        <section class="view" aria-label={view}>
          {row.events.length > 0 && (row.first > 1 || run.isElsewhere.value) ? (
            <p class="partly" role="status">
              Events {row.first.toLocaleString('en')} to {row.last.toLocaleString('en')} of{' '}
              {newest.toLocaleString('en')} are loaded
              {row.first > 1 ? '; views of past events do not show items that were opened earlier' : ''}.
              {row.first > 1 ? (
                <button type="button" class="link" onClick={() => void run.readEarlier()}>
                  Load {Math.min(1000, row.first - 1).toLocaleString('en')} earlier
                </button>
              ) : null}
              {run.isElsewhere.value ? (
                <button type="button" class="link" onClick={() => void run.readLater()}>
                  Load {Math.min(1000, newest - row.last).toLocaleString('en')} later
                </button>
              ) : null}
            </p>
          ) : null}
          {row.events.length === 0 ? (
            run.problem.value ? null : (
              <Empty>Loading the history…</Empty>
            )
          ) : view === 'turns' ? (
            <Turns {...shown} />
          ) : view === 'events' ? (
            <Events {...shown} />
          ) : view === 'timeline' ? (
            <Timeline {...shown} />
          ) : (
            <Future {...shown} />
          )}
        </section>
        <aside class="side" aria-label={event ? 'Selected event' : 'The run as of this event'}>
          {event ? <EventPanel event={event} shown={shown} /> : <StatePanel shown={shown} />}
        </aside>
      </div>
    </main>
  );
}
