// Actions on a run: the fields of each action, the text about its effect, and its request. Pure functions.
import {
  ACTIVITY_TIMEOUTS,
  DURATION,
  type Field,
  REASON,
  type Retry,
  type Values,
  WHO,
  payload,
  retryFields,
} from './fields';
import type { Event, Schemas, Turn } from './fold';
import { workflowPath } from './paths';
import { pathOf } from './route';
import type { Described } from './words';

export interface Action {
  name: string;
  /** Label of the button that opens the dialog. */
  label: string;
  title: string;
  /** Description of the effect, shown in the dialog. */
  says: string;
  /** Label of the button that sends the request. */
  does: string;
  /** True if the action ends something. */
  isGrave?: boolean;
  fields: Field[];
  path: (values: Values) => string;
  /** Method of the request; `POST` if absent. */
  method?: 'POST' | 'PUT' | 'DELETE';
  /** True if the response contains an answer to be shown. */
  isAnswered?: boolean;
  /** Returns the address of the page that shows an answer in Markdown. */
  pageOf?: (values: Values) => string;
  /** True if the action creates another run, which is then shown. */
  leadsOn?: boolean;
}

export type Activity = Schemas['OpenActivity'];

/** Names of signals and updates that occur in a run's history. Queries leave no events, so their names are unknown. */
export interface Known {
  signals: string[];
  updates: string[];
}

/** Returns the names of signals and updates in a history. Rejected updates leave no events. */
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

/** An event proposed for a reset, and the reason. */
export interface ResetPoint {
  event: number;
  hint: string;
}

/**
 * Returns the event proposed for a reset: the selected event or, without a selection, the event before the newest
 * decisions. In a run of a single activity, it is the event that scheduled the activity.
 */
export function resetPointOf(
  selected: number | undefined,
  turns: readonly Turn[],
  oneActivity = false,
): ResetPoint | undefined {
  if (selected !== undefined) return { event: selected, hint: 'the selected event' };
  const scheduled = turns[0]?.decisions.find(({ type }) => type === 'ActivityScheduled');
  if (oneActivity) return scheduled && { event: scheduled.id, hint: 'proposed: the activity runs again' };
  const last = turns.findLast(({ outcome, decisions }) => outcome === 'completed' && decisions.length > 0);
  return last && { event: last.scheduled.id, hint: 'proposed: the decider makes its last decision again' };
}

/**
 * Returns the actions for a run. `from` is the event proposed for a reset. Without it, the operator must choose an
 * event.
 */
