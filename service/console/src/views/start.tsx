// The start page: current metrics of the service, and task lists without pollers.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, get, problemOf, request } from '../api';
import { useChanges } from '../changes';
import type { Schemas } from '../fold';
import { type TaskList, inOrder, isLonely, waitingOf, waitsFor } from '../lists';
import { domainPath } from '../paths';
import { pathOf } from '../route';
import { startSample } from '../sample';
import { mayDo } from '../session';
import { domain as shownDomain, go } from '../state';
import { talliesOf } from '../tallies';
import { Name, Refresh, Since, Time, Trouble, useKeys } from '../ui';
import { type Metrics, readMetrics } from '../words';
import { FailuresOf } from './failures';

interface Seen {
  metrics: Metrics;
  at: number;
  commitsASecond?: number;
}

/** Reads the metrics when the page opens, when the window gets the focus, and when `refresh` is called. */
function useMetrics(): { seen: Seen | undefined; problem: Problem | undefined; refresh: () => void } {
  const [seen, setSeen] = useState<Seen>();
  const [problem, setProblem] = useState<Problem>();
  const before = useRef<Seen | undefined>(undefined);
  const refresh = (): void => {
    request('/metrics')
      .then(async (response) => {
        const metrics = readMetrics(await response.text());
        const fresh: Seen = { metrics, at: Date.now() };
        const commits = metrics.values.get('commits_total');
        const earlier = before.current?.metrics.values.get('commits_total');
        const seconds = before.current ? (fresh.at - before.current.at) / 1000 : 0;
        if (commits !== undefined && earlier !== undefined && seconds >= 0.9)
          fresh.commitsASecond = Math.max(0, (commits - earlier) / seconds);
        if (seconds >= 0.9 || !before.current) before.current = fresh;
        setSeen(fresh);
        setProblem(undefined);
      })
      .catch((error: unknown) => setProblem(problemOf(error)));
  };
  useEffect(() => {
    refresh();
    // A second read is needed to compute the rate of commits.
    const again = setTimeout(refresh, 1200);
    addEventListener('focus', refresh);
    return () => {
      clearTimeout(again);
      removeEventListener('focus', refresh);
    };
  }, []);
  return { seen, problem, refresh };
}

/** Maximum number of domains whose task lists and failures the start page reads. Our choice. */
const DOMAINS_LOOKED_AT = 20;

const NUMBERS = [
  ['open', 'open'],
  ['failing', 'failing'],
  ['blocked', 'blocked'],
  ['stuck', 'stuck'],
  ['retrying', 'retrying'],
  ['repeating', 'repeating'],
  ['paused', 'paused'],
] as const;

