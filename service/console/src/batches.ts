// Batches, that is, operations on many runs that the service performs: their fields, their requests, and texts about
// their progress. Pure functions.
import type { Action } from './actions';
import { type Field, REASON, type Values, WHO, bodyOf, payload } from './fields';
import { type Filter, OUTCOMES, parseFilter, textOfFilter } from './filter';
import type { Schemas } from './fold';
import { domainPath } from './paths';
import { duration } from './time';

export type Batch = Schemas['DescribedBatch'];
export type Kind = Schemas['BatchAction'];

interface Operation {
  type: Kind;
  label: string;
  /** Text before the number of runs. */
  verb: string;
  says: string;
  isGrave?: boolean;
  fields: Field[];
}

export const OPERATIONS: Operation[] = [
  {
    type: 'retry-activities',
    label: 'retry activities',
    verb: 'Retry activities of',
    says: 'Retries all activities of each run that are blocked or wait for their next attempt.',
    fields: [
      {
        name: 'operation.failureReason',
        label: 'last failure',
        kind: 'line',
        hint: 'only activities whose last failure has this reason; optional',
      },
    ],
  },
  {
    type: 'signal',
    label: 'signal',
    verb: 'Signal',
    says: 'Records the signal in each run. The decider of each sees it in its next turn.',
    fields: [
      { name: 'operation.name', label: 'signal', kind: 'line', isRequired: true },
      payload('operation.input', 'input'),
    ],
  },
  {
    type: 'cancel',
    label: 'request cancel',
    verb: 'Request cancel of',
    says: 'Asks the decider of each run to end it. The decider decides how.',
    fields: [],
  },
  {
    type: 'pause',
    label: 'pause',
    verb: 'Pause',
    says: 'No turns or activities of the runs are handed out until they are resumed. Tasks in progress continue.',
    fields: [{ name: 'operation.stopClocks', label: 'also stop timers and timeouts', kind: 'flag' }],
  },
  {
    type: 'resume',
    label: 'resume',
    verb: 'Resume',
    says: 'Makes the turns and activities of paused runs available again.',
    fields: [],
  },
  {
    type: 'reset',
    label: 'reset',
    verb: 'Reset',
    says:
      'Starts a new run for each run, which continues from one of its events. Open runs are terminated. ' +
      'A run refuses if its workflow id has a newer run.',
    fields: [
      {
        name: 'operation.to',
        label: 'from',
        kind: 'choice',
        choices: [
          ['last-turn', 'last turn: its decider makes the last decision again'],
          ['first-event', 'first event: the run begins again'],
          ['', 'another event'],
        ],
      },
      {
        name: 'operation.eventId',
        label: 'event',
        kind: 'number',
        isRequired: true,
        hint: 'the last event to keep, the same in each run',
      },
      {
        name: 'operation.signals',
        label: 'later signals',
        kind: 'choice',
        choices: [
          ['reapply', 'reapply to the new run'],
          ['drop', 'drop'],
        ],
      },
    ],
  },
  {
    type: 'terminate',
    label: 'terminate',
    verb: 'Terminate',
    says:
      'Ends the runs immediately, without asking their deciders. Open activities and timers are abandoned; ' +
      'children follow their child policy.',
    isGrave: true,
    fields: [],
  },
  {
    type: 'delete',
    label: 'delete',
    verb: 'Delete',
    says: 'Deletes the closed runs with their histories. This cannot be undone.',
    isGrave: true,
    fields: [],
  },
];

export const operationOf = (type: string | undefined): Operation =>
  OPERATIONS.find((one) => one.type === type) ?? (OPERATIONS[0] as Operation);

/** Returns the operation that is proposed for the runs of a filter. */
export function proposedFor({ status, closedFrom, closedBefore }: Filter): Kind {
  if (status === 'blocked' || status === 'retrying') return 'retry-activities';
  if (status === 'paused') return 'resume';
  if (status === 'failed' || status === 'timed-out') return 'reset';
  const isClosed = status === 'closed' || (OUTCOMES as readonly string[]).includes(status ?? '');
  return isClosed || closedFrom || closedBefore ? 'delete' : 'signal';
}

const OPERATION: Field = {
  name: 'operation.type',
  label: 'operation',
  kind: 'choice',
  choices: OPERATIONS.map(({ type, label }) => [type, label]),
};
/** Field of the filter. It is not a member of the body, because the body has a filter with separate members. */
const FILTER: Field = {
  name: '/filter',
  label: 'runs',
  kind: 'line',
  hint: 'filter, as in the list of runs, for example status:blocked type:order',
  check: (text) => parseFilter(text).problems.join(' ') || undefined,
};
const PACE: Field = {
  name: 'pace',
  label: 'pace',
  kind: 'number',
  hint: 'runs per second, 1 to 1,000; 50 if empty',
};

const COMMON: readonly Field[] = [REASON, PACE, WHO];

/** Fields of all operations. They have the initial values. */
export const ALL_FIELDS: Field[] = [
  OPERATION,
  FILTER,
  ...OPERATIONS.flatMap(({ fields }) => fields),
  REASON,
  PACE,
  WHO,
];

/** Returns the fields that a batch with these values has. */
export function fieldsOfBatch(values: Values): Field[] {
  const { fields } = operationOf(values['operation.type']);
  const isShown = ({ name }: Field): boolean => name !== 'operation.eventId' || values['operation.to'] === '';
  return [OPERATION, FILTER, ...fields.filter(isShown), ...COMMON];
}

