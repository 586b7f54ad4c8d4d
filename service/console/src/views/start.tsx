// The start page and the task lists: what the service is doing now, as its metrics say.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, get, problemOf, request } from '../api';
import type { Schemas } from '../fold';
import { pathOf } from '../route';
import { Empty, Name, Time, Trouble, useKeys } from '../ui';
import { type Metrics, type Waiting, readMetrics } from '../words';

interface Seen {
  metrics: Metrics;
  at: number;
  commitsASecond?: number;
}

/** Reads the metrics when the page comes, when it is looked at again, and when `refresh` is called. */
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
    // Once more, so that there is a pace to show.
    const again = setTimeout(refresh, 1200);
    addEventListener('focus', refresh);
    return () => {
      clearTimeout(again);
      removeEventListener('focus', refresh);
    };
  }, []);
  return { seen, problem, refresh };
}

const NUMBERS = [
  ['open', 'open'],
  ['failing', 'failing'],
  ['blocked', 'blocked'],
  ['stuck', 'stuck'],
  ['retrying', 'retrying'],
  ['paused', 'paused'],
] as const;

export function Start(): JSX.Element {
  const { seen, problem, refresh } = useMetrics();
  const [domains, setDomains] = useState<Schemas['Domain'][]>();
  useEffect(() => {
    get<Schemas['Domains']>('/v1/domains').then(
      (answer) => setDomains(answer.domains),
      () => setDomains([]),
    );
  }, []);
  useKeys({ r: refresh });
  const lonely = (seen?.metrics.lists ?? []).filter((list) => list.waiting > 0 && list.pollers === 0);
  const nothing =
    seen && domains && domains.every(({ name }) => (seen.metrics.domains.get(name)?.get('open') ?? 0) === 0);
  const { values } = seen?.metrics ?? { values: new Map<string, number>() };
  return (
    <main class="page start-page" id="main">
      <div class="bar">
        <h1>What Baton is doing</h1>
        {seen?.commitsASecond === undefined ? null : (
          <span class="pace">
            <b>
              {seen.commitsASecond < 10
                ? seen.commitsASecond.toFixed(1)
                : Math.round(seen.commitsASecond).toLocaleString('en')}
            </b>{' '}
            commits a second
          </span>
        )}
        <button type="button" class="quiet" onClick={refresh} title="Refresh (r)">
          Refresh
        </button>
      </div>
      <Trouble problem={problem} />
      {lonely.length > 0 ? (
        <div class="banner" role="status">
          <b>
            {lonely.length === 1 ? 'A task list has' : `${lonely.length} task lists have`} tasks and nobody who polls.
          </b>
          <ul>
            {lonely.slice(0, 8).map((list) => (
              <li key={`${list.domain}${list.side}${list.list}`}>
                <a href={pathOf({ page: 'lists', domain: list.domain })}>
                  <Name>{list.list}</Name>
                </a>
                : {list.waiting} {list.side === 'decider' ? 'turn' : 'activit'}
                {list.side === 'decider' ? (list.waiting === 1 ? '' : 's') : list.waiting === 1 ? 'y' : 'ies'} wait
                {list.waiting === 1 ? 's' : ''} for a {list.side === 'decider' ? 'decider' : 'runner'}
              </li>
            ))}
          </ul>
        </div>
      ) : null}
      {(domains ?? []).map(({ name, description }) => {
        const of = seen?.metrics.domains.get(name);
        const lists = (seen?.metrics.lists ?? []).filter((list) => list.domain === name);
        const waiting = lists.reduce((sum, list) => sum + list.waiting, 0);
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
                    class={`number t-${status}${count ? '' : ' none'}`}
                    href={`${pathOf({ page: 'runs', domain: name })}?status=${status}`}
                  >
                    <b>{count === undefined ? '–' : count.toLocaleString('en')}</b>
                    <span>{label}</span>
                  </a>
                );
              })}
              <a class={`number${waiting ? '' : ' none'}`} href={pathOf({ page: 'lists', domain: name })}>
                <b>{seen ? waiting.toLocaleString('en') : '–'}</b>
                <span>tasks waiting</span>
              </a>
            </div>
          </section>
        );
      })}
      {nothing ? <First /> : null}
      {values.has('runs_counted_timestamp_seconds') ? (
        <p class="quieter">
          Open runs counted <Time at={(values.get('runs_counted_timestamp_seconds') ?? 0) * 1000} />;{' '}
          {(values.get('events_total') ?? 0).toLocaleString('en')} events since the service started.
        </p>
      ) : null}
      <p class="quieter">
        A{' '}
        <a class="link" href={pathOf({ page: 'recorded', view: 'turns' })}>
          recorded history
        </a>{' '}
        can be dropped on any page, and read like a run.
      </p>
    </main>
  );
}

function First(): JSX.Element {
  const lines = ['baton workflow start hello-1 --type hello', 'baton workflow list', 'baton history hello-1'];
  const [copied, setCopied] = useState(-1);
  return (
    <section class="first">
      <h2>No run is open yet</h2>
      <p>Three commands make a first one and show it:</p>
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
    </section>
  );
}

export function Lists({ domain }: { domain: string }): JSX.Element {
  const { seen, problem, refresh } = useMetrics();
  useKeys({ r: refresh });
  const lists = (seen?.metrics.lists ?? [])
    .filter((list) => list.domain === domain)
    .sort((a, b) => Number(trouble(b)) - Number(trouble(a)) || b.waiting - a.waiting || a.list.localeCompare(b.list));
  const most = Math.max(1, ...lists.map((list) => list.waiting));
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>Task lists</h1>
        <span class="grow" />
        <button type="button" class="quiet" onClick={refresh} title="Refresh (r)">
          Refresh
        </button>
      </div>
      <Trouble problem={problem} />
      {seen && lists.length === 0 ? <Empty>No task waits, and nobody polls.</Empty> : null}
      {lists.length > 0 ? (
        <table class="grid">
          <thead>
            <tr>
              <th>task list</th>
              <th>for</th>
              <th class="right">waiting</th>
              <th>
                <span class="unseen">share of the longest</span>
              </th>
              <th class="right">pollers</th>
              <th>
                <span class="unseen">trouble</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {lists.map((list) => (
              <tr key={`${list.side}${list.list}`} class={trouble(list) ? 'warned' : ''}>
                <td class="strong">
                  <Name>{list.list}</Name>
                </td>
                <td>{list.side === 'decider' ? 'deciders' : 'runners'}</td>
                <td class="right">{list.waiting.toLocaleString('en')}</td>
                <td>
                  <meter min={0} max={most} value={list.waiting} />
                </td>
                <td class="right">{list.pollers.toLocaleString('en')}</td>
                <td>{trouble(list) ? <span class="warn">nobody polls</span> : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </main>
  );
}

const trouble = (list: Waiting): boolean => list.waiting > 0 && list.pollers === 0;
