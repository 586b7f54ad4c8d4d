// Task lists: which need attention, their descriptions, and their order. Pure functions.
import type { Schemas } from './fold';
import { duration } from './time';

export type TaskList = Schemas['ListedTaskList'];

/**
 * Returns whether tasks wait on a list without pollers. A poller that polled recently and works on a task of the list
 * counts as a poller.
 */
export function isLonely(list: TaskList): boolean {
  const isBusy = (list.pollers ?? []).length > 0 && list.inFlight !== 0;
  return list.waiting > 0 && list.noPollersSince != null && !isBusy;
}

/** Returns the lists in order: first those that need attention, then those with the most tasks. */
export const inOrder = (lists: TaskList[]): TaskList[] =>
  [...lists].sort(
    (a, b) => Number(isLonely(b)) - Number(isLonely(a)) || b.waiting - a.waiting || a.name.localeCompare(b.name),
  );

/** Returns the number of tasks that wait on a list, with a plus sign if there may be more. */
export const waitingOf = (list: TaskList): string =>
  `${list.waiting.toLocaleString('en')}${list.moreWaiting ? '+' : ''}`;

/** Describes the waiting tasks of a list: `3 turns wait for a decider`. */
export function waitsFor(list: TaskList): string {
  const one = list.waiting === 1 && !list.moreWaiting;
  const what = list.kind === 'decider' ? (one ? 'turn' : 'turns') : one ? 'activity' : 'activities';
  return `${waitingOf(list)} ${what} ${one ? 'waits' : 'wait'} for a ${list.kind === 'decider' ? 'decider' : 'runner'}`;
}

/** Describes the pollers of a list. */
export function polledBy(list: TaskList, now: number): string {
  const elsewhere = (list.pollingNodes ?? []).length;
  const other = elsewhere === 0 ? '' : `${elsewhere} other node${elsewhere === 1 ? '' : 's'}`;
  const at = [list.polls > 0 ? `${list.polls} poller${list.polls === 1 ? '' : 's'}` : '', other].filter(Boolean);
  if (at.length > 0) return at.join(' and ');
  if (list.noPollersSince == null) return '';
  const busy = (list.pollers ?? []).length;
  const whole = Math.max(0, Math.floor((now - Date.parse(list.noPollersSince)) / 1000) * 1000);
  return busy > 0 ? `none now; ${busy} in the last five minutes` : `no pollers for ${duration(whole)}`;
}