export function Start(): JSX.Element {
  const { seen, problem, refresh } = useMetrics();
  const [domains, setDomains] = useState<Schemas['Domain'][]>();
  const [times, setTimes] = useState(0);
  const [lists, setLists] = useState<Map<string, Schemas['ListedTaskLists']>>(new Map());
  const [tallies, setTallies] = useState<Map<string, Map<string, number>>>(new Map());
  const look = async (): Promise<void> => {
    const answer = await get<Schemas['Domains']>('/v1/domains').catch(() => ({ domains: [] }));
    setDomains(answer.domains);
    setTimes((old) => old + 1);
    const ask = async ({ name }: Schemas['Domain']): Promise<[string, Schemas['ListedTaskLists']][]> => {
      const page = await get<Schemas['ListedTaskLists']>(`${domainPath(name)}/task-lists?limit=200`).catch(() => null);
      return page ? [[name, page]] : [];
    };
    setLists(new Map((await Promise.all(answer.domains.slice(0, DOMAINS_LOOKED_AT).map(ask))).flat()));
  };
  // A user without permission for the metrics sees counts of the domains that the user may read.
  const isKept = problem?.status === 403;
  useEffect(() => {
    if (!isKept || !domains) return;
    const count = async ({ name }: Schemas['Domain']): Promise<[string, Map<string, number>][]> => {
      const counted = await get<Schemas['Count']>(`${domainPath(name)}/workflow-count`).catch(() => null);
      if (!counted) return [];
      const shown = [...talliesOf(counted)].map(([status, tally]): [string, number] => [status, tally.count]);
      return [[name, new Map(shown)]];
    };
    void Promise.all(domains.slice(0, DOMAINS_LOOKED_AT).map(count)).then((all) => setTallies(new Map(all.flat())));
  }, [isKept, domains]);
  useEffect(() => {
    void look();
    const again = (): void => void look();
    addEventListener('focus', again);
    return () => removeEventListener('focus', again);
  }, []);
  const all = async (): Promise<void> => {
    refresh();
    await look();
  };
  // The start page shows all domains, so it follows all of them.
  useChanges(undefined, all);
  useKeys({ r: () => void all() });
  const lonely = [...lists].flatMap(([name, { taskLists }]) =>
    inOrder(taskLists)
      .filter(isLonely)
      .map((list): [string, TaskList] => [name, list]),
  );
  const nothing =
    seen && domains && domains.every(({ name }) => (seen.metrics.domains.get(name)?.get('open') ?? 0) === 0);
  const { values } = seen?.metrics ?? { values: new Map<string, number>() };
  return (
    <main class="page start-page" id="main">
      <div class="bar">
        <h1>Overview</h1>
        {seen?.commitsASecond === undefined ? null : (
          <span class="pace">
            <b>
              {seen.commitsASecond < 10
                ? seen.commitsASecond.toFixed(1)
                : Math.round(seen.commitsASecond).toLocaleString('en')}
            </b>{' '}
            commits per second
          </span>
        )}
        <Refresh refresh={all} />
      </div>
      <Trouble problem={isKept ? undefined : problem} />
      {lonely.length > 0 ? (
        <div class="banner" role="status">
          <b>
            {lonely.length === 1 ? '1 task list has' : `${lonely.length} task lists have`} waiting tasks but no pollers.
          </b>
          <ul>
            {lonely.slice(0, 8).map(([name, list]) => (
              <li key={`${name} ${list.kind} ${list.name}`}>
                <a href={pathOf({ page: 'list', domain: name, list: list.name })} data-row>
                  <Name>{list.name}</Name>
                </a>
                : {waitsFor(list)}
                {list.oldestSince ? (
                  <span class="quieter">
                    {' '}
                    <Since at={list.oldestSince} />
                  </span>
                ) : null}
              </li>
            ))}
            {lonely.length > 8 ? <li>and {lonely.length - 8} more</li> : null}
          </ul>
        </div>
      ) : null}
      {(domains ?? []).map(({ name, description }, index) => {
        const of = seen?.metrics.domains.get(name) ?? tallies.get(name);
        const page = lists.get(name);
        const waiting = (page?.taskLists ?? []).reduce((sum, list) => sum + list.waiting, 0);
        const inFlight = (kind: string): number =>
          (page?.taskLists ?? []).reduce((sum, list) => sum + (list.kind === kind ? (list.inFlight ?? 0) : 0), 0);
        const isMore = page?.nextPage != null || (page?.taskLists ?? []).some((list) => list.moreWaiting);
        return (
          <section key={name} class="domain">
            <h2>
              <a href={pathOf({ page: 'runs', domain: name })}>
                <Name>{name}</Name>
              </a>
              {description ? <span class="quieter"> {description}</span> : null}
            </h2>
            <div class="numbers">
              {NUMBERS.map(([status, label]) => {
                const count = of?.get(status);
                return (
                  <a
                    key={status}
                    data-row
                    class={`number t-${status}${count ? '' : ' none'}`}
                    href={`${pathOf({ page: 'runs', domain: name })}?status=${status}`}
                  >
                    <b>{count === undefined ? '–' : count.toLocaleString('en')}</b>
                    <span>{label}</span>
                  </a>
                );
              })}
              {(
                [
                  ['turns running', page ? inFlight('decider') : undefined, page?.nextPage != null],
                  ['activities running', page ? inFlight('activity') : undefined, page?.nextPage != null],
                  ['tasks waiting', page ? waiting : undefined, isMore],
                ] as const
              ).map(([label, count, more]) => (
                <a
                  key={label}
                  data-row
                  class={`number${count ? '' : ' none'}`}
                  href={pathOf({ page: 'lists', domain: name })}
                >
                  <b>{count === undefined ? '–' : `${count.toLocaleString('en')}${more ? '+' : ''}`}</b>
                  <span>{label}</span>
                </a>
              ))}
            </div>
            <Waiting domain={name} lists={page?.taskLists ?? []} />
            {index < DOMAINS_LOOKED_AT ? <FailuresOf domain={name} times={times} /> : null}
          </section>
        );
      })}
      {(domains?.length ?? 0) > DOMAINS_LOOKED_AT ? (
        <p class="quieter">Task lists and failures are shown for the first {DOMAINS_LOOKED_AT} domains only.</p>
      ) : null}
      {nothing ? <First domain={shownDomain.value} /> : null}
      {values.has('runs_counted_timestamp_seconds') ? (
        <p class="quieter">
          Open runs counted <Time at={(values.get('runs_counted_timestamp_seconds') ?? 0) * 1000} />;{' '}
          {(values.get('events_total') ?? 0).toLocaleString('en')} events since the service started.
        </p>
      ) : null}
      <p class="quieter">
        To view a{' '}
        <a class="link" href={pathOf({ page: 'recorded', view: 'turns' })}>
          recorded history
        </a>
        , drop its file on any page.
      </p>
    </main>
  );
}

