// The timeline: bars of turns, activities, timers and children, and a time axis that shortens idle periods. Pure
// functions.
import { deadlinesOf } from './deadlines';
import { type Event, Row, type State, closes, stateAsOf, timeOf, turnsOf } from './fold';

export interface Part {
  from: number;
  to: number;
  kind: 'waiting' | 'running' | 'pending';
  /** Event that began this part, if it is not the event of the bar. */
  eventId?: number;
  isBad?: boolean;
}
export interface Bar {
  lane: 'turn' | 'activity' | 'timer' | 'child' | 'signal';
  label: string;
  /** Event that began the bar. A click selects it. */
  eventId: number;
  parts: Part[];
  outcome: 'good' | 'bad' | 'open' | 'neutral';
  note: string;
}

/** Returns the bars of a run as of an event, in the order in which they began. Open bars end at `now`. */
export function barsOf(row: Row, state: State, now: number): Bar[] {
  const bars: Bar[] = [];
  const byScheduled = new Map<number, Bar>();
  const signals = new Map<string, Bar>();
  const end = state.closed ? timeOf(state.closed) : now;
  const open = (bar: Bar): void => {
    bars.push(bar);
    byScheduled.set(bar.eventId, bar);
  };
  const close = (id: number, event: Event, outcome: Bar['outcome']): void => {
    const bar = byScheduled.get(id);
    const part = bar?.parts.at(-1);
    if (!bar || !part) return;
    part.to = timeOf(event);
    bar.outcome = outcome;
    bar.note = event.type;
  };
  const events = row.events.filter((event) => event.id <= state.asOf);
  for (const turn of turnsOf(new Row(events))) {
    const parts: Part[] = [];
    const scheduled = timeOf(turn.scheduled);
    const started = turn.started ? timeOf(turn.started) : undefined;
    const ended = turn.ended ? timeOf(turn.ended) : end;
    parts.push({ from: scheduled, to: started ?? ended, kind: 'waiting', eventId: turn.scheduled.id });
    if (started !== undefined)
      parts.push({
        from: started,
        to: ended,
        kind: 'running',
        eventId: (turn.ended ?? turn.started ?? turn.scheduled).id,
        isBad: turn.outcome === 'failed' || turn.outcome === 'timed-out',
      });
    const last = bars.at(-1);
    const outcome = turn.outcome === 'waiting' || turn.outcome === 'running' ? 'open' : 'good';
    // Turns share one row: they never overlap.
    if (last?.lane === 'turn') {
      last.parts.push(...parts);
      last.outcome = outcome;
      last.note = `${turn.number} turns`;
    } else {
      bars.push({ lane: 'turn', label: 'turns', eventId: turn.scheduled.id, parts, outcome, note: '1 turn' });
    }
  }
  for (const event of events) {
    const at = timeOf(event);
    switch (event.type) {
      case 'ActivityScheduled':
        open({
          lane: 'activity',
          label: event.activityId,
          eventId: event.id,
          parts: [{ from: at, to: end, kind: 'waiting' }],
          outcome: 'open',
          note: event.activityType,
        });
        break;
      case 'ActivityStarted': {
        const bar = byScheduled.get(event.scheduledEventId);
        const waiting = bar?.parts.at(-1);
        if (bar && waiting) {
          waiting.to = event.startedAt ? Date.parse(event.startedAt) : at;
          bar.parts.push({ from: waiting.to, to: end, kind: 'running' });
          if (event.attempt && event.attempt > 1) bar.label += ` ×${event.attempt}`;
        }
        break;
      }
      case 'ActivitySuccess':
        close(event.scheduledEventId, event, 'good');
        break;
      case 'ActivityFailed':
      case 'ActivityTimedOut':
      case 'ActivityScheduledTimeout':
        close(event.scheduledEventId, event, 'bad');
        break;
      case 'ActivityCanceled':
        close(event.scheduledEventId, event, 'neutral');
        break;
      case 'TimerScheduled':
        open({
          lane: 'timer',
          label: event.timerId,
          eventId: event.id,
          parts: [{ from: at, to: end, kind: 'waiting' }],
          outcome: 'open',
          note: event.after,
        });
        break;
      case 'TimerExpired':
        close(event.scheduledEventId, event, 'good');
        break;
      case 'TimerCanceled':
        close(event.scheduledEventId, event, 'neutral');
        break;
      case 'ChildScheduled':
        open({
          lane: 'child',
          label: event.workflowId,
          eventId: event.id,
          parts: [{ from: at, to: end, kind: 'running' }],
          outcome: 'open',
          note: event.workflowType,
        });
        break;
      case 'ChildSuccess':
        close(event.scheduledEventId, event, 'good');
        break;
      case 'ChildFailed':
      case 'ChildTimedOut':
        close(event.scheduledEventId, event, 'bad');
        break;
      case 'ChildCanceled':
      case 'ChildTerminated':
        close(event.scheduledEventId, event, 'neutral');
        break;
      case 'ChildScheduleFailed':
        if (event.scheduledEventId != null) close(event.scheduledEventId, event, 'bad');
        break;
      case 'Signal':
      case 'WorkflowCancelRequested': {
        // Signals have no duration, so all signals of one name share a row.
        const label = event.type === 'Signal' ? event.name : 'cancel request';
        const part: Part = { from: at, to: at, kind: 'running', eventId: event.id };
        const known = signals.get(label);
        if (known) {
          known.parts.push(part);
          known.note = `${known.parts.length} of them`;
        } else {
          const bar: Bar = {
            lane: 'signal',
            label,
            eventId: event.id,
            parts: [part],
            outcome: 'neutral',
            note: event.type,
          };
          signals.set(label, bar);
          bars.push(bar);
        }
        break;
      }
      default:
        if (closes(event)) for (const bar of bars) if (bar.outcome === 'open') bar.outcome = 'neutral';
    }
  }
  if (!state.closed) {
    for (const { at, eventId, kind } of deadlinesOf(state)) {
      const bar = eventId === undefined ? undefined : byScheduled.get(eventId);
      const last = bar?.parts.at(-1);
      if (bar && last && last.kind !== 'pending' && at > last.to && (kind === 'timer' || kind.startsWith('activity'))) {
        bar.parts.push({ from: last.to, to: at, kind: 'pending' });
      }
    }
  }
  return bars;
}

