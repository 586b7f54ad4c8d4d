// The deadlines of a run and their effects, as far as they follow from its history. Pure functions.
import { type State, timeOf } from './fold';
import { millisecondsOf } from './time';

export interface Deadline {
  at: number;
  kind: string;
  name?: string;
  eventId?: number;
}

/**
 * Returns the deadlines of a run in this state, earliest first, as far as they follow from its history. Attempts of an
 * activity with a retry policy are not in the history while the activity is open. The service's own list of deadlines
 * includes them.
 */
export function deadlinesOf(state: State): Deadline[] {
  if (state.closed || state.paused?.stopClocks) return [];
  const deadlines: Deadline[] = [];
  const add = (
    from: number | undefined,
    after: string | null | undefined,
    kind: string,
    name?: string,
    eventId?: number,
  ): void => {
    const ms = millisecondsOf(after);
    if (from !== undefined && ms !== undefined) {
      deadlines.push({
        at: from + ms,
        kind,
        ...(name === undefined ? {} : { name }),
        ...(eventId === undefined ? {} : { eventId }),
      });
    }
  };
  for (const { scheduled, at } of state.timers.values())
    deadlines.push({ at, kind: 'timer', name: scheduled.timerId, eventId: scheduled.id });
  for (const { scheduled, started, timeouts, paused } of state.activities.values()) {
    const { id, activityId } = scheduled;
    add(timeOf(scheduled), timeouts.scheduleToClose, 'activity-schedule-to-close', activityId, id);
    if (started) add(timeOf(started), timeouts.startToClose, 'activity-start-to-close', activityId, id);
    else if (!paused && !scheduled.retry)
      add(timeOf(scheduled), timeouts.scheduleToStart, 'activity-schedule-to-start', activityId, id);
  }
  const turn = state.turnScheduled;
  if (turn && state.turn === 'running' && state.turnSince)
    add(timeOf(state.turnSince), turn.startToClose, 'turn-start-to-close', undefined, turn.id);
  if (turn && state.turn === 'waiting') {
    if (turn.notBefore && Date.parse(turn.notBefore) > state.at) {
      deadlines.push({ at: Date.parse(turn.notBefore), kind: 'turn-retry', eventId: turn.id });
    } else {
      add(timeOf(turn), turn.scheduleToStart, 'turn-schedule-to-start', undefined, turn.id);
    }
  }
  if (state.started) {
    const from = timeOf(state.started) + state.stoodMs;
    const waits = millisecondsOf(state.started.startAfter) ?? 0;
    const since = state.started.executionFrom ? Date.parse(state.started.executionFrom) + state.stoodMs : from + waits;
    add(since, state.started.executionTimeout, 'execution');
    if (state.started.runTimeout) add(from + waits, state.started.runTimeout, 'run');
  }
  return deadlines.sort((a, b) => a.at - b.at);
}

/** Returns the event that a deadline will cause, and what follows it. */
export function consequenceOf(deadline: { kind: string; name?: string | null }): { event: string; then: string } {
  switch (deadline.kind) {
    case 'timer':
      return { event: 'TimerExpired', then: 'a turn' };
    case 'execution':
      return { event: 'WorkflowTimedOut', then: 'the workflow ends' };
    case 'run':
      return { event: 'WorkflowTimedOut', then: 'the run ends' };
    case 'turn-start-to-close':
      return { event: 'DeciderTimedOut', then: 'the turn is retried' };
    case 'turn-schedule-to-start':
      return { event: 'DeciderTimedOut', then: 'the turn is scheduled again on the run’s task list' };
    case 'turn-retry':
      return { event: 'no event', then: 'the turn is handed out again' };
    case 'first-turn':
      return { event: 'DeciderScheduled', then: 'the first turn' };
    case 'activity-schedule-to-start':
      return { event: 'ActivityScheduledTimeout', then: 'a turn' };
    case 'activity-retry':
      return { event: 'no event', then: 'the next attempt is handed out' };
    case 'activity-start-to-close':
      return { event: 'ActivityTimedOut', then: 'a retry by its retry policy, or a turn' };
    case 'activity-heartbeat':
      return { event: 'ActivityTimedOut', then: 'a retry by its retry policy, or a turn' };
    case 'activity-schedule-to-close':
      return { event: 'ActivityTimedOut', then: 'a turn' };
    case 'effects':
      return { event: 'no event', then: 'pending effects on other runs are delivered' };
    default:
      return { event: deadline.kind, then: '' };
  }
}
