// Which runs of a list are selected. Pure.

/** Selected runs by their run ids, or all that match the filter, of which a list shows the newest alone. */
export type Selection = ReadonlySet<string> | 'all';

export const NOTHING: Selection = new Set();

export const isEmpty = (selection: Selection): boolean => selection !== 'all' && selection.size === 0;

export const has = (selection: Selection, runId: string): boolean => selection === 'all' || selection.has(runId);

/** Selects a run, or no longer. Out of all that match it leaves those that are shown, without that one. */
export function toggle(selection: Selection, runId: string, shown: readonly { runId: string }[]): Selection {
  const next = new Set(selection === 'all' ? shown.map((run) => run.runId) : selection);
  if (!next.delete(runId)) next.add(runId);
  return next;
}
