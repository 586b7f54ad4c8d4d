// The page of task lists of a domain: waiting tasks, their age, running tasks, limits, pauses and pollers of each list,
// and the limit groups.
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { get } from '../api';
import { useChanges } from '../changes';
import type { Schemas } from '../fold';
import { type Group, actionsOfGroup, heldBack, inShort, limitsOf, newGroup, runningOf } from '../limits';
import { type TaskList, inOrder, isLonely, polledBy, waitingOf } from '../lists';
import { domainPath } from '../paths';
import { useReading } from '../reading';
import { pathOf } from '../route';
import { mayDo } from '../session';
import { go, now, place } from '../state';
import { Empty, Name, Refresh, Since, Time, Trouble } from '../ui';
import { Actions } from './act';

/** Number of lists per request, which is the maximum of the service. */
const PAGE = 200;
type Page = Schemas['ListedTaskLists'];

export function Lists({ domain }: { domain: string }): JSX.Element {
  const {
    value: page,
    problem,
    refresh,
    add,
  } = useReading(domain, (signal) => get<Page>(`${domainPath(domain)}/task-lists?limit=${PAGE}`, signal));
  // If the user has loaded further pages, the data is not refreshed, because that would remove them.
  useChanges(domain, async () => {
    if ((page?.taskLists.length ?? 0) <= PAGE) await refresh();
  });
  const more = (): Promise<void> =>
    add(async (old) => {
      const asked = new URLSearchParams({ limit: String(PAGE), page: old.nextPage ?? '' });
      const next = await get<Page>(`${domainPath(domain)}/task-lists?${asked}`);
      return { ...next, taskLists: [...old.taskLists, ...next.taskLists] };
    });
  // The page has an earlier address, which is replaced by the current address. Lists had no separate pages.
  const { path, query } = place.value;
  useEffect(() => {
    const list = query.get('list')?.replace(/^(decider|activity) /, '');
    if (list) go({ page: 'list', domain, list }, undefined, true);
    else if (path !== pathOf({ page: 'lists', domain })) go({ page: 'lists', domain }, query, true);
  }, [path, query]);
  const lists = inOrder(page?.taskLists ?? []);
  const most = Math.max(1, ...lists.map((list) => list.waiting));
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>Task lists</h1>
        {page?.node ? (
          <span class="quieter">
            as seen by node <Name>{page.node}</Name>
          </span>
        ) : null}
        <span class="grow" />
        <Refresh refresh={refresh} />
      </div>
      <Trouble problem={problem} />
      {page && lists.length === 0 ? <Empty>No waiting tasks, pollers, limits or pauses.</Empty> : null}
      {lists.length > 0 ? (
        <table class="grid lists stacked">
          <thead>
            <tr>
              <th>task list</th>
              <th>kind</th>
              <th class="right">waiting</th>
              <th>
                <span class="unseen">relative length</span>
              </th>
              <th>oldest</th>
              <th class="right">running</th>
              <th>limits</th>
              <th class="right">handed out / min</th>
              <th>pollers</th>
            </tr>
          </thead>
          <tbody>
            {lists.map((list) => (
              <Row key={`${list.kind} ${list.name}`} list={list} most={most} domain={domain} />
            ))}
          </tbody>
        </table>
      ) : null}
      {page?.nextPage ? (
        <p>
          <button type="button" class="act" onClick={() => void more()}>
            Show more
          </button>
        </p>
      ) : null}
      {page?.truncated ? (
        <p class="quieter">The list is not complete: the service has more task lists in memory.</p>
      ) : null}
      {page ? <Groups domain={domain} lists={lists} /> : null}
    </main>
  );
}

function Row({ list, most, domain }: { list: TaskList; most: number; domain: string }): JSX.Element {
  const { running, max } = runningOf(list);
  const isFull = running !== undefined && max !== undefined && running >= max;
  const held = heldBack(list);
  return (
    <tr class={isLonely(list) ? 'warned' : ''} data-row tabIndex={-1}>
      <td class="strong">
        <a class="list-name" href={pathOf({ page: 'list', domain, list: list.name })}>
          <Name>{list.name}</Name>
        </a>
      </td>
      <td>{list.kind === 'decider' ? 'deciders' : 'runners'}</td>
      <td class="right" data-label="waiting">
        {waitingOf(list)}
      </td>
      <td>
        <meter min={0} max={most} value={list.waiting} aria-label="relative length" />
      </td>
      <td data-label="oldest">{list.waiting > 0 ? <Time at={list.oldestSince} /> : <span class="quieter">–</span>}</td>
      <td class="right" data-label="running">
        <span class={isFull ? 'warn' : ''}>
          {running === undefined ? '–' : running.toLocaleString('en')}
          {max === undefined ? '' : ` of ${max.toLocaleString('en')}`}
        </span>
      </td>
      <td class="list-limits" data-label={list.limits || list.paused ? 'limits' : undefined}>
        <Name>{inShort(list)}</Name>
        {list.paused ? (
          <p>
            <Pause list={list} />
          </p>
        ) : held.length > 0 ? (
          <p class="warn">
            <Name>{held[0] ?? ''}</Name>
            {held.length > 1 ? `, and ${held.length - 1} more` : ''}
          </p>
        ) : null}
      </td>
      <td class="right" data-label="handed out / min">
        {list.dispatchedLastMinute.toLocaleString('en')}
      </td>
      <td data-label="pollers">
        <Pollers list={list} />
      </td>
    </tr>
  );
}

