// The dialog that creates a batch: the operation, the runs, a dry run that counts them, and the request.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Problem, newKey, problemOf, send } from '../api';
import {
  ALL_FIELDS,
  type Batch,
  type Kind,
  bodyOfBatch,
  bodyOfDryRun,
  fieldsOfBatch,
  isCommon,
  operationOf,
  proposedFor,
  textForBatch,
} from '../batches';
import { type Values, lackOf } from '../fields';
import { type Filter, parseFilter } from '../filter';
import type { Schemas } from '../fold';
import { domainPath } from '../paths';
import { go } from '../state';
import { Trouble } from '../ui';
import { say } from './act';
import { FirstRuns } from './bulk';
import { Fields, type Form, keepWho, useForm } from './fields';

interface Batching {
  domain: string;
  filter: Filter;
  /** Workflow ids of runs that were selected one by one. */
  ids?: string[];
  operation?: Kind;
  /** Initial values of other fields, by name. */
  filled?: Values;
  /** Called when the batch is created. */
  done: () => void;
}
/** Batch whose dialog is open. */
export const batching = signal<Batching | undefined>(undefined);

/** Time without a change of the filter before a dry run, in milliseconds. Our choice. */
const TYPING_MS = 350;

export function BatchDialog(): JSX.Element | null {
  return batching.value ? <Dialog {...batching.value} /> : null;
}

function close(): void {
  batching.value = undefined;
}

/** Result of a dry run. */
interface Counted {
  /** Body of the dry run. */
  of: string;
  count: number;
  truncated: boolean;
  first: Schemas['Listed'][];
}

function Dialog({ domain, filter, ids, operation, filled, done }: Batching): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  // The key stays the same until a field changes, so that a repeated request creates only one batch.
  const key = useRef(newKey());
  const base = useForm(
    ALL_FIELDS,
    {
      'operation.type': operation ?? proposedFor(filter),
      '/filter': textForBatch(filter, ids !== undefined),
      ...filled,
    },
    () => {
      key.current = newKey();
    },
  );
  const { values } = base;
  const [counted, setCounted] = useState<Counted>();
  const [problem, setProblem] = useState<Problem>();
  const [isUnderWay, setUnderWay] = useState(false);
  useLayoutEffect(() => {
    dialog.current?.showModal();
  }, []);
  const text = values['/filter'] ?? '';
  const { problems } = parseFilter(text);
  const form: Form = {
    ...base,
    fields: fieldsOfBatch(values),
    lack: { ...base.lack, ...(problems.length > 0 ? { '/filter': problems.join(' ') } : {}) },
  };
  const { verb, says, isGrave, type } = operationOf(values['operation.type']);
  const dry = problems.length > 0 ? '' : bodyOfDryRun(type, text, ids);
  const isFirst = useRef(true);
  useEffect(() => {
    setProblem(undefined);
    if (!dry) return undefined;
    const stop = new AbortController();
    const ask = async (): Promise<void> => {
      try {
        const found = await send<Schemas['BatchDryRun']>(`${domainPath(domain)}/batches`, dry, newKey());
        if (stop.signal.aborted || !found) return;
        setCounted({ of: dry, count: found.count, truncated: found.truncated, first: found.workflows });
      } catch (error) {
        if (!stop.signal.aborted) setProblem(problemOf(error));
      }
    };
    const timer = setTimeout(() => void ask(), isFirst.current ? 0 : TYPING_MS);
    isFirst.current = false;
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [dry]);
  const plan = counted?.of === dry ? counted : undefined;
  const how = plan
    ? `${plan.count.toLocaleString('en')}${plan.truncated ? '+' : ''} run${plan.count === 1 ? '' : 's'}`
    : '';
  const create = async (): Promise<void> => {
    const found = lackOf(form.fields, values);
    form.setLack(found);
    if (Object.keys(found).length > 0 || isUnderWay || !plan?.count) return;
    setUnderWay(true);
    setProblem(undefined);
    try {
      const body = bodyOfBatch(values, ids);
      const batch = await send<Batch>(`${domainPath(domain)}/batches`, body, key.current);
      keepWho(values['identity']);
      close();
      done();
      say('Batch created.');
      if (batch) go({ page: 'batches', domain, batchId: batch.batchId });
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setUnderWay(false);
    }
  };
  return (
    <dialog
      ref={dialog}
      class="act-dialog bulk-dialog"
      aria-labelledby="batch-title"
      aria-describedby="batch-says"
      onClose={close}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void create();
        }}
      >
        <div class="dialog-body">
          <h2 id="batch-title">Create batch</h2>
          <p class="says" id="batch-says">
            {says}
          </p>
          {ids ? (
            <p class="says">
              Runs of {ids.length === 1 ? 'the selected workflow id' : `the ${ids.length} selected workflow ids`} that
              match the filter.
            </p>
          ) : null}
          <Fields form={{ ...form, fields: form.fields.filter((field) => !isCommon(field)) }} />
          <div class="planned" role="status">
            {problem && !plan ? null : !dry ? null : !plan ? (
              <p class="quieter">Dry run: counting the runs…</p>
            ) : plan.count === 0 ? (
              <p>Dry run: no run matches.</p>
            ) : (
              <>
                <p>
                  Dry run: <b>{how}</b> {plan.count === 1 ? 'matches' : 'match'}. Runs that start later are not
                  affected.
                </p>
                <FirstRuns domain={domain} first={plan.first} count={plan.count} truncated={plan.truncated} />
              </>
            )}
          </div>
          <Fields form={{ ...form, fields: form.fields.filter(isCommon) }} />
          <Trouble problem={problem} />
        </div>
        <div class="dialog-buttons">
          <button type="submit" class={isGrave ? 'main grave' : 'main'} disabled={!plan?.count || isUnderWay}>
            {plan ? `${verb} ${how}` : verb.replace(/ of$/, '')}
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  );
}
