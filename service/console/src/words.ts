// Descriptions of histories for people: subject and outcome of each event, and the reason for the state of a run. Pure
// functions.
import { rawOf } from './raw';
import { type Event, type Schemas, closes } from './fold';
import { behindOf } from './limits';
import { duration, lasting, millisecondsOf, relative } from './time';

export type Described = Schemas['Described'];
export type Kind = 'workflow' | 'turn' | 'activity' | 'timer' | 'child' | 'signal' | 'external' | 'marker' | 'update';
export type Tone = 'good' | 'bad' | 'warn' | 'plain';

export function kindOf(event: Event): Kind {
  const { type } = event;
  if (type.startsWith('Decider')) return 'turn';
  if (type.startsWith('Activity')) return 'activity';
  if (type.startsWith('Timer')) return 'timer';
  if (type.startsWith('Child')) return 'child';
  if (type.startsWith('External')) return 'external';
  if (type.startsWith('Marker')) return 'marker';
  if (type.startsWith('Update')) return 'update';
  if (type === 'Signal' || type === 'WorkflowCancelRequested') return 'signal';
  return 'workflow';
}

export function toneOf(event: Event): Tone {
  const { type } = event;
  if (/(Failed|TimedOut|Timeout)$/.test(type)) return 'bad';
  if (/(Terminated|Paused|Canceled|CancelRequested|TaskCancel)$/.test(type)) return 'warn';
  if (/(Success|Delivered|UpdateCompleted)$/.test(type)) return 'good';
  return 'plain';
}

/**
 * Returns the subject of an event, that is, the names in it that a user looks for. `find` returns events of the same
 * run.
 */
export function subjectOf(event: Event, find: (id: number) => Event | undefined): string {
  const scheduled = (id: number): string => {
    const by = find(id);
    if (by?.type === 'ActivityScheduled') return by.activityId;
    if (by?.type === 'TimerScheduled') return by.timerId;
    if (
      by?.type === 'ChildScheduled' ||
      by?.type === 'ExternalSignalScheduled' ||
      by?.type === 'ExternalCancelScheduled'
    )
      return by.workflowId;
    return `of ${id}`;
  };
  switch (event.type) {
    case 'WorkflowStarted':
      return event.workflowType;
    case 'WorkflowFailed':
      return event.reason;
    case 'WorkflowTimedOut':
      return event.timeout;
    case 'WorkflowTerminated':
    case 'WorkflowPaused':
    case 'WorkflowResumed':
    case 'WorkflowCancelRequested':
      return event.reason ?? event.identity ?? '';
    case 'WorkflowContinuedAsNew':
      return event.workflowType;
    case 'WorkflowCloseFailed':
      return `${event.decision}: ${event.cause}`;
    case 'WorkflowReset':
      return event.reason ?? `from event ${event.eventId}`;
    case 'DeciderScheduled':
      return event.attempt > 1 ? `${event.taskList}, attempt ${event.attempt}` : event.taskList;
    case 'DeciderStarted':
      return event.identity ?? '';
    case 'DeciderCompleted':
      return event.awaiting?.length ? `awaits ${event.awaiting.join(', ')}` : '';
    case 'DeciderFailed':
      return event.reason ?? event.cause;
    case 'DeciderTimedOut':
      return event.timeout;
    case 'ActivityScheduled':
      return `${event.activityId} · ${event.activityType}`;
    case 'ActivityScheduleFailed':
      return `${event.activityId}: ${event.cause}`;
    case 'ActivityFailed':
      return `${scheduled(event.scheduledEventId)}: ${event.reason}`;
    case 'ActivityTimedOut':
      return `${scheduled(event.scheduledEventId)}: ${event.timeout}`;
    case 'ActivityStarted':
      return `${scheduled(event.scheduledEventId)}${event.identity ? ` · ${event.identity}` : ''}`;
    case 'ActivityTaskCancel':
    case 'ActivityTaskCancelFailed':
      return event.activityId;
    case 'ActivityPaused':
      return `${scheduled(event.scheduledEventId)}: ${event.reason ?? event.cause}`;
    case 'TimerScheduled':
      return `${event.timerId} · ${duration(millisecondsOf(event.after) ?? 0)}`;
    case 'TimerCanceled':
    case 'TimerExpired':
      return event.timerId;
    case 'TimerScheduleFailed':
    case 'TimerCancelFailed':
      return `${event.timerId}: ${event.cause}`;
    case 'ChildScheduled':
      return `${event.workflowId} · ${event.workflowType}`;
    case 'ChildFailed':
      return `${event.workflowId}: ${event.reason}`;
    case 'ChildScheduleFailed':
    case 'ExternalSignalFailed':
    case 'ExternalCancelFailed':
      return `${event.workflowId}: ${event.cause}`;
    case 'ExternalSignalScheduled':
      return `${event.name} to ${event.workflowId}`;
    case 'Signal':
      return event.identity ? `${event.name} · ${event.identity}` : event.name;
    case 'Marker':
      return event.name;
    case 'MarkerFailed':
      return `${event.name}: ${event.cause}`;
    case 'UpdateAccepted':
      return event.name;
    case 'UpdateCompleted':
      return event.updateId;
    case 'UpdateFailed':
      return `${event.updateId}: ${event.reason}`;
    default:
      if ('scheduledEventId' in event && event.scheduledEventId != null) return scheduled(event.scheduledEventId);
      return 'workflowId' in event && typeof event.workflowId === 'string' ? event.workflowId : '';
  }
}

