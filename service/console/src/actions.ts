// What can be done by hand with a run: what each action asks for, what it says that it will do, and its request. Pure.
import { DURATION, type Field, REASON, type Retry, type Values, WHO, payload, retryFields } from './fields';
import type { Event, Schemas } from './fold';
import { workflowPath } from './paths';
import { pathOf } from './route';
import type { Described } from './words';

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
  /** Where an answer in Markdown is shown. */
  pageOf?: (values: Values) => string;
  /** Whether it leads to a run of its own. */
  leadsOn?: boolean;
}

export type Activity = Schemas['OpenActivity'];

/** Names that a run's history shows to mean something to its decider. Queries leave nothing there. */
export interface Known {
  signals: string[];
  updates: string[];
}

/** Returns the names that a history shows. Of an update only those that were accepted are there. */
export function knownIn(events: readonly Event[]): Known {
  const signals = new Set<string>();
  const updates = new Set<string>();
  for (const event of events) {
    if (event.type === 'Signal') signals.add(event.name);
    else if (event.type === 'UpdateAccepted') updates.add(event.name);
    else if (event.type === 'DeciderCompleted')
      for (const name of event.awaiting ?? []) if (!name.startsWith('baton.')) signals.add(name);
  }
  return { signals: [...signals].sort(), updates: [...updates].sort() };
}

const NOTHING_KNOWN: Known = { signals: [], updates: [] };

/** Returns what can be done with a run. `event` is the one that a reset starts from at first. */
export function actionsOfRun(domain: string, run: Described, event: number, known = NOTHING_KNOWN): Action[] {
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
      { name: 'eventId', label: 'from event', kind: 'number', isRequired: true, initial: String(event) },
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
    pageOf: (values) => {
      const input = values['input']?.trim();
      const query = values['/name']?.trim() ?? '';
      const path = pathOf({ page: 'asked', domain, workflowId: run.workflowId, runId: run.runId, query });
      return `${path}${input ? `?${new URLSearchParams({ input }).toString()}` : ''}`;
    },
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
          offers: [...new Set([...awaited, ...known.signals])],
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
      fields: [
        { name: '/name', label: 'update', kind: 'line', isRequired: true, offers: known.updates },
        payload('input', 'input'),
        WHO,
      ],
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

/** Returns the retry policy that an activity has by now, as far as the events say. */
export function retryOf(events: readonly Event[], scheduledEventId: number): Retry | null | undefined {
  let retry: Retry | null | undefined;
  for (const event of events) {
    if (event.type === 'ActivityScheduled' && event.id === scheduledEventId) retry = event.retry;
    if (event.type === 'ActivityOptionsChanged' && event.scheduledEventId === scheduledEventId) retry = event.retry;
  }
  return retry;
}

/** Returns what can be done with an open activity of a run, whose retry policy is `retry` where it has one. */
export function actionsOfActivity(domain: string, run: Described, activity: Activity, retry?: Retry | null): Action[] {
  const id = activity.activityId;
  const path = (what: string): Action['path'] => {
    const base = `${workflowPath(domain, run.workflowId)}/activities/${encodeURIComponent(id)}`;
    return () => `${base}/${what}?runId=${encodeURIComponent(run.runId)}`;
  };
  // One that waits for its first try is to be had already.
  const isRetryable = activity.startedAt ?? activity.nextAttemptAt ?? activity.paused ?? activity.lastFailure;
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
      says: `From now on it waits on this list, with these timeouts. What is empty stays as it is.${
        retry ? ' Of its retry policy, what is empty goes by the default.' : ''
      }`,
      does: 'Change',
      fields: [
        { name: 'taskList', label: 'task list', kind: 'line', initial: activity.taskList, isKept: true },
        ...['scheduleToStart', 'startToClose', 'scheduleToClose', 'heartbeat'].map((name): Field => {
          return { name: `timeouts.${name}`, label: name, kind: 'line', hint: DURATION };
        }),
        ...(retry ? retryFields(retry, 'activity', true) : []),
        REASON,
        WHO,
      ],
      path: path('options'),
    },
  ];
  return actions.filter((action) => action !== undefined);
}