/** Returns the bars of a run as of the last event of a row. */
export const barsOfAll = (row: Row, now: number): Bar[] => barsOf(row, stateAsOf(row, row.last), now);

export interface Fold {
  from: number;
  to: number;
  at: number;
  width: number;
}
export interface Scale {
  /** Returns the position of an instant on the axis, from 0 to 1. */
  place: (instant: number) => number;
  folds: Fold[];
}

/**
 * A period without events is shortened ("folded") if it is longer than each of these: a number of milliseconds, a
 * fraction of the time that is not folded, and a multiple of a short period. The short period is longer than a quarter
 * of all periods. Our choice.
 */
const IDLE_MS = 5000;
const IDLE_SHARE = 0.02;
const IDLE_TIMES_SHORT = 30;
/**
 * Width of a folded period, and maximum width of all folded periods together, as fractions of the time that is not
 * folded. Our choice.
 */
const FOLDED_SHARE = 0.25;
const ALL_FOLDED_SHARE = 1;

/** Returns a scale for instants. If `folding` is true, long periods between the instants are shortened. */
export function scaleOf(instants: readonly number[], folding: boolean): Scale {
  const points = [...new Set(instants)].sort((a, b) => a - b);
  const first = points[0] ?? 0;
  const last = points.at(-1) ?? first;
  const whole = Math.max(1, last - first);
  if (!folding || points.length < 3) return { place: (at) => clamp((at - first) / whole), folds: [] };
  const gaps = points.slice(1).map((to, index) => ({ from: points[index] ?? first, to }));
  const idle = new Set<number>();
  const short = gaps.map(size).sort((a, b) => a - b)[Math.floor(gaps.length / 4)] ?? 0;
  let rest = whole;
  // The longest periods come first, because each is compared with the time that remains after folding longer periods.
  for (const index of gaps.map((_, at) => at).sort((a, b) => size(gaps[b]) - size(gaps[a]))) {
    if (
      size(gaps[index]) <= Math.max(IDLE_MS, IDLE_SHARE * rest, IDLE_TIMES_SHORT * short) ||
      idle.size > gaps.length - 2
    )
      break;
    idle.add(index);
    rest -= size(gaps[index]);
  }
  const folded = Math.max(1, rest) * Math.min(FOLDED_SHARE, ALL_FOLDED_SHARE / Math.max(1, idle.size));
  const total = Math.max(1, rest + folded * idle.size);
  const folds: Fold[] = [];
  const starts: number[] = [];
  let drawn = 0;
  gaps.forEach((gap, index) => {
    starts.push(drawn);
    const width = idle.has(index) ? folded : size(gap);
    if (idle.has(index)) folds.push({ ...gap, at: drawn / total, width: width / total });
    drawn += width;
  });
  const place = (at: number): number => {
    if (at <= first) return 0;
    if (at >= last) return 1;
    let low = 0;
    let high = gaps.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((gaps[middle]?.from ?? 0) <= at) low = middle;
      else high = middle - 1;
    }
    const gap = gaps[low];
    if (!gap) return 0;
    const width = idle.has(low) ? folded : size(gap);
    return clamp(((starts[low] ?? 0) + (width * (at - gap.from)) / Math.max(1, size(gap))) / total);
  };
  return { place, folds };
}

const size = (gap: { from: number; to: number } | undefined): number => (gap ? gap.to - gap.from : 0);
const clamp = (share: number): number => Math.min(1, Math.max(0, share));