const PAYLOADS = ['input', 'result', 'details', 'context'] as const;
/** Returns the payloads of an event as they were recorded, by the names of their fields. */
export function payloadsOf(event: Event): [string, string][] {
  const fields = event as unknown as Record<string, unknown>;
  return PAYLOADS.filter((name) => fields[name] !== undefined).map((name) => [name, rawOf(event, name)]);
}

/** Returns the fields of an event that are neither payloads nor common to all events. */
export function fieldsOf(event: Event): [string, unknown][] {
  const hidden = new Set<string>(['id', 'type', 'timestamp', ...PAYLOADS]);
  return Object.entries(event).filter(([name, value]) => !hidden.has(name) && value !== null && value !== undefined);
}

/**
 * Describes the attempt of an activity: its number, and the maximum of the retry policy; or that the attempts are
 * exhausted.
 */
export function triesOf(activity: {
  attempt: number;
  maximumAttempts?: number | null;
  paused?: { cause: string } | null;
}): string {
  const { attempt, maximumAttempts, paused } = activity;
  if (maximumAttempts == null) return `attempt ${attempt}`;
  const isBeyond = attempt > maximumAttempts;
  if (attempt > 1 && paused && (isBeyond || paused.cause === 'AttemptsExhausted'))
    return `attempts exhausted after ${attempt - 1}`;
  // An operator has requested another attempt.
  if (isBeyond) return `attempt ${attempt}, by an operator; its policy allows ${maximumAttempts}`;
  return `attempt ${attempt} of ${maximumAttempts}`;
}

/** Returns the status of a run, or, for an open run, the condition that describes it more precisely. */
export function standingOf(run: {
  status: string;
  paused?: unknown;
  blocked?: boolean;
  stuck?: boolean;
  failing?: unknown;
  retrying?: boolean;
  repeating?: unknown;
}): string {
  if (run.status !== 'open') return run.status;
  if (run.paused) return 'paused';
  if (run.blocked) return 'blocked';
  if (run.stuck) return 'stuck';
  if (run.failing) return 'failing';
  if (run.retrying) return 'retrying';
  if (run.repeating) return 'repeating';
  return 'open';
}

const who = (identity: string | null | undefined): string => (identity ? ` by ${identity}` : '');
const why = (reason: string | null | undefined): string => (reason ? `: ${reason}` : '');

/**
 * Describes an activity without further attempts. A failure that must not be retried ends the attempts before their
 * maximum.
 */
const exhausted = (attempt: number, most: number | null | undefined): string =>
  most != null && attempt > most ? `has exhausted its ${most} attempts` : 'has failed and is not retried';

/** Returns the first line of the message in a failure's details, if there is one. */
function messageOf(details: unknown): string {
  const found = typeof details === 'object' && details !== null ? (details as { message?: unknown }).message : details;
  return typeof found === 'string' ? (found.trim().split('\n')[0] ?? '').slice(0, MESSAGE_MAX) : '';
}

