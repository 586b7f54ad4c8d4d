// Actions on many runs: a bar with the actions, and a dialog that first shows which runs are affected, and then the
// outcomes.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Problem, get, newKey, post, problemOf } from '../api';
import { BULK_ACTIONS, type BulkAction, type Failed, type Target, Work, openOf, pathOfBulk } from '../bulk';
import { type Values, bodyOf, lackOf } from '../fields';
import { type Filter, queryOfFilter } from '../filter';
import type { Schemas } from '../fold';
import { domainPath } from '../paths';
import { pathOf } from '../route';
import { mayDo } from '../session';
import { Name, Trouble } from '../ui';
import { visible } from '../words';
import { Fields, keepWho, useForm } from './fields';

interface Bulk {
  action: BulkAction;
  domain: string;
  /** Runs that were selected one by one. If absent, all runs that match the filter are selected. */
  chosen?: Target[];
  /** Number of selected runs that have closed. */
  closed: number;
  filter: Filter;
  /** Called when the action has been applied to a run. */
  done: () => void;
}
export const bulk = signal<Bulk | undefined>(undefined);

/** Number of ids that the preview shows, and number of runs read at a time. Our choice. */
const FIRST = 8;
const PAGE = 200;

export function BulkDialog(): JSX.Element | null {
  return bulk.value ? <Dialog key={bulk.value.action.name} {...bulk.value} /> : null;
}

function close(): void {
  bulk.value = undefined;
}

/** Returns a function that reads the open runs that match a filter, one page per call. */
function pagesOf(domain: string, filter: Filter): () => Promise<Target[]> {
  let page: string | undefined | null = '';
  return async () => {
    while (page != null) {
      const query = queryOfFilter(filter);
      query.set('limit', String(PAGE));
      if (page) query.set('page', page);
      const { workflows, nextPage } = await get<Schemas['Workflows']>(`${domainPath(domain)}/workflows?${query}`);
      page = nextPage;
      if (workflows.length > 0) return workflows;
    }
    return [];
  };
}

interface Plan {
  count: number;
  /** True if counting stopped at a limit, so that there may be more runs. */
  truncated: boolean;
  first: Target[];
}

/** Returns the number of affected runs and the first few of them. */
async function planOf({ domain, chosen, filter }: Bulk): Promise<Plan> {
  if (chosen) return { count: chosen.length, truncated: false, first: chosen.slice(0, FIRST) };
  const open = openOf(filter);
  if (!open) return { count: 0, truncated: false, first: [] };
  const query = queryOfFilter(open);
  const [{ count, truncated }, { workflows }] = await Promise.all([
    get<Schemas['Count']>(`${domainPath(domain)}/workflow-count?${query}`),
    get<Schemas['Workflows']>(`${domainPath(domain)}/workflows?${query}&limit=${FIRST}`),
  ]);
  return { count, truncated, first: workflows };
}

const runs = (count: number, more = ''): string => `${count.toLocaleString('en')}${more} run${count === 1 ? '' : 's'}`;