export function actionsOfRun(domain: string, run: Described, from?: ResetPoint, known = NOTHING_KNOWN): Action[] {
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
    says: `Starts a new run that continues from an event, with a copy of the history up to it. Later events are not copied.${
      isOpen ? ' This run is terminated.' : ''
    } Both histories are kept.`,
    does: 'Reset',
    isGrave: isOpen,
    fields: [
      {
        name: 'eventId',
        label: 'from event',
        kind: 'number',
        isRequired: true,
        ...(from ? { initial: String(from.event), hint: from.hint } : { hint: 'the last event to keep' }),
      },
      {
        name: 'signals',
        label: 'later signals',
        kind: 'choice',
        choices: [
          ['reapply', 'reapply to the new run'],
          ['drop', 'drop'],
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
    says: 'Asks the decider for an answer. Nothing is recorded.',
    does: 'Send query',
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
  // A run of a single activity has no decider, so the service refuses messages to it.
  const isMessage = ({ name }: Action): boolean => ['signal', 'query', 'update'].includes(name);
  const offered = (actions: Action[]): Action[] =>
    run.oneActivity ? actions.filter((action) => !isMessage(action)) : actions;
  if (!isOpen) return offered([query, reset]);
  const awaited = run.awaiting.filter((name) => !name.startsWith('baton.'));
  return offered([
    {
      name: 'signal',
      label: 'Signal',
      title: `Signal ${run.workflowId}`,
      says: 'Records the signal. The decider sees it in its next turn.',
      does: 'Send signal',
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
      says: 'Asks the decider to make a change, and waits for its answer. Recorded only if the decider accepts it.',
      does: 'Send update',
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
          says: `Makes the turns and activities of the run available again.${run.paused.stopClocks ? ' Its timers and timeouts continue.' : ''}`,
          does: 'Resume',
          fields: [REASON, WHO],
          path: () => at('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${run.workflowId}`,
          says: 'No turns or activities are handed out until the run is resumed. Tasks in progress continue.',
          does: 'Pause',
          fields: [{ name: 'stopClocks', label: 'also stop timers and timeouts', kind: 'flag' }, REASON, WHO],
          path: () => at('pause'),
        },
    {
      name: 'cancel',
      label: 'Request cancel',
      title: `Request cancel of ${run.workflowId}`,
      says: run.oneActivity
        ? 'Cancels the activity and the run. A runner that holds the activity is asked to stop it.'
        : 'Asks the decider to end the run. The decider decides how.',
      does: 'Request cancel',
      fields: [REASON, WHO],
      path: () => at('cancel'),
    },
    reset,
    {
      name: 'terminate',
      label: 'Terminate',
      title: `Terminate ${run.workflowId}`,
      says: 'Ends the run immediately, without asking its decider. Open activities and timers are abandoned; children follow their child policy.',
      does: 'Terminate',
      isGrave: true,
      fields: [REASON, payload('details', 'details'), WHO],
      path: () => at('terminate'),
    },
  ]);
}

/** Returns the current retry policy of an activity, as far as these events show it. */
export function retryOf(events: readonly Event[], scheduledEventId: number): Retry | null | undefined {
  let retry: Retry | null | undefined;
  for (const event of events) {
    if (event.type === 'ActivityScheduled' && event.id === scheduledEventId) retry = event.retry;
    if (event.type === 'ActivityOptionsChanged' && event.scheduledEventId === scheduledEventId) retry = event.retry;
  }
  return retry;
}

/** Returns the actions for an open activity of a run. `retry` is the activity's retry policy, if it has one. */
export function actionsOfActivity(domain: string, run: Described, activity: Activity, retry?: Retry | null): Action[] {
  const id = activity.activityId;
  const path = (what: string): Action['path'] => {
    const base = `${workflowPath(domain, run.workflowId)}/activities/${encodeURIComponent(id)}`;
    return () => `${base}/${what}?runId=${encodeURIComponent(run.runId)}`;
  };
  // An activity that waits for its first attempt is available to runners already, so it needs no retry.
  const isRetryable = activity.startedAt ?? activity.nextAttemptAt ?? activity.paused ?? activity.lastFailure;
  const actions: (Action | undefined)[] = [
    isRetryable
      ? {
          name: 'retry',
          label: 'Retry now',
          title: `Retry ${id} now`,
          says: `Makes the activity available to the runners of ${activity.taskList} immediately, even if its attempts are exhausted.${
            activity.startedAt ? ' The result of its current runner is discarded.' : ''
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
      says: 'Completes the activity as if a runner had returned this result. The decider sees it in its next turn.',
      does: 'Complete',
      fields: [payload('result', 'result'), REASON, WHO],
      path: path('success'),
    },
    {
      name: 'failure',
      label: 'Fail',
      title: `Fail ${id}`,
      says: 'Fails the activity without another attempt. The decider sees it in its next turn.',
      does: 'Fail',
      isGrave: true,
      fields: [
        { name: 'failureReason', label: 'failure reason, for the decider', kind: 'line', isRequired: true },
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
          says: 'Makes the activity available to runners again, when its next attempt is due.',
          does: 'Resume',
          fields: [REASON, WHO],
          path: path('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${id}`,
          says: 'Runners do not get the activity until an operator retries, resumes, completes or fails it.',
          does: 'Pause',
          fields: [REASON, WHO],
          path: path('pause'),
        },
    {
      name: 'options',
      label: 'Change options',
      title: `Change options of ${id}`,
      says: `Changes the task list and the timeouts from now on. Empty fields keep their values.${
        retry ? ' Empty fields of the retry policy get their defaults.' : ''
      }`,
      does: 'Change',
      fields: [
        { name: 'taskList', label: 'task list', kind: 'line', initial: activity.taskList, isKept: true },
        ...ACTIVITY_TIMEOUTS.map(([name, label]): Field => {
          return { name: `timeouts.${name}`, label, kind: 'line', hint: DURATION };
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
