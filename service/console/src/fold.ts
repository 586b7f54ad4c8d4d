// Functions of a history: its turns, causes and effects of its events, and the state as of an event. Pure: they use no
// DOM, clock or requests. The oldest events of a history may be missing. Data that only the missing events contain is
// then unknown.
import type { components } from './api.gen';
import { millisecondsOf } from './time';

export type Schemas = components['schemas'];
export type Event = Schemas['Event'];
export type EventType = Event['type'];
export type EventOf<T extends EventType> = Extract<Event, { type: T }>;

export const timeOf = (event: Event): number => Date.parse(event.timestamp);

/** Fields in which an event refers to earlier events. */
const LINKS = ['decisionEventId', 'scheduledEventId', 'startedEventId', 'acceptedEventId', 'cancelEventId'] as const;

const CLOSING: ReadonlySet<EventType> = new Set([
  'WorkflowSuccess',
  'WorkflowFailed',
  'WorkflowCanceled',
  'WorkflowTimedOut',
  'WorkflowTerminated',
  'WorkflowContinuedAsNew',
]);
export const closes = (event: Event): boolean => CLOSING.has(event.type);

const isTurns = (event: Event): boolean => event.type.startsWith('Decider');
const decisionOf = (event: Event): number | undefined =>
  'decisionEventId' in event ? event.decisionEventId : undefined;

/** Returns whether an event is news to a decider: it belongs to no turn, and no decision caused it. */
export const isNews = (event: Event): boolean => !isTurns(event) && decisionOf(event) === undefined;

/** Consecutive events of a run, by id. */
export class Row {
  readonly first: number;
  constructor(readonly events: readonly Event[]) {
    this.first = events[0]?.id ?? 1;
  }
  get last(): number {
    return this.first + this.events.length - 1;
  }
  at(id: number | null | undefined): Event | undefined {
    return id == null ? undefined : this.events[id - this.first];
  }
}

// ---- causes and effects --------------------------------------------------------------------------------------------

/** Returns the ids of the events that caused an event, newest first. */
export function causesOf(event: Event, row: Row): number[] {
  const causes = new Set<number>();
  for (const link of LINKS) {
    const id = (event as Partial<Record<(typeof LINKS)[number], number | null>>)[link];
    if (typeof id === 'number') causes.add(id);
  }
  if (event.type === 'DeciderScheduled') {
    const cause = whatSchedules(event, row);
    if (cause !== undefined) causes.add(cause);
  }
  return [...causes].sort((a, b) => b - a);
}

/**
 * Returns the event that caused a turn: the news before it, or the end of the previous turn if that turn failed or
 * timed out.
 */
function whatSchedules(event: Event, row: Row): number | undefined {
  for (let id = event.id - 1; id >= row.first; id--) {
    const earlier = row.at(id);
    if (earlier === undefined) return undefined;
    if (earlier.type === 'DeciderFailed' || earlier.type === 'DeciderTimedOut' || isNews(earlier)) return id;
    if (earlier.type === 'DeciderScheduled') return undefined;
  }
  return undefined;
}

/** Returns for each event the ids of the events that it caused, oldest first. */
export function effectsIn(row: Row): Map<number, number[]> {
  const effects = new Map<number, number[]>();
  for (const event of row.events) {
    for (const cause of causesOf(event, row)) {
      const known = effects.get(cause);
      if (known) known.push(event.id);
      else effects.set(cause, [event.id]);
    }
  }
  return effects;
}

// ---- turns ---------------------------------------------------------------------------------------------------------

export type TurnOutcome = 'waiting' | 'running' | 'completed' | 'failed' | 'timed-out' | 'overtaken';

export interface Turn {
  /** Number of the turn within the row, from 1. */
  number: number;
  scheduled: EventOf<'DeciderScheduled'>;
  started?: EventOf<'DeciderStarted'>;
  ended?: EventOf<'DeciderCompleted'> | EventOf<'DeciderFailed'> | EventOf<'DeciderTimedOut'>;
  outcome: TurnOutcome;
  /** Events that this turn saw and no completed turn had seen before. */
  news: Event[];
  /** Events created by the turn's decisions. */
  decisions: Event[];
  waitedMs?: number;
  tookMs?: number;
}

