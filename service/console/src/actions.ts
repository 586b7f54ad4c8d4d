// What can be done by hand: what each action asks for, what it says that it will do, and the request that it makes. Pure.
import { domainPath, workflowPath } from './paths';
import type { Schemas } from './fold';
import type { Described } from './words';

export interface Field {
  /** The name in the body; `timeouts.heartbeat` is within `timeouts`, and `/name` is a part of the path. */
  name: string;
  label: string;
  kind: 'line' | 'json' | 'choice' | 'flag';
  hint?: string;
  isRequired?: boolean;
  choices?: [value: string, label: string][];
  /** What may be meant. */
  offers?: string[];
  initial?: string;
}
export type Values = Record<string, string>;

export interface Action {
  name: string;
  /** On its button. */
  label: string;
  title: string;
  /** What will happen. */
  says: string;
  /** On the button that does it. */
  does: string;
  /** Whether it ends something. */
  isGrave?: boolean;
  fields: Field[];
  path: (values: Values) => string;
  /** Whether there is an answer to be read. */
  isAnswered?: boolean;
  /** Whether it leads to a run of its own. */
  leadsOn?: boolean;
}

export type Activity = Schemas['OpenActivity'];

const REASON: Field = { name: 'reason', label: 'reason', kind: 'line', hint: 'stands in the history' };
const WHO: Field = { name: 'identity', label: 'who you are', kind: 'line', hint: 'stands in the history' };
const payload = (name: string, label: string): Field => ({
  name,
  label,
  kind: 'json',
  hint: 'JSON, such as {"ok": true} or "a text"; empty for none',
});

/** Returns what the fields lack, by their names; nothing where the action can be done. */
export function lackOf(fields: readonly Field[], values: Values): Values {
  const lack: Values = {};
  for (const { name, kind, isRequired } of fields) {
    const value = values[name]?.trim() ?? '';
    if (value === '') {
      if (isRequired) lack[name] = 'It is needed.';
    } else if (kind === 'json') {
      try {
        JSON.parse(value);
      } catch {
        lack[name] = `This is not JSON. A text stands in quotes: ${JSON.stringify(value).slice(0, 60)}`;
      }
    }
  }
  return lack;
}

/** Returns the body, with payloads as they were typed: the service keeps every byte of them. */
export function bodyOf(fields: readonly Field[], values: Values): string {
  const members: string[] = [];
  const groups = new Map<string, string[]>();
  for (const { name, kind, initial, isRequired } of fields) {
    const value = values[name]?.trim() ?? '';
    // What was there before, and is not changed, is not asked for.
    if (
      name.startsWith('/') ||
      value === '' ||
      (kind === 'line' && !isRequired && initial !== undefined && value === initial)
    )
      continue;
    const text =
      kind === 'json' ? value : kind === 'flag' ? 'true' : name === 'eventId' ? value : JSON.stringify(value);
    const [group, member] = name.split('.');
    if (member === undefined) members.push(`${JSON.stringify(name)}:${text}`);
    else groups.set(group ?? '', [...(groups.get(group ?? '') ?? []), `${JSON.stringify(member)}:${text}`]);
  }
  for (const [group, inner] of groups) members.push(`${JSON.stringify(group)}:{${inner.join(',')}}`);
  return `{${members.join(',')}}`;
}

export const initialOf = (fields: readonly Field[]): Values =>
  Object.fromEntries(fields.map(({ name, initial, choices }) => [name, initial ?? choices?.[0]?.[0] ?? '']));

