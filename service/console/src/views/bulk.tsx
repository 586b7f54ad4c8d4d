// Actions on selected runs: a bar with the actions, and a dialog that first shows which runs are affected, and then the
// outcomes. Actions on all runs that match a filter are batches.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { newKey, send } from '../api';
import { BULK_ACTIONS, type BulkAction, type Failed, type Target, Work, pathOfBulk } from '../bulk';
import { type Values, bodyOf, lackOf } from '../fields';
import { pathOf } from '../route';
import { mayDo } from '../session';
import { Name, Trouble } from '../ui';
import { visible } from '../words';
import { Fields, keepWho, useForm } from './fields';

interface Bulk {
  action: BulkAction;
  domain: string;
  /** Selected runs that are open. */
  chosen: Target[];
  /** Number of selected runs that have closed. */
  closed: number;
  /** Called when the action has been applied to a run. */
  done: () => void;
}
export const bulk = signal<Bulk | undefined>(undefined);

/** Number of ids that the preview shows. Our choice. */
const FIRST = 8;

export function BulkDialog(): JSX.Element | null {
  return bulk.value ? <Dialog key={bulk.value.action.name} {...bulk.value} /> : null;
}

function close(): void {
  bulk.value = undefined;
}

const runs = (count: number): string => `${count.toLocaleString('en')} run${count === 1 ? '' : 's'}`;

function Dialog({ action, domain, chosen, closed, done }: Bulk): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const form = useForm(action.fields);
  // The values are fixed when the work begins, so that all runs get the same values, even after a retry.
  const sent = useRef<Values>({});
  const work = useMemo(() => {
    const rest = [chosen];
    const sendOne = (target: Target, key: string): Promise<unknown> =>
      send(pathOfBulk(action, domain, target, sent.current), bodyOf(action.fields, sent.current), key);
    return new Work(() => Promise.resolve(rest.pop() ?? []), sendOne, newKey());
  }, []);
  useLayoutEffect(() => {
    dialog.current?.showModal();
  }, []);
  const stage = work.stage.value;
  const isWorking = stage === 'working' || stage === 'stopping';
  const how = runs(chosen.length);
  const begin = (): void => {
    if (stage !== 'planned' || chosen.length === 0) return;
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
              <Planned chosen={chosen} closed={closed} domain={domain} />
              {chosen.length === 0 ? null : <Fields form={form} />}
            </>
          ) : (
            <Progress work={work} of={chosen.length} action={action} domain={domain} />
          )}
          <Trouble problem={work.problem.value} />
        </div>
        <div class="dialog-buttons">
          {stage === 'planned' ? (
            <button type="submit" class={action.isGrave ? 'main grave' : 'main'} disabled={chosen.length === 0}>
              {action.verb} {how}
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

function Planned({ chosen, closed, domain }: { chosen: Target[]; closed: number; domain: string }): JSX.Element {
  const left = closed > 0 ? `${runs(closed)} already closed: not affected.` : '';
  if (chosen.length === 0) return <p>None of these runs is open. {left}</p>;
  return (
    <div class="planned">
      <FirstRuns domain={domain} first={chosen} count={chosen.length} truncated={false} />
      {left ? <p class="quieter">{left}</p> : null}
    </div>
  );
}

/** Shows the first of many runs, and the number of the others. */
export function FirstRuns({
  domain,
  first,
  count,
  truncated,
}: {
  domain: string;
  first: Target[];
  count: number;
  /** True if there may be more runs. */
  truncated: boolean;
}): JSX.Element {
  const shown = first.slice(0, FIRST);
  const more = count - shown.length;
  return (
    <>
      <ul aria-label="First runs">
        {shown.map((run) => (
          <li key={run.runId} class="cut">
            <RunLink domain={domain} target={run} />
          </li>
        ))}
      </ul>
      {more > 0 ? (
        <p class="quieter">
          and {more.toLocaleString('en')}
          {truncated ? ' or more' : ''} more
        </p>
      ) : null}
    </>
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
  of,
  action,
  domain,
}: {
  work: Work;
  /** Number of runs. */
  of: number;
  action: BulkAction;
  domain: string;
}): JSX.Element {
  const [done, changed, failed] = [work.done.value, work.changed.value, work.failed.value];
  const stage = work.stage.value;
  const came = done + changed.length + failed.length;
  const count = Math.max(of, came);
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
  isAll,
  ask,
  batch,
  all,
  clear,
  domain,
}: {
  domain: string;
  /** Description of the selection. */
  words: string;
  /** Number of matching runs, if all of them can still be selected. */
  total: string | undefined;
  /** True if all matching runs are selected. */
  isAll: boolean;
  ask: (action: BulkAction) => void;
  batch: () => void;
  all: () => void;
  clear: () => void;
}): JSX.Element {
  const mayBatch = mayDo('batch', domain);
  return (
    <div class="bulk" role="group" aria-label="Actions for the selected runs">
      <b role="status">{words}</b>
      {total === undefined || !mayBatch ? null : (
        <button type="button" class="link" onClick={all} title="Key X">
          select all {total} matching
        </button>
      )}
      <span class="grow" />
      {isAll
        ? null
        : BULK_ACTIONS.filter(({ name }) => mayDo(name, domain)).map((action) => (
            <button
              key={action.name}
              type="button"
              class={action.isGrave ? 'act grave' : 'act'}
              onClick={() => ask(action)}
            >
              {action.label}
            </button>
          ))}
      {mayBatch ? (
        <button type="button" class="act" onClick={batch}>
          Create batch…
        </button>
      ) : isAll ? (
        <span class="quieter">Only operators of the domain can change all matching runs.</span>
      ) : null}
      <button type="button" class="quiet" onClick={clear} title="Key Esc">
        clear
      </button>
    </div>
  );
}