export function turnsOf(row: Row): Turn[] {
  const turns: Turn[] = [];
  const byScheduled = new Map<number, Turn>();
  const byCompleted = new Map<number, Turn>();
  let seen = row.first - 1;
  let closedAt: Event | undefined;
  for (const event of row.events) {
    if (event.type === 'DeciderScheduled') {
      const turn: Turn = { number: turns.length + 1, scheduled: event, outcome: 'waiting', news: [], decisions: [] };
      turns.push(turn);
      byScheduled.set(event.id, turn);
    } else if (event.type === 'DeciderStarted') {
      const turn = byScheduled.get(event.scheduledEventId);
      if (turn) {
        turn.started = event;
        turn.outcome = 'running';
        turn.waitedMs =
          timeOf(event) - (turn.scheduled.notBefore ? Date.parse(turn.scheduled.notBefore) : timeOf(turn.scheduled));
        turn.waitedMs = Math.max(0, turn.waitedMs);
        turn.news = between(row, seen + 1, event.id - 1);
      }
    } else if (
      event.type === 'DeciderCompleted' ||
      event.type === 'DeciderFailed' ||
      event.type === 'DeciderTimedOut'
    ) {
      const turn = byScheduled.get(event.scheduledEventId);
      if (turn) {
        turn.ended = event;
        turn.outcome =
          event.type === 'DeciderCompleted' ? 'completed' : event.type === 'DeciderFailed' ? 'failed' : 'timed-out';
        if (turn.started) turn.tookMs = timeOf(event) - timeOf(turn.started);
        if (event.type === 'DeciderCompleted') {
          byCompleted.set(event.id, turn);
          seen = event.startedEventId;
        }
      }
    } else {
      const decision = decisionOf(event);
      if (decision !== undefined) byCompleted.get(decision)?.decisions.push(event);
      if (closes(event)) closedAt = event;
    }
  }
  const open = turns.at(-1);
  if (open && (open.outcome === 'waiting' || open.outcome === 'running')) {
    if (open.outcome === 'waiting') open.news = between(row, seen + 1, row.last);
    if (closedAt) open.outcome = 'overtaken';
  }
  return turns;
}

function between(row: Row, first: number, last: number): Event[] {
  const news: Event[] = [];
  for (let id = Math.max(first, row.first); id <= last; id++) {
    const event = row.at(id);
    if (event && isNews(event)) news.push(event);
  }
  return news;
}

/**
 * Returns the name of a turn. It contains the turn's number if the row begins with the first event of the history,
 * otherwise the id of the turn's first event.
 */
export const nameOfTurn = (turn: Turn, row: Row): string =>
  row.first === 1 ? `Turn ${turn.number}` : `Turn at event ${turn.scheduled.id}`;

/**
 * Returns the turn of each event: the turn to which the event belongs or whose decisions created it, otherwise the
 * first turn that saw it.
 */
export function turnsByEvent(turns: readonly Turn[]): Map<number, Turn> {
  const by = new Map<number, Turn>();
  const put = (event: Event | undefined, turn: Turn): void => {
    if (event && !by.has(event.id)) by.set(event.id, turn);
  };
  for (const turn of turns) {
    for (const event of [turn.scheduled, turn.started, turn.ended, ...turn.decisions, ...turn.news]) put(event, turn);
  }
  return by;
}

// ---- the state as of an event --------------------------------------------------------------------------------------

export interface OpenActivity {
  scheduled: EventOf<'ActivityScheduled'>;
  started?: Event;
  paused?: Event;
  cancelRequested: boolean;
  taskList: string;
  timeouts: Schemas['ActivityTimeoutsOutput'];
}
export interface OpenTimer {
  scheduled: EventOf<'TimerScheduled'>;
  at: number;
}
export interface OpenChild {
  scheduled: EventOf<'ChildScheduled'>;
  runId?: string;
}

/** State of a run after one of its events, as computed from its history. */
export interface State {
  asOf: number;
  at: number;
  started?: EventOf<'WorkflowStarted'>;
  closed?: Event;
  turn: 'none' | 'waiting' | 'running';
  turnSince?: Event;
  turnScheduled?: EventOf<'DeciderScheduled'>;
  activities: Map<number, OpenActivity>;
  timers: Map<number, OpenTimer>;
  children: Map<number, OpenChild>;
  updates: Map<number, EventOf<'UpdateAccepted'>>;
  context: unknown;
  /** Event that contains the context. */
  contextOf: Event | undefined;
  awaiting: string[];
  paused?: EventOf<'WorkflowPaused'>;
  cancelRequested: boolean;
  failingTurns: number;
  /** Time for which the run's timers and timeouts have been stopped, in milliseconds. */
  stoodMs: number;
}

