// The page of a task list: its limits and their use, its pause, and the next tasks with the limits that hold them back.
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { get } from '../api';
import { useChanges } from '../changes';
import type { Schemas } from '../fold';
import { type Group, actionsOfList, behindOf, heldBack, limitRows, runningOf } from '../limits';
import { type TaskList, isLonely, waitingOf } from '../lists';
import { domainPath } from '../paths';
import { useReading } from '../reading';
import { pathOf } from '../route';
import { Badge, Name, Refresh, Since, Time, Trouble } from '../ui';
import { Actions } from './act';
import { Pause, Pollers } from './lists';

interface Read {
  lists: TaskList[];
  node: string | undefined;
  groups: Group[];
}

/** Reads the lists of a name, and the limit groups that they can join. */
async function read(domain: string, name: string, signal: AbortSignal): Promise<Read> {
  const [page, found] = await Promise.all([
    get<Schemas['ListedTaskLists']>(`${domainPath(domain)}/task-lists/${encodeURIComponent(name)}`, signal),
    get<Schemas['LimitGroups']>(`${domainPath(domain)}/limit-groups`, signal),
  ]);
  return { lists: page.taskLists, node: page.node ?? undefined, groups: found.groups };
}

const isKnown = (list: TaskList): boolean =>
  list.waiting > 0 ||
  list.moreWaiting ||
  (list.inFlight ?? 0) > 0 ||
  (list.pollers ?? []).length > 0 ||
  (list.pollingNodes ?? []).length > 0 ||
  list.limits != null ||
  list.paused != null;

export function ListPage({ domain, name }: { domain: string; name: string }): JSX.Element {
  const { value, problem, refresh } = useReading(`${domain} ${name}`, (signal) => read(domain, name, signal));
  useChanges(domain, refresh);
  useEffect(() => {
    document.title = `${name} · Baton`;
  }, [name]);
  const groups = (value?.groups ?? []).map((group) => group.name);
  // The list in use comes first.
  const lists = [...(value?.lists ?? [])].sort((a, b) => Number(isKnown(b)) - Number(isKnown(a)));
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>
          <a class="quieter" href={pathOf({ page: 'lists', domain })}>
            Task lists
          </a>{' '}
          <span class="quieter" aria-hidden="true">
            /
          </span>{' '}
          <Name>{name}</Name>
        </h1>
        {value?.node ? (
          <span class="quieter">
            as seen by node <Name>{value.node}</Name>
          </span>
        ) : null}
        <span class="grow" />
        <Refresh refresh={refresh} />
      </div>
      <Trouble problem={problem} />
      <div class="cards">
        {lists.map((list) => (
          <ListCard key={list.kind} list={list} domain={domain} groups={groups} done={refresh} />
        ))}
      </div>
    </main>
  );
}

function ListCard({
  list,
  domain,
  groups,
  done,
}: {
  list: TaskList;
  domain: string;
  groups: string[];
  done: () => Promise<void>;
}): JSX.Element {
  const { running, max } = runningOf(list);
  return (
    <section class={`card list-card${isLonely(list) ? ' warned' : ''}`} aria-label={list.kind}>
      <header>
        <h2>{list.kind === 'decider' ? 'Deciders' : 'Runners'}</h2>
        {list.paused ? <Badge status="paused" /> : null}
        <span class="grow" />
        <Actions
          actions={actionsOfList(domain, list, groups)}
          domain={domain}
          label={`Actions for the list of ${list.kind === 'decider' ? 'deciders' : 'runners'}`}
          done={done}
        />
      </header>
      {isKnown(list) ? (
        <>
          <Paused list={list} />
          <dl class="facts">
            <div>
              <dt>waiting</dt>
              <dd>{waitingOf(list)}</dd>
            </div>
            {list.waiting > 0 && list.oldestSince ? (
              <div>
                <dt>oldest</dt>
                <dd>
                  <Time at={list.oldestSince} />
                </dd>
              </div>
            ) : null}
            {running === undefined ? null : (
              <div>
                <dt>running</dt>
                <dd>
                  {running.toLocaleString('en')}
                  {max === undefined ? '' : ` of ${max.toLocaleString('en')}`}
                </dd>
              </div>
            )}
            <div>
              <dt>handed out in the last minute</dt>
              <dd>{list.dispatchedLastMinute.toLocaleString('en')}</dd>
            </div>
            <div>
              <dt>pollers</dt>
              <dd>
                <Pollers list={list} />
              </dd>
            </div>
          </dl>
          <Limits list={list} />
          <NextTasks list={list} domain={domain} />
        </>
      ) : (
        <p class="quieter">No tasks, pollers, limits or pause.</p>
      )}
    </section>
  );
}