/** Maximum number of characters of a failure's message in a headline. Our choice. */
const MESSAGE_MAX = 200;

/**
 * Describes the state of a run in one or two sentences, with its cause and what it waits for. `last` is its last event.
 */
export function reasonOf(run: Described, last: Event | undefined, now: number): string {
  const activity = (name: string): string => `activity ${name}`;
  switch (standingOf(run)) {
    case 'paused':
      return `Paused ${relative(Date.parse(run.paused?.at ?? ''), now)}${who(run.paused?.identity)}${why(run.paused?.reason)}. ${
        run.paused?.stopClocks ? 'Its timers and timeouts are stopped.' : 'Its timers and timeouts keep running.'
      } Resume it to continue.`;
    case 'blocked': {
      const paused = run.openActivities.filter((one) => one.paused);
      const first = paused[0];
      const failure = first?.lastFailure;
      return `Blocked: ${paused.map((one) => activity(one.activityId)).join(', ')} ${
        first?.paused?.cause === 'AttemptsExhausted'
          ? exhausted(first.attempt, first.maximumAttempts)
          : `is paused${who(first?.paused?.identity)}`
      }${
        failure ? `; last failure: ${failure.reason ?? failure.timeout ?? 'unknown'}` : ''
      }. An operator can retry, complete or fail it.`;
    }
    case 'stuck':
      return 'Stuck: no turn, activity, timer or child is open, and the decider awaits no signal. Only a signal or the execution timeout can wake it up.';
    case 'failing': {
      const failing = run.failing;
      const turns = failing?.turns ?? 0;
      const cause = [failing?.reason ?? failing?.timeout ?? 'unknown reason', messageOf(failing?.details)];
      return `Failing: ${cause.filter(Boolean).join(': ')}. ${
        turns === 1 ? 'One turn has' : `${turns} turns in a row have`
      } failed, for ${lasting(Date.parse(failing?.since ?? ''), now)}; the turn is retried until one is completed.`;
    }
    case 'repeating': {
      const again = run.repeating;
      const what = again?.activityId ? activity(again.activityId) : 'an activity';
      return `Event ${again?.eventId ?? ''} schedules ${what} again, with the same type and input, although it had succeeded. If the decider expects the whole history, it must poll for it (history: full).`;
    }
    case 'retrying': {
      const next = run.openActivities.find((one) => one.nextAttemptAt);
      const again = run.openActivities.find((one) => one.lastFailure && !one.paused);
      if (!next && again) {
        const failure = again.lastFailure?.reason ?? again.lastFailure?.timeout ?? 'a failure';
        return `Attempt ${again.attempt} of ${activity(again.activityId)} ${again.startedAt ? 'is running' : `waits for a runner of ${again.taskList}`}; last failure: ${failure}.`;
      }
      return next
        ? `Waiting for attempt ${next.attempt} of ${activity(next.activityId)}, ${relative(Date.parse(next.nextAttemptAt ?? ''), now)}${why(next.lastFailure?.reason ?? next.lastFailure?.timeout)}.`
        : `Waiting for attempt ${run.attempt ?? 2} of the workflow${run.nextAttemptAt ? `, ${relative(Date.parse(run.nextAttemptAt), now)}` : ''}.`;
    }
    case 'open':
      return openReason(run, now);
    default:
      return closedReason(run, last);
  }
}

/** Returns the text about tasks that wait behind limits or paused lists. Empty if there are none. */
function heldReason(run: Described): string {
  const turn = run.turn === 'waiting' ? behindOf(run.behind, run.taskList) : '';
  if (turn) return `A turn ${turn}.`;
  // A turn that waits for a decider comes first, because it can continue without a free slot.
  if (run.turn !== 'none') return '';
  const held = run.openActivities
    .map((one): [string, string] => [one.activityId, behindOf(one.behind, one.taskList)])
    .filter(([, behind]) => behind);
  const [first] = held;
  if (!first) return '';
  const more = held.length - 1;
  return `Activity ${first[0]} ${first[1]}.${more > 0 ? ` ${more} more ${more === 1 ? 'waits' : 'wait'} behind limits.` : ''}`;
}