/** Returns what can be done with a run. `event` is the one that a reset starts from at first. */
export function actionsOfRun(domain: string, run: Described, event: number): Action[] {
  const at = (what: string): string =>
    `${workflowPath(domain, run.workflowId)}/${what}?runId=${encodeURIComponent(run.runId)}`;
  const named = (what: string): Action['path'] => {
    return (values) => at(`${what}/${encodeURIComponent(values['/name']?.trim() ?? '')}`);
  };
  const isOpen = run.status === 'open';
  const reset: Action = {
    name: 'reset',
    label: 'Reset',
    title: `Reset ${run.workflowId}`,
    says: `A new run goes on from this event, with the history up to there; what came later did not happen to it.${
      isOpen ? ' This run is terminated.' : ''
    } Both histories stay. Select an event first to start from it.`,
    does: 'Reset',
    isGrave: isOpen,
    fields: [
      { name: 'eventId', label: 'from event', kind: 'line', isRequired: true, initial: String(event) },
      {
        name: 'signals',
        label: 'signals that came later',
        kind: 'choice',
        choices: [
          ['reapply', 'come to the new run, too'],
          ['drop', 'are dropped'],
        ],
      },
      REASON,
      WHO,
    ],
    path: () => at('reset'),
    leadsOn: true,
  };
  const query: Action = {
    name: 'query',
    label: 'Query',
    title: `Query ${run.workflowId}`,
    says: 'Its decider is asked, and answers. Nothing is recorded.',
    does: 'Ask',
    fields: [{ name: '/name', label: 'query', kind: 'line', isRequired: true }, payload('input', 'input')],
    path: named('queries'),
    isAnswered: true,
  };
  if (!isOpen) return [query, reset];
  const awaited = run.awaiting.filter((name) => !name.startsWith('baton.'));
  return [
    {
      name: 'signal',
      label: 'Signal',
      title: `Signal ${run.workflowId}`,
      says: 'The signal is recorded, and a turn shows it to the decider.',
      does: 'Send',
      fields: [
        {
          name: '/name',
          label: 'signal',
          kind: 'line',
          isRequired: true,
          offers: awaited,
          initial: awaited.length === 1 ? (awaited[0] ?? '') : '',
        },
        payload('input', 'input'),
        WHO,
      ],
      path: named('signals'),
    },
    query,
    {
      name: 'update',
      label: 'Update',
      title: `Update ${run.workflowId}`,
      says: 'Its decider is asked to change something, and answers. It is recorded only if the decider accepts it.',
      does: 'Ask',
      fields: [{ name: '/name', label: 'update', kind: 'line', isRequired: true }, payload('input', 'input'), WHO],
      path: named('updates'),
      isAnswered: true,
    },
    run.paused
      ? {
          name: 'resume',
          label: 'Resume',
          title: `Resume ${run.workflowId}`,
          says: `Its turns and activities are handed out again.${run.paused.stopClocks ? ' Its clocks go on where they stood still.' : ''}`,
          does: 'Resume',
          fields: [REASON, WHO],
          path: () => at('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${run.workflowId}`,
          says: 'Nothing of it is handed out until it is resumed. What is being done already goes on.',
          does: 'Pause',
          fields: [
            { name: 'stopClocks', label: 'its clocks stand still, too: timers and timeouts wait', kind: 'flag' },
            REASON,
            WHO,
          ],
          path: () => at('pause'),
        },
    {
      name: 'cancel',
      label: 'Cancel',
      title: `Cancel ${run.workflowId}`,
      says: 'Its decider is asked to end it, and decides how.',
      does: 'Ask it to end',
      fields: [REASON, WHO],
      path: () => at('cancel'),
    },
    reset,
    {
      name: 'terminate',
      label: 'Terminate',
      title: `Terminate ${run.workflowId}`,
      says: 'It ends at once; its decider is not asked. What it has open is given up.',
      does: 'Terminate',
      isGrave: true,
      fields: [REASON, payload('details', 'details'), WHO],
      path: () => at('terminate'),
    },
  ];
}

/** Returns what can be done with an open activity of a run. */
export function actionsOfActivity(domain: string, run: Described, activity: Activity): Action[] {
  const id = activity.activityId;
  const path = (what: string): Action['path'] => {
    const base = `${workflowPath(domain, run.workflowId)}/activities/${encodeURIComponent(id)}`;
    return () => `${base}/${what}?runId=${encodeURIComponent(run.runId)}`;
  };
  // One that waits for its first try is to be had already.
  const isRetryable = activity.startedAt ?? activity.nextTryAt ?? activity.paused ?? activity.lastFailure;
  const actions: (Action | undefined)[] = [
    isRetryable
      ? {
          name: 'retry',
          label: 'Retry now',
          title: `Retry ${id} now`,
          says: `It waits on ${activity.taskList} for a runner at once; where its tries had run out, it has one more.${
            activity.startedAt ? ' What the runner that has it answers counts for nothing then.' : ''
          }`,
          does: 'Retry now',
          fields: [REASON, WHO],
          path: path('retry'),
        }
      : undefined,
    {
      name: 'success',
      label: 'Complete',
      title: `Complete ${id}`,
      says: 'It ends as if its runner had answered with this result, and a turn shows that to the decider.',
      does: 'Complete',
      fields: [payload('result', 'result'), REASON, WHO],
      path: path('success'),
    },
    {
      name: 'failure',
      label: 'Fail',
      title: `Fail ${id}`,
      says: 'It ends as failed, without another try, and a turn shows that to the decider.',
      does: 'Fail',
      isGrave: true,
      fields: [
        { name: 'failureReason', label: 'failure, for the decider', kind: 'line', isRequired: true },
        payload('details', 'details'),
        REASON,
        WHO,
      ],
      path: path('failure'),
    },
    activity.paused
      ? {
          name: 'resume',
          label: 'Resume',
          title: `Resume ${id}`,
          says: 'It is handed out again, when its next try is due.',
          does: 'Resume',
          fields: [REASON, WHO],
          path: path('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${id}`,
          says: 'It is not handed out until somebody retries, resumes, completes or fails it.',
          does: 'Pause',
          fields: [REASON, WHO],
          path: path('pause'),
        },
    {
      name: 'options',
      label: 'Move or change',
      title: `Change ${id}`,
      says: 'From now on it waits on this list, with these timeouts. What is empty stays as it is.',
      does: 'Change',
      fields: [
        { name: 'taskList', label: 'task list', kind: 'line', initial: activity.taskList },
        ...['scheduleToStart', 'startToClose', 'scheduleToClose', 'heartbeat'].map((name): Field => {
          return { name: `timeouts.${name}`, label: name, kind: 'line', hint: 'such as 30s, 1h 30m or 7d' };
        }),
        REASON,
        WHO,
      ],
      path: path('options'),
    },
  ];
  return actions.filter((action) => action !== undefined);
}

/** Returns what can be done with a schedule. */
export function actionsOfSchedule(domain: string, id: string, isPaused: boolean): Action[] {
  const path = (what: string): Action['path'] => {
    return () => `${domainPath(domain)}/schedules/${encodeURIComponent(id)}/${what}`;
  };
  return [
    {
      name: 'trigger',
      label: 'Trigger',
      title: `Trigger ${id}`,
      says: `It starts a run now, beside those at its times${isPaused ? ', although it is paused' : ''}.`,
      does: 'Trigger',
      fields: [],
      path: path('trigger'),
    },
    isPaused
      ? {
          name: 'resume',
          label: 'Resume',
          title: `Resume ${id}`,
          says: 'It starts runs at its times again.',
          does: 'Resume',
          fields: [],
          path: path('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${id}`,
          says: 'It starts nothing until it is resumed. Runs that it has started go on.',
          does: 'Pause',
          fields: [{ ...REASON, hint: 'is shown with the schedule' }],
          path: path('pause'),
        },
  ];
}
