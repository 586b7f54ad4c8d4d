// The page of task lists of a domain: waiting tasks, their age, tasks in progress, pollers, and dispatched tasks per
// minute.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { get } from '../api';
import { useChanges } from '../changes';
import type { Schemas } from '../fold';
import { type TaskList, inOrder, isLonely, polledBy, waitingOf } from '../lists';
import { domainPath } from '../paths';
import { useReading } from '../reading';
import { pathOf } from '../route';
import { go, now, place, setQuery } from '../state';
import { Empty, Name, Refresh, Since, Time, Trouble } from '../ui';

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
  // The page has an earlier address, which is replaced by the current address.
  const { path, query } = place.value;
  useEffect(() => {
    if (path !== pathOf({ page: 'lists', domain })) go({ page: 'lists', domain }, query, true);
  }, [path]);
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
      {page && lists.length === 0 ? <Empty>No waiting tasks and no pollers.</Empty> : null}
      {lists.length > 0 ? (
        <table class="grid lists">
          <thead>
            <tr>
              <th>task list</th>
              <th>kind</th>
              <th class="right">waiting</th>
              <th>
                <span class="unseen">relative length</span>
              </th>
              <th>oldest</th>
              <th class="right">in flight</th>
              <th class="right">handed out / min</th>
              <th>pollers</th>
            </tr>
          </thead>
          <tbody>
            {lists.map((list) => (
              <Line key={nameOf(list)} list={list} most={most} domain={domain} />
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
    </main>
  );
}

/**
 * Returns the name of a list in the address. It includes the kind, because a list of deciders and a list of runners may
 * have the same name.
 */
const nameOf = (list: TaskList): string => `${list.kind} ${list.name}`;

function Line({ list, most, domain }: { list: TaskList; most: number; domain: string }): JSX.Element {
  const isOpen = place.value.query.get('list') === nameOf(list);
  return (
    <>
      <Row list={list} most={most} isOpen={isOpen} />
      {isOpen ? (
        <tr class="waiting-tasks">
          <td colSpan={8}>
            <WaitingTasks list={list} domain={domain} />
          </td>
        </tr>
      ) : null}
    </>
  );
}

/**
 * Shows the waiting tasks of a list in the order in which they will be dispatched. Reads them again when the list
 * changes.
 */
function WaitingTasks({ list, domain }: { list: TaskList; domain: string }): JSX.Element {
  const { value, problem } = useReading(
    `${domain} ${nameOf(list)} ${list.waiting} ${list.dispatchedLastMinute} ${list.oldestSince ?? ''}`,
    (signal) => get<Page>(`${domainPath(domain)}/task-lists/${encodeURIComponent(list.name)}`, signal),
  );
  const [seen, setSeen] = useState<TaskList>();
  useEffect(() => {
    const found = value?.taskLists.find(({ kind }) => kind === list.kind);
    if (found) setSeen(found);
  }, [value]);
  const tasks = seen?.next ?? [];
  if (problem) return <Trouble problem={problem} />;
  if (!seen) return <p class="quieter">Loading the waiting tasks…</p>;
  if (tasks.length === 0)
    return <p class="quieter">{seen.waiting > 0 ? 'The waiting tasks are not in memory.' : 'No waiting tasks.'}</p>;
  return (
    <ol class="plain tasks">
      {tasks.map((task) => (
        <li key={`${task.runId} ${task.scheduledEventId}`}>
          <a
            class="link"
            href={`${pathOf({ page: 'run', domain, workflowId: task.workflowId, runId: task.runId, view: 'turns' })}?event=${task.scheduledEventId}`}
          >
            <Name>{task.workflowId}</Name>
          </a>{' '}
          <span class="quieter">
            event {task.scheduledEventId}
            {task.since ? (
              <>
                {' '}
                · waiting <Since at={task.since} />
              </>
            ) : null}
            {task.priority === 0 ? '' : ` · priority ${task.priority}`}
          </span>
        </li>
      ))}
      {seen.waiting > tasks.length || seen.moreWaiting ? (
        <li class="quieter">
          and {seen.moreWaiting ? 'more' : `${(seen.waiting - tasks.length).toLocaleString('en')} more`}
        </li>
      ) : null}
    </ol>
  );
}

function Row({ list, most, isOpen }: { list: TaskList; most: number; isOpen: boolean }): JSX.Element {
  return (
    <tr class={isLonely(list) ? 'warned' : ''} data-row tabIndex={-1}>
      <td class="strong">
        <button
          type="button"
          class="unfolds"
          aria-expanded={isOpen}
          title="Show waiting tasks"
          onClick={() => setQuery({ list: isOpen ? undefined : nameOf(list) })}
        >
          <Name>{list.name}</Name>
        </button>
      </td>
      <td>{list.kind === 'decider' ? 'deciders' : 'runners'}</td>
      <td class="right" data-label="waiting">
        {waitingOf(list)}
      </td>
      <td>
        <meter min={0} max={most} value={list.waiting} aria-label="relative length" />
      </td>
      <td data-label="oldest">{list.waiting > 0 ? <Time at={list.oldestSince} /> : <span class="quieter">–</span>}</td>
      <td class="right" data-label="in flight">
        {list.inFlight == null ? '–' : list.inFlight.toLocaleString('en')}
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

function Pollers({ list }: { list: TaskList }): JSX.Element {
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