function Paused({ list }: { list: TaskList }): JSX.Element | null {
  if (!list.paused && !list.counting) return null;
  return (
    <p class="reason">
      <Pause list={list} />
      {list.counting ? (
        <span class="warn">The service counts the running tasks. No task starts until then.</span>
      ) : null}
    </p>
  );
}

const SCOPES: Record<string, string> = { list: 'list', group: 'group', key: 'key', 'each key': 'each key' };

/** Shows the limits with their use, and the number of tasks that wait behind each. */
function Limits({ list }: { list: TaskList }): JSX.Element | null {
  const rows = limitRows(list);
  const held = heldBack(list);
  const isLimited = list.limits != null || rows.some(({ scope }) => scope === 'key');
  return (
    <>
      {held.length > 0 ? (
        <ul class="plain held" aria-label="Waiting behind limits">
          {held.map((words) => (
            <li key={words}>
              <Name>{words}</Name>
            </li>
          ))}
        </ul>
      ) : null}
      {isLimited ? (
        <div class="scrolls">
          <table class="grid limits stacked">
            <thead>
              <tr>
                <th>limit</th>
                <th class="right">running</th>
                <th class="right">maximum</th>
                <th class="right">rate</th>
                <th class="right">weight</th>
                <th class="right">waiting behind it</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={`${row.scope} ${row.name ?? ''}`}>
                  <td>
                    <span class="quieter">{SCOPES[row.scope] ?? row.scope}</span>{' '}
                    {row.name === undefined ? null : <Name class="strong">{row.name}</Name>}
                  </td>
                  <td
                    class={`right${row.running !== undefined && row.running === row.max ? ' warn' : ''}`}
                    data-label="running"
                  >
                    {row.running?.toLocaleString('en')}
                  </td>
                  <td class="right" data-label="maximum">
                    {row.max?.toLocaleString('en')}
                  </td>
                  <td class="right" data-label="rate">
                    {row.rate || null}
                  </td>
                  <td class="right" data-label="weight">
                    {row.weight === 1 ? null : row.weight}
                  </td>
                  <td class={`right${row.waiting > 0 ? ' warn' : ''}`} data-label="waiting behind it">
                    {row.waiting > 0 ? row.waiting.toLocaleString('en') : null}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </>
  );
}

/** Returns the address of a task's run, with the event that created the task. */
function pathOfTask(domain: string, { workflowId, runId, scheduledEventId }: Schemas['ListedTask']): string {
  return `${pathOf({ page: 'run', domain, workflowId, runId, view: 'turns' })}?event=${scheduledEventId}`;
}

/** Shows the waiting tasks of a list in the order in which they will be dispatched. */
function NextTasks({ list, domain }: { list: TaskList; domain: string }): JSX.Element | null {
  const tasks = list.next ?? [];
  if (tasks.length === 0) return list.waiting > 0 ? <p class="quieter">The waiting tasks are not in memory.</p> : null;
  return (
    <>
      <h3>next tasks</h3>
      <ol class="plain tasks">
        {tasks.map((task) => (
          <li key={`${task.runId} ${task.scheduledEventId}`} data-row tabIndex={-1}>
            <a class="link" href={pathOfTask(domain, task)}>
              <Name>{task.workflowId}</Name>
            </a>{' '}
            {task.concurrencyKey ? (
              <span class="tag" title="concurrency key">
                <Name>{task.concurrencyKey}</Name>
              </span>
            ) : null}
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
            {task.behind && task.behind.length > 0 ? (
              <span class="behind">
                {' '}
                · <Name>{behindOf(task.behind, list.name)}</Name>
              </span>
            ) : null}
          </li>
        ))}
        {list.waiting > tasks.length || list.moreWaiting ? (
          <li class="quieter">
            and {list.moreWaiting ? 'more' : `${(list.waiting - tasks.length).toLocaleString('en')} more`}
          </li>
        ) : null}
      </ol>
    </>
  );
}
