// The list of runs: filters in the URL, counts by status, and rows that are drawn only while they are visible.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, get, problemOf } from '../api';
import type { BulkAction } from '../bulk';
import { useChanges } from '../changes';
import { FIELDS, type Field, type Filter, OUTCOMES, STANDINGS, filterOfQuery, queryOfFilter } from '../filter';
import type { Schemas } from '../fold';
import { domainPath } from '../paths';
import { pathOf } from '../route';
import { NOTHING, type Selection, has, isEmpty, toggle } from '../selection';
import { mayDo } from '../session';
import { startAction } from '../starts';
import { go, now, place } from '../state';
import { type Tally, talliesOf } from '../tallies';
import { duration } from '../time';
import { Badge, Empty, Name, Refresh, Rows, Time, Trouble, useKeys, useNarrow } from '../ui';
import { closeReason, standingOf } from '../words';
import { acting } from './act';
import { batching } from './batch';
import { BulkBar, bulk } from './bulk';
import { SaveView, SavedViews } from './saved';
import { Search } from './search';

type Listed = Schemas['Listed'];
const PAGE = 200;
/** Progress of the search for runs: number of examined runs, and number of all runs if known. */
interface Looking {
  at: number;
  of?: number | undefined;
  isOver: boolean;
}
const BEGUN: Looking = { at: 0, isOver: false };
/**
 * Time for which rows of the previous filter stay while rows of the new filter are read, in milliseconds. Our choice.
 */
const LATE_MS = 150;
/**
 * Maximum number of pages without matching runs that are read automatically. A page examines about 4,000 runs. Our
 * choice.
 */
const EMPTY_PAGES_MAX = 300;
const COLUMNS = ['', 'status', 'workflow id', 'type', 'started', 'duration', 'reason · tags'];
const SHOWN = ['open', ...STANDINGS, ...OUTCOMES] as const;

function searched({ at, of }: Looking): string {
  const number = (n: number): string => n.toLocaleString('en');
  return `${number(of === undefined ? at : Math.min(at, of))}${of === undefined ? '' : ` of ${number(of)}`} runs`;
}