export function stateAsOf(row: Row, asOf: number): State {
  const state: State = {
    asOf: row.first - 1,
    at: 0,
    turn: 'none',
    activities: new Map(),
    timers: new Map(),
    children: new Map(),
    updates: new Map(),
    context: undefined,
    contextOf: undefined,
    awaiting: [],
    cancelRequested: false,
    failingTurns: 0,
    stoodMs: 0,
  };
  for (const event of row.events) {
    if (event.id > asOf) break;
    evolve(state, event);
  }
  return state;
}

function evolve(state: State, event: Event): void {
  state.asOf = event.id;
  state.at = timeOf(event);
  switch (event.type) {
    case 'WorkflowStarted':
      state.started = event;
      break;
    case 'DeciderScheduled':
      state.turn = 'waiting';
      state.turnSince = state.turnScheduled = event;
      break;
    case 'DeciderStarted':
      state.turn = 'running';
      state.turnSince = event;
      break;
    case 'DeciderCompleted':
      state.turn = 'none';
      state.failingTurns = 0;
      [state.context, state.contextOf] = [event.context, event];
      state.awaiting = event.awaiting ?? [];
      break;
    case 'DeciderFailed':
    case 'DeciderTimedOut':
      state.turn = 'none';
      state.failingTurns += 1;
      break;
    case 'ActivityScheduled':
      state.activities.set(event.id, {
        scheduled: event,
        cancelRequested: false,
        taskList: event.taskList,
        timeouts: event.timeouts,
      });
      break;
    case 'ActivityStarted':
      change(state.activities, event.scheduledEventId, (activity) => {
        activity.started = event;
      });
      break;
    case 'ActivityTaskCancel':
      change(state.activities, event.scheduledEventId, (activity) => {
        activity.cancelRequested = true;
      });
      break;
    case 'ActivityPaused':
      change(state.activities, event.scheduledEventId, (activity) => {
        activity.paused = event;
      });
      break;
    case 'ActivityResumed':
    case 'ActivityRetried':
      change(state.activities, event.scheduledEventId, (activity) => {
        delete activity.paused;
      });
      break;
    case 'ActivityOptionsChanged':
      change(state.activities, event.scheduledEventId, (activity) => {
        activity.taskList = event.taskList;
        activity.timeouts = event.timeouts;
      });
      break;
    case 'ActivitySuccess':
    case 'ActivityFailed':
    case 'ActivityCanceled':
    case 'ActivityTimedOut':
    case 'ActivityScheduledTimeout':
      state.activities.delete(event.scheduledEventId);
      break;
    case 'TimerScheduled':
      state.timers.set(event.id, { scheduled: event, at: timeOf(event) + (millisecondsOf(event.after) ?? 0) });
      break;
    case 'TimerCanceled':
    case 'TimerExpired':
      state.timers.delete(event.scheduledEventId);
      break;
    case 'ChildScheduled':
      state.children.set(event.id, { scheduled: event });
      break;
    case 'ChildStarted':
      change(state.children, event.scheduledEventId, (child) => {
        child.runId = event.runId;
      });
      break;
    case 'ChildSuccess':
    case 'ChildFailed':
    case 'ChildTimedOut':
    case 'ChildCanceled':
    case 'ChildTerminated':
      state.children.delete(event.scheduledEventId);
      break;
    case 'ChildScheduleFailed':
      if (event.scheduledEventId != null) state.children.delete(event.scheduledEventId);
      break;
    case 'UpdateAccepted':
      state.updates.set(event.id, event);
      break;
    case 'UpdateCompleted':
    case 'UpdateFailed':
      state.updates.delete(event.acceptedEventId);
      break;
    case 'WorkflowPaused':
      state.paused = event;
      break;
    case 'WorkflowResumed':
      if (state.paused?.stopClocks) {
        const stood = timeOf(event) - timeOf(state.paused);
        state.stoodMs += stood;
        for (const timer of state.timers.values()) timer.at += stood;
      }
      delete state.paused;
      break;
    case 'WorkflowCancelRequested':
      state.cancelRequested = true;
      break;
    default:
      if (closes(event)) {
        state.closed = event;
        state.turn = 'none';
      }
  }
}

function change<T>(of: Map<number, T>, id: number, how: (one: T) => void): void {
  const one = of.get(id);
  if (one !== undefined) how(one);
}