/** Shows the limit groups of the domain, with the lists that share their limits. */
function Groups({ domain, lists }: { domain: string; lists: TaskList[] }): JSX.Element | null {
  const { value, problem, refresh } = useReading(`groups of ${domain}`, (signal) =>
    get<Schemas['LimitGroups']>(`${domainPath(domain)}/limit-groups`, signal),
  );
  const groups = value?.groups ?? [];
  if (!problem && groups.length === 0 && !mayDo('limit', domain)) return null;
  return (
    <section class="groups">
      <h2>Limit groups</h2>
      <Trouble problem={problem} />
      {value && groups.length === 0 ? (
        <p class="quieter">No groups. The task lists of a group share its limits.</p>
      ) : null}
      {groups.length > 0 ? (
        <div class="cards">
          {groups.map((group) => (
            <GroupCard key={group.name} group={group} lists={lists} domain={domain} done={refresh} />
          ))}
        </div>
      ) : null}
      {value ? <Actions actions={[newGroup(domain)]} domain={domain} label="Limit groups" done={refresh} /> : null}
    </section>
  );
}

function GroupCard({
  group,
  lists,
  domain,
  done,
}: {
  group: Group;
  lists: TaskList[];
  domain: string;
  done: () => Promise<void>;
}): JSX.Element {
  const members = lists.filter(({ limits }) => limits?.group === group.name);
  const used = members.flatMap(({ uses }) => uses ?? []).find(({ scope }) => scope === 'group');
  return (
    <section class="card compact" data-row tabIndex={-1}>
      <header>
        <h2>
          <Name>{group.name}</Name>
        </h2>
        <span>{limitsOf(group)}</span>
        {used ? <span class="quieter">{used.running.toLocaleString('en')} running</span> : null}
        <span class="grow" />
        <Actions
          actions={actionsOfGroup(domain, group)}
          domain={domain}
          label={`Actions for ${group.name}`}
          done={done}
        />
      </header>
      <p class="quieter">
        {members.length === 0 ? 'No lists.' : 'Shared by '}
        {members.map((list, index) => (
          <span key={`${list.kind} ${list.name}`}>
            {index > 0 ? ', ' : ''}
            <a class="link" href={pathOf({ page: 'list', domain, list: list.name })}>
              <Name>{list.name}</Name>
            </a>
            {list.kind === 'decider' ? ' (deciders)' : ''}
          </span>
        ))}
      </p>
    </section>
  );
}

/** Shows who has paused a list, since when and why. */
export function Pause({ list }: { list: TaskList }): JSX.Element | null {
  const { paused } = list;
  if (!paused) return null;
  return (
    <span class="warn">
      paused <Since at={paused.since} />
      {paused.identity ? (
        <>
          {' '}
          by <Name>{paused.identity}</Name>
        </>
      ) : null}
      {paused.by ? (
        <>
          {' '}
          (credential <Name>{paused.by}</Name>)
        </>
      ) : null}
      {paused.stopClocks ? ', schedule-to-start timeouts stopped' : null}
      {paused.reason ? (
        <>
          : <Name>{paused.reason}</Name>
        </>
      ) : null}
    </span>
  );
}

export function Pollers({ list }: { list: TaskList }): JSX.Element {
  const pollers = list.pollers ?? [];
  const words = polledBy(list, now.value);
  const line = isLonely(list) ? <span class="warn">{words}</span> : <span>{words}</span>;
  if (pollers.length === 0 && (list.pollingNodes ?? []).length === 0) return line;
  return (
    <details class="pollers">
      <summary>{line}</summary>
      <ul class="plain">
        {pollers.map((one) => (
          <li key={`${one.identity ?? ''} ${one.by ?? ''}`}>
            <Name>{one.identity ?? one.by ?? 'anonymous'}</Name>
            {one.by && one.identity ? <span class="quieter"> as {<Name>{one.by}</Name>}</span> : null}
            <span class="quieter">
              {' '}
              · <Since at={one.since} />
              {one.lastPolledAt ? (
                <>
                  , last <Time at={one.lastPolledAt} />
                </>
              ) : null}
              {one.polls > 1 ? `, ${one.polls} at once` : ''}
            </span>
          </li>
        ))}
        {(list.pollingNodes ?? []).map((node) => (
          <li key={node}>
            at node <Name>{node}</Name>
          </li>
        ))}
      </ul>
    </details>
  );
}