export function Runs({ domain }: { domain: string }): JSX.Element {
  const filter = filterOfQuery(place.value.query);
  const query = queryOfFilter(filter).toString();
  const narrow = useNarrow();
  const [runs, setRuns] = useState<Listed[]>();
  const [next, setNext] = useState<string>();
  const [newer, setNewer] = useState<Listed[]>([]);
  const [counts, setCounts] = useState<Map<string, Tally>>(new Map());
  const [problem, setProblem] = useState<Problem>();
  const [looking, setLooking] = useState<Looking>(BEGUN);
  const [at, setAt] = useState(-1);
  const [selection, setSelection] = useState<Selection>(NOTHING);
  const asking = useRef<AbortController | undefined>(undefined);
  const loading = useRef(false);
  /** Resolves when the first page was read or has failed. */
  const first = useRef<Promise<void>>(Promise.resolve());
  const shown = useRef<Listed[]>([]);
  shown.current = runs ?? [];
  const isThere = useRef(false);
  isThere.current = runs !== undefined;

  const list = (page?: string): Promise<Schemas['Workflows']> => {
    const asked = new URLSearchParams(query);
    asked.set('limit', String(PAGE));
    if (page) asked.set('page', page);
    return get<Schemas['Workflows']>(`${domainPath(domain)}/workflows?${asked}`, asking.current?.signal);
  };
  /** Returns the next page that contains runs. A page can be empty without being the last one. */
  const listOn = async (page?: string): Promise<Schemas['Workflows']> => {
    setLooking((old) => ({ ...old, isOver: false }));
    let found = await list(page);
    const looked = (): void => setLooking((old) => ({ ...old, at: old.at + (found.examined ?? 0) }));
    looked();
    for (let read = 1; found.workflows.length === 0 && found.nextPage && read < EMPTY_PAGES_MAX; read++) {
      if (read === 1) countAll().catch(() => undefined);
      found = await list(found.nextPage);
      looked();
    }
    setLooking((old) => ({ ...old, isOver: true }));
    return found;
  };
  /** Reads the number of all runs, regardless of the filter, as the upper bound of the search. */
  const countAll = async (): Promise<void> => {
    const { count, truncated } = await get<Schemas['Count']>(
      `${domainPath(domain)}/workflow-count`,
      asking.current?.signal,
    );
    if (!truncated) setLooking((old) => ({ ...old, of: count }));
  };
  const count = async (): Promise<void> => {
    const { status: _, order: __, ...rest } = filter;
    const query = queryOfFilter(rest).toString();
    const asked = `${domainPath(domain)}/workflow-count${query ? `?${query}` : ''}`;
    setCounts(talliesOf(await get<Schemas['Count']>(asked, asking.current?.signal)));
  };
  const failed = (error: unknown): void => {
    if ((error as Error).name !== 'AbortError') setProblem(problemOf(error));
  };
  // Rows keep their positions: known runs are updated, and newer runs are added when the user asks for them.
  const refresh = async (): Promise<void> => {
    const asked = asking.current;
    await first.current;
    // The list may have changed in the meantime.
    if (asking.current !== asked) return;
    try {
      count().catch(failed);
      const page = await list();
      const fresh = new Map(page.workflows.map((run) => [run.runId, run]));
      const known = new Set(shown.current.map((run) => run.runId));
      if (isThere.current) {
        setRuns(shown.current.map((run) => fresh.get(run.runId) ?? run));
        setNewer(page.workflows.filter((run) => !known.has(run.runId)));
      } else {
        // The first page has failed, so there are no rows yet.
        setRuns(page.workflows);
        setNext(page.nextPage ?? undefined);
      }
      setProblem(undefined);
    } catch (error) {
      failed(error);
    }
  };
  useEffect(() => {
    const controller = new AbortController();
    asking.current = controller;
    setNewer([]);
    setAt(-1);
    setSelection(NOTHING);
    setProblem(undefined);
    setLooking(BEGUN);
    setNext(undefined);
    // The earlier rows stay for a moment. If the response arrives within this time, the page does not flicker.
    const late = setTimeout(() => setRuns(undefined), LATE_MS);
    first.current = listOn().then((page) => {
      clearTimeout(late);
      setRuns(page.workflows);
      setNext(page.nextPage ?? undefined);
      count().catch(failed);
    }, failed);
    const focused = (): void => {
      if (!document.hidden) void refresh();
    };
    addEventListener('focus', focused);
    return () => {
      controller.abort();
      clearTimeout(late);
      removeEventListener('focus', focused);
    };
  }, [domain, query]);

  useChanges(domain, refresh);

  const more = (): void => {
    if (!next || loading.current) return;
    loading.current = true;
    listOn(next)
      .then((page) => {
        setRuns([...shown.current, ...page.workflows]);
        setNext(page.nextPage ?? undefined);
      }, failed)
      .finally(() => {
        loading.current = false;
      });
  };
  const apply = (changed: Filter): void => go({ page: 'runs', domain }, queryOfFilter(changed));
  const open = (run: Listed | undefined): void => {
    if (run) go({ page: 'run', domain, workflowId: run.workflowId, runId: run.runId, view: 'turns' });
  };
  const select = (run: Listed | undefined): void => {
    if (run) setSelection((old) => toggle(old, run.runId, shown.current));
  };
  const chosen = (): Listed[] => shown.current.filter((run) => has(selection, run.runId));
  const done = (): void => {
    setSelection(NOTHING);
    void refresh();
  };
  const ask = (action: BulkAction): void => {
    const all = chosen();
    const open = all.filter((run) => run.status === 'open');
    bulk.value = { action, domain, closed: all.length - open.length, chosen: open, done };
  };
  const batch = (): void => {
    const ids = [...new Set(chosen().map((run) => run.workflowId))];
    batching.value = { domain, filter, done, ...(selection === 'all' ? {} : { ids }) };
  };
  const start = (): void => {
    const types = [...new Set(shown.current.map((run) => run.workflowType))].sort();
    acting.value = { action: startAction(domain, { workflowType: filter.type ?? '' }, types), domain };
  };
  const move = (by: number): void => setAt((old) => Math.max(0, Math.min((runs?.length ?? 1) - 1, old + by)));
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => open(runs?.[at]),
    x: () => select(runs?.[at]),
    X: () => setSelection('all'),
    Escape: () => setSelection(NOTHING),
    r: () => void refresh(),
  });

  const number = (status: string): string => {
    const found = counts.get(status);
    return found ? `${found.count.toLocaleString('en')}${found.truncated ? '+' : ''}` : '…';
  };
  const matching = number(filter.status ?? '');
  const words = selection === 'all' ? `all ${matching} matching` : `${selection.size} selected`;
  const hasMore =
    selection !== 'all' && (next !== undefined || newer.length > 0 || selection.size < (runs?.length ?? 0));
  const chips = (Object.keys(FIELDS) as Field[]).filter((name) => filter[name] && name !== 'status');
  return (
    <main class="page runs-page" id="main">
      <div class="bar">
        <h1>Runs</h1>
        <Search filter={filter} apply={apply} />
        {mayDo('start', domain) ? (
          <button type="button" class="act" onClick={start}>
            Start run
          </button>
        ) : null}
        <SaveView domain={domain} query={query} />
        <Refresh refresh={refresh} />
      </div>
      <nav class="tallies" aria-label="Runs by status">
        {['', ...SHOWN].map((status) => {
          const { status: _, ...rest } = filter;
          const asked = queryOfFilter(status ? { ...rest, status } : rest).toString();
          const empty = counts.get(status)?.count === 0;
          return (
            <a
              key={status}
              href={`${pathOf({ page: 'runs', domain })}${asked ? `?${asked}` : ''}`}
              class={`tally t-${status || 'all'}${empty ? ' none' : ''}`}
              aria-current={(filter.status ?? '') === status ? 'true' : undefined}
            >
              <span class="tally-count">{number(status)}</span> {status === '' ? 'all' : status.replace(/-/g, ' ')}
            </a>
          );
        })}
      </nav>
      <SavedViews domain={domain} query={query} />
      {chips.length > 0 ? (
        <ul class="chips" aria-label="Filters">
          {chips.map((name) => (
            <li key={name} class="chip">
              <span class="chip-field">{FIELDS[name]}</span> <Name>{filter[name] ?? ''}</Name>
              <button
                type="button"
                aria-label={`Remove the filter ${FIELDS[name]}`}
                onClick={() => {
                  const { [name]: _, ...rest } = filter;
                  apply(rest);
                }}
              >
                ×
              </button>
            </li>
          ))}
          <li>
            <button type="button" class="quiet" onClick={() => apply({})}>
              clear filters
            </button>
          </li>
        </ul>
      ) : null}
      <Trouble problem={problem} />
      {isEmpty(selection) ? null : (
        <BulkBar
          domain={domain}
          words={words}
          total={hasMore ? matching : undefined}
          isAll={selection === 'all'}
          ask={ask}
          batch={batch}
          all={() => setSelection('all')}
          clear={() => setSelection(NOTHING)}
        />
      )}
      {newer.length > 0 ? (
        <button
          type="button"
          class="newer"
          onClick={() => {
            setRuns([...newer, ...shown.current]);
            setNewer([]);
          }}
        >
          Show {newer.length >= PAGE ? `${PAGE}+` : newer.length} newer
        </button>
      ) : null}
      {problem && !runs ? null : runs?.length === 0 && next ? (
        <Empty>
          Searched {searched(looking)}, none matches.{' '}
          {looking.isOver ? (
            <button type="button" class="link" onClick={more}>
              Search older runs
            </button>
          ) : null}
        </Empty>
      ) : runs?.length === 0 ? (
        <Empty>
          {query ? 'No matching runs. ' : 'No runs yet. '}
          {query ? (
            <a href={pathOf({ page: 'runs', domain })}>All runs</a>
          ) : (
            <a href={pathOf({ page: 'start' })}>How to start one</a>
          )}
        </Empty>
      ) : (
        <div class="table">
          <Rows
            count={runs?.length ?? 0}
            height={narrow ? 58 : 34}
            label="Runs"
            at={at}
            onEnd={more}
            head={
              narrow ? null : (
                <div class="row head" role="row">
                  {COLUMNS.map((name) => (
                    <span key={name} role="columnheader">
                      {name || <span class="unseen">selected</span>}
                    </span>
                  ))}
                </div>
              )
            }
            draw={(index) => {
              const run = runs?.[index];
              if (!run) return <div key={index} />;
              const end = run.closedAt ? Date.parse(run.closedAt) : now.value;
              return (
                <div
                  key={run.runId}
                  class={`row run${index === at ? ' at' : ''}${has(selection, run.runId) ? ' selected' : ''}`}
                  role="row"
                  aria-rowindex={index + 1}
                >
                  <span role="cell" class="select">
                    <input
                      type="checkbox"
                      aria-label={`Select ${run.workflowId}`}
                      title="Key x"
                      checked={has(selection, run.runId)}
                      onChange={() => select(run)}
                    />
                  </span>
                  <span role="cell">
                    <Badge status={standingOf(run)} />
                  </span>
                  <span role="cell" class="strong cut">
                    <a
                      class="stretched"
                      href={pathOf({
                        page: 'run',
                        domain,
                        workflowId: run.workflowId,
                        runId: run.runId,
                        view: 'turns',
                      })}
                    >
                      <Name>{run.workflowId}</Name>
                    </a>
                  </span>
                  <span role="cell" class="cut">
                    <Name>{run.workflowType}</Name>
                  </span>
                  <span role="cell" class="time">
                    <Time at={run.startedAt} />
                  </span>
                  <span role="cell" class={`time${run.closedAt ? '' : ' going'}`}>
                    {duration(Math.max(0, end - Date.parse(run.startedAt)))}
                  </span>
                  <span role="cell" class="cut tags">
                    {closeReason(run) ? (
                      <span class="quieter" title={closeReason(run)}>
                        <Name>{closeReason(run)}</Name>{' '}
                      </span>
                    ) : null}
                    {run.tags.map((tag) => (
                      <span key={tag} class="tag">
                        <Name>{tag}</Name>
                      </span>
                    ))}
                  </span>
                </div>
              );
            }}
          />
          {looking.isOver ? null : (
            <p class="looking" role="status">
              {looking.at === 0 && !runs
                ? 'Loading runs…'
                : `Searching${runs ? ' for more' : ''}: ${searched(looking)} so far.`}
            </p>
          )}
        </div>
      )}
    </main>
  );
}