/** Returns whether a field follows the dry run, because it does not determine what the batch does. */
export const isCommon = (field: Field): boolean => COMMON.includes(field);

/** Returns the filter of a batch: that of the text, and the selected workflow ids, if any. */
export function filterOfBatch(text: string, ids: readonly string[] = []): Schemas['BatchFilter'] {
  const { order: _, ...filter } = parseFilter(text).filter;
  return ids.length > 0 ? { ...filter, workflowIds: [...ids] } : filter;
}

/** Returns the text of the filter with which the dialog begins. */
export function textForBatch({ order: _, ...filter }: Filter, hasIds: boolean): string {
  // Selected workflow ids cannot be combined with another condition for ids, and they match it anyway.
  const { workflowId, workflowIdPrefix, ...rest } = filter;
  return textOfFilter(hasIds ? rest : filter);
}

/** Returns the body of the request that creates a batch. */
export function bodyOfBatch(values: Values, ids?: readonly string[]): string {
  const filter = JSON.stringify(filterOfBatch(values['/filter'] ?? '', ids));
  return `{"filter":${filter},${bodyOf(fieldsOfBatch(values), values).slice(1)}`;
}

/** Returns the body of a dry run. Its result depends only on the kind of the operation and on the filter. */
export function bodyOfDryRun(type: string, text: string, ids?: readonly string[]): string {
  const needed = type === 'signal' ? { name: 'any' } : type === 'reset' ? { to: 'first-event' } : {};
  return JSON.stringify({ dryRun: true, operation: { type, ...needed }, filter: filterOfBatch(text, ids) });
}

export const runs = (count: number): string => `${count.toLocaleString('en')} run${count === 1 ? '' : 's'}`;

/** Describes the runs of a batch: its filter as text, and the number of its workflow ids. */
export function selectionOf({ workflowIds, ...filter }: Schemas['BatchFilter']): string {
  const given = Object.entries(filter).filter(([, value]) => value != null);
  const text = textOfFilter(Object.fromEntries(given) as Filter);
  const ids = workflowIds?.length ?? 0;
  return [ids > 0 ? `${ids} workflow id${ids === 1 ? '' : 's'}` : '', text].filter(Boolean).join(' ');
}

/** Describes an operation, with its parameters. */
export function wordsOfOperation({
  type,
  failureReason,
  name,
  to,
  eventId,
  stopClocks,
}: Schemas['BatchedOperation']): string {
  const more = {
    'retry-activities': failureReason ? ` that failed with ${failureReason}` : '',
    signal: name ? ` ${name}` : '',
    reset: to ? ` to the ${to.replace('-', ' ')}` : eventId == null ? '' : ` to event ${eventId}`,
    pause: stopClocks ? ' with timers and timeouts' : '',
  };
  const { label } = operationOf(type);
  const words = label + (more[type as keyof typeof more] ?? '');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export interface Progress {
  /** Number of runs on which the batch has operated, or that have refused. */
  came: number;
  total: number;
  words: string;
}

/** Returns the progress of a batch. The total is an estimate, so it may be lower than the number of runs so far. */
export function progressOf({ status, done, refused, estimatedTotal, estimateTruncated, pace }: Batch): Progress {
  const came = done + refused;
  const refusals = refused > 0 ? `, ${refused.toLocaleString('en')} refused` : '';
  if (status === 'completed') return { came: 1, total: 1, words: `${runs(done)} done${refusals}` };
  const total = Math.max(estimatedTotal, came);
  const of = estimateTruncated ? `${total.toLocaleString('en')} or more runs` : `about ${runs(total)}`;
  const left = Math.ceil((total - came) / Math.max(1, pace)) * 1000;
  const rest = status === 'running' && left > 0 ? `; at least ${duration(left)} left` : '';
  return { came, total, words: `${done.toLocaleString('en')} of ${of} done${refusals}${rest}` };
}

/** Returns the actions for a batch. */
export function actionsOfBatch(domain: string, { batchId, status, pace }: Batch): Action[] {
  const path = (what = ''): Action['path'] => {
    return () => `${domainPath(domain)}/batches/${encodeURIComponent(batchId)}${what}`;
  };
  const isOver = status === 'completed';
  const stop: Action =
    status === 'running'
      ? {
          name: 'stop',
          label: 'Stop',
          title: 'Stop batch',
          says: 'Stops after the step in progress, of at most 100 runs. The batch can be resumed.',
          does: 'Stop',
          fields: [],
          path: path('/stop'),
        }
      : {
          name: 'resume',
          label: 'Resume',
          title: 'Resume batch',
          says: 'Continues with the remaining runs.',
          does: 'Resume',
          fields: [],
          path: path('/resume'),
        };
  const change: Action = {
    name: 'pace',
    label: 'Change pace',
    title: 'Change pace',
    says: 'Applies from the next step of the batch.',
    does: 'Change pace',
    method: 'PUT',
    fields: [{ ...PACE, hint: 'runs per second, 1 to 1,000', isRequired: true, initial: String(pace) }],
    path: path('/pace'),
  };
  const remove: Action = {
    name: 'delete',
    label: 'Delete',
    title: 'Delete batch',
    says: 'Deletes the batch and its counts. Its runs are not affected.',
    does: 'Delete',
    method: 'DELETE',
    isGrave: true,
    fields: [],
    path: path(),
  };
  return [...(isOver ? [] : [stop, change]), ...(status === 'running' ? [] : [remove])];
}