/** Maximum number of lists that are named per domain. The page of task lists has all of them. Our choice. */
const LISTS_NAMED = 8;

/** Shows the lists with waiting tasks and their numbers, highest first. */
function Waiting({ domain, lists }: { domain: string; lists: TaskList[] }): JSX.Element | null {
  const waiting = lists.filter((list) => list.waiting > 0).sort((a, b) => b.waiting - a.waiting);
  if (waiting.length === 0) return null;
  return (
    <p class="waiting">
      <span class="quieter">waiting in</span>{' '}
      {waiting.slice(0, LISTS_NAMED).map((list) => (
        <a
          key={`${list.kind} ${list.name}`}
          class="tag"
          href={pathOf({ page: 'list', domain, list: list.name })}
          title={waitsFor(list)}
        >
          <Name>{list.name}</Name> <b>{waitingOf(list)}</b>
        </a>
      ))}
      {waiting.length > LISTS_NAMED ? <span class="quieter">and {waiting.length - LISTS_NAMED} more</span> : null}
    </p>
  );
}

/** Button that starts a sample, for which this page is the decider, and then shows the run. */
function Sample({ domain }: { domain: string }): JSX.Element {
  const [problem, setProblem] = useState<Problem>();
  const begin = (): void => {
    startSample(domain).then(
      ({ workflowId, runId }) => go({ page: 'run', domain, workflowId, runId, view: 'turns' }),
      (error: unknown) => setProblem(problemOf(error)),
    );
  };
  return (
    <>
      <p>
        Or start a sample run. It waits one minute for a signal. This window is its decider while the window is open.
      </p>
      <p>
        <button type="button" class="act" onClick={begin}>
          Start sample
        </button>
      </p>
      <Trouble problem={problem} />
    </>
  );
}

function First({ domain }: { domain: string }): JSX.Element {
  const lines = ['baton workflow start hello-1 --type hello', 'baton workflow list', 'baton history hello-1'];
  const [copied, setCopied] = useState(-1);
  return (
    <section class="first">
      <h2>No open runs</h2>
      <p>Start a run and show it:</p>
      <ol>
        {lines.map((line, index) => (
          <li key={line}>
            <code>{line}</code>{' '}
            <button
              type="button"
              class="quiet"
              onClick={() => {
                void navigator.clipboard?.writeText(line);
                setCopied(index);
              }}
            >
              {copied === index ? 'copied' : 'copy'}
            </button>
          </li>
        ))}
      </ol>
      {mayDo('start', domain) && mayDo('signal', domain) ? <Sample domain={domain} /> : null}
    </section>
  );
}