function Dialog(asked: Bulk): JSX.Element {
  const { action, domain, chosen, closed, filter, done } = asked;
  const dialog = useRef<HTMLDialogElement>(null);
  const form = useForm(action.fields);
  const [plan, setPlan] = useState<Plan>();
  const [problem, setProblem] = useState<Problem>();
  // The values are fixed when the work begins, so that all runs get the same values, even after a retry.
  const sent = useRef<Values>({});
  const work = useMemo(() => {
    const rest = chosen ? [chosen] : undefined;
    const next = rest ? () => Promise.resolve(rest.pop() ?? []) : pagesOf(domain, openOf(filter) ?? { status: 'open' });
    const send = (target: Target, key: string): Promise<unknown> =>
      post(pathOfBulk(action, domain, target, sent.current), bodyOf(action.fields, sent.current), key);
    return new Work(next, send, newKey());
  }, []);
  useLayoutEffect(() => {
    dialog.current?.showModal();
  }, []);
  useEffect(() => {
    planOf(asked).then(setPlan, (error: unknown) => setProblem(problemOf(error)));
  }, []);
  const stage = work.stage.value;
  const isWorking = stage === 'working' || stage === 'stopping';
  const how = plan ? runs(plan.count, plan.truncated ? '+' : '') : 'runs';
  const begin = (): void => {
    if (stage !== 'planned' || !plan?.count) return;
    const found = lackOf(action.fields, form.values);
    form.setLack(found);
    if (Object.keys(found).length > 0) return;
    sent.current = form.values;
    keepWho(form.values['identity']);
    void work.go().then(done);
  };
  return (
    <dialog
      ref={dialog}
      class="act-dialog bulk-dialog"
      aria-labelledby="bulk-title"
      onClose={() => {
        work.stop();
        close();
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          begin();
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) begin();
        }}
      >
        <div class="dialog-body">
          <h2 id="bulk-title">
            {action.verb} {how}
          </h2>
          {stage === 'planned' ? (
            <>
              <p class="says">{action.says}</p>
              <Planned plan={plan} closed={closed} domain={domain} isAll={!chosen} />
              {plan?.count === 0 ? null : <Fields form={form} />}
            </>
          ) : (
            <Progress work={work} plan={plan} action={action} domain={domain} />
          )}
          <Trouble problem={problem ?? work.problem.value} />
        </div>
        <div class="dialog-buttons">
          {stage === 'planned' ? (
            <button type="submit" class={action.isGrave ? 'main grave' : 'main'} disabled={!plan?.count}>
              {plan ? `${action.verb} ${how}` : 'counting…'}
            </button>
          ) : isWorking ? (
            <button type="button" class="main" disabled={stage === 'stopping'} onClick={() => work.stop()}>
              {stage === 'stopping' ? 'stopping…' : 'Stop'}
            </button>
          ) : stage === 'stopped' ? (
            <button type="button" class="main" onClick={() => void work.go().then(done)}>
              Continue
            </button>
          ) : work.failed.value.length > 0 ? (
            <button type="button" class="main" onClick={() => void work.again().then(done)}>
              Retry {work.failed.value.length === 1 ? 'the failed run' : `the ${work.failed.value.length} failed runs`}
            </button>
          ) : null}
          {isWorking ? null : (
            <button type="button" onClick={close}>
              {stage === 'planned' ? 'Cancel' : 'Close'}
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

function Planned({
  plan,
  closed,
  domain,
  isAll,
}: {
  plan: Plan | undefined;
  closed: number;
  domain: string;
  isAll: boolean;
}): JSX.Element | null {
  if (!plan) return <p class="quieter">Counting…</p>;
  const left = closed > 0 ? `${runs(closed)} already closed: not affected.` : '';
  if (plan.count === 0) return <p>None of these runs is open. {left}</p>;
  const more = plan.count - plan.first.length;
  return (
    <div class="planned">
      <ul aria-label="First runs">
        {plan.first.map((run) => (
          <li key={run.runId} class="cut">
            <RunLink domain={domain} target={run} />
          </li>
        ))}
      </ul>
      <p class="quieter">
        {more > 0 ? `and ${more.toLocaleString('en')}${plan.truncated ? ' or more' : ''} more. ` : ''}
        {left} {isAll ? 'Only runs that are open now are affected.' : ''}
      </p>
    </div>
  );
}

function RunLink({ domain, target }: { domain: string; target: Target }): JSX.Element {
  const { workflowId, runId } = target;
  return (
    <a href={pathOf({ page: 'run', domain, workflowId, runId, view: 'turns' })} target="_blank" rel="noopener">
      <Name>{workflowId}</Name>
    </a>
  );
}

function Progress({
  work,
  plan,
  action,
  domain,
}: {
  work: Work;
  plan: Plan | undefined;
  action: BulkAction;
  domain: string;
}): JSX.Element {
  const [done, changed, failed] = [work.done.value, work.changed.value, work.failed.value];
  const stage = work.stage.value;
  const came = done + changed.length + failed.length;
  const count = Math.max(plan?.count ?? 0, came);
  return (
    <div class="progress">
      <progress max={Math.max(1, count)} value={came} aria-label="Processed runs" />
      <p role="status">
        <b>{runs(done)}</b> {action.done}
        {changed.length > 0 ? `, ${changed.length} changed in the meantime` : ''}
        {failed.length > 0 ? `, ${failed.length} failed` : ''}
        {stage === 'done' ? '.' : `; ${Math.max(0, count - came).toLocaleString('en')} remaining.`}
        {stage === 'stopped' ? ' Stopped.' : ''}
      </p>
      <Outcomes label="changed in the meantime: not affected" list={changed} domain={domain} />
      <Outcomes label="failed" list={failed} domain={domain} />
    </div>
  );
}

/** Maximum number of outcomes that are shown. Our choice. */
const SHOWN_MAX = 100;

function Outcomes({ label, list, domain }: { label: string; list: Failed[]; domain: string }): JSX.Element | null {
  if (list.length === 0) return null;
  return (
    <section class="outcomes">
      <h3>{label}</h3>
      <ul>
        {list.slice(0, SHOWN_MAX).map(({ target, problem }) => (
          <li key={target.runId}>
            <RunLink domain={domain} target={target} /> <span>{visible(problem.detail)}</span>{' '}
            <code>{problem.code}</code>
          </li>
        ))}
      </ul>
      {list.length > SHOWN_MAX ? <p class="quieter">and {list.length - SHOWN_MAX} more</p> : null}
    </section>
  );
}

/** Shows the actions for the selected runs. */
export function BulkBar({
  words,
  total,
  ask,
  all,
  clear,
  domain,
}: {
  domain: string;
  /** Description of the selection. */
  words: string;
  /** Number of matching runs, if all of them can still be selected. */
  total: string | undefined;
  ask: (action: BulkAction) => void;
  all: () => void;
  clear: () => void;
}): JSX.Element {
  return (
    <div class="bulk" role="group" aria-label="Actions for the selected runs">
      <b role="status">{words}</b>
      {total === undefined ? null : (
        <button type="button" class="link" onClick={all} title="Key X">
          select all {total} matching
        </button>
      )}
      <span class="grow" />
      {BULK_ACTIONS.filter(({ name }) => mayDo(name, domain)).map((action) => (
        <button
          key={action.name}
          type="button"
          class={action.isGrave ? 'act grave' : 'act'}
          onClick={() => ask(action)}
        >
          {action.label}
        </button>
      ))}
      <button type="button" class="quiet" onClick={clear} title="Key Esc">
        clear
      </button>
    </div>
  );
}