function openReason(run: Described, now: number): string {
  const held = heldReason(run);
  if (held) return held;
  const lists = (run.noPollers ?? []).map(
    (one) => `${one.taskList} (${one.decider ? 'deciders' : 'runners'}, for ${lasting(Date.parse(one.since), now)})`,
  );
  if (lists.length > 0)
    return `Waiting in ${lists.length === 1 ? 'a task list' : 'task lists'} without pollers: ${lists.join(', ')}.`;
  if (run.turn === 'started' || run.turn === 'running') return 'A decider is working on a turn.';
  if (run.turn === 'waiting') return `A turn waits for a decider of ${run.taskList}.`;
  const waits = [
    ...run.openActivities.map((one) => `activity ${one.activityId}`),
    ...run.openChildren.map((one) => `child ${one.workflowId}`),
    ...run.openTimers.map((one) => `timer ${one.timerId}`),
    ...run.awaiting.map((name) => (name === 'baton.cancel' ? 'a cancel request' : `signal ${name}`)),
  ];
  if (waits.length === 0) return 'Open.';
  return `Waiting for ${waits.slice(0, 5).join(', ')}${waits.length > 5 ? ` and ${waits.length - 5} more` : ''}.`;
}

/** Returns the reason of a closed run and the first line of its details, for display. Empty if the run has neither. */
export function closeReason(run: { reason?: string | null; detailsLine?: string | null }): string {
  return visible([run.reason, run.detailsLine].filter(Boolean).join(': '));
}

type Closed = Pick<Described, 'startedAt' | 'closedAt'> & Partial<Pick<Described, 'reason' | 'detailsLine'>>;

/** Describes how a run closed. `last` is its closing event. */
export function closedReason(run: Closed, last: Event | undefined): string {
  const took = run.closedAt ? ` after ${duration(Date.parse(run.closedAt) - Date.parse(run.startedAt))}` : '';
  const { detailsLine } = run;
  if (!last || !closes(last)) return `Closed${took}${why(closeReason(run))}.`;
  switch (last.type) {
    case 'WorkflowSuccess':
      return `Succeeded${took}.`;
    case 'WorkflowFailed':
      return `Failed by its decider${took}${why(closeReason({ reason: last.reason, detailsLine }))}.${last.newRunId ? ' It is retried.' : ''}`;
    case 'WorkflowCanceled':
      return `Canceled by its decider${took}${why(closeReason({ detailsLine }))}.`;
    case 'WorkflowTimedOut':
      return `Timed out${took}: ${last.timeout === 'Run' ? 'run timeout' : 'execution timeout'}.${last.newRunId ? ' It is retried.' : ''}`;
    case 'WorkflowTerminated':
      return `Terminated${who(last.identity)}${took}${why(closeReason({ reason: last.reason ?? run.reason ?? last.cause, detailsLine }))}.`;
    case 'WorkflowContinuedAsNew':
      return `Continued as a new run${took}.`;
    default:
      return `Closed${took}.`;
  }
}

/** Replaces control characters, such as terminal escapes and marks of text direction, by visible symbols. */
export function visible(text: string): string {
  return text
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) =>
      String.fromCodePoint(c === '\u007f' ? 0x2421 : 0x2400 + c.charCodeAt(0)),
    )
    .replace(
      /[\u0080-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
    );
}

export interface Metrics {
  values: Map<string, number>;
  domains: Map<string, Map<string, number>>;
}

/** Parses the metrics of the service that the pages need, in the text format of Prometheus. */
export function readMetrics(text: string): Metrics {
  const values = new Map<string, number>();
  const domains = new Map<string, Map<string, number>>();
  for (const line of text.split('\n')) {
    const parts = line.match(/^baton_([a-z_]+)(?:\{(.*)\})? (\S+)$/);
    if (!parts) continue;
    const [, name = '', inBraces, number] = parts;
    const value = Number(number);
    if (inBraces === undefined) {
      values.set(name, value);
      continue;
    }
    const labels = new Map(
      [...inBraces.matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, label = '', quoted = '']) => [
        label,
        quoted.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c)),
      ]),
    );
    const domain = labels.get('domain') ?? '';
    if (name.startsWith('runs_') && labels.size === 1) {
      const of = domains.get(domain) ?? new Map<string, number>();
      domains.set(domain, of.set(name.slice(5), value));
    }
  }
  return { values, domains };
}
