// Selection of runs in a list. Pure functions.

/**
 * Run ids of the selected runs, or `all` for all runs that match the filter, even those that the list does not show.
 */
export type Selection = ReadonlySet<string> | 'all';

export const NOTHING: Selection = new Set();

export const isEmpty = (selection: Selection): boolean => selection !== 'all' && selection.size === 0;

export const has = (selection: Selection, runId: string): boolean => selection === 'all' || selection.has(runId);

/**
 * Selects a run, or deselects it if it was selected. If all matching runs were selected, the result contains the shown
 * runs without this one.
 */
export function toggle(selection: Selection, runId: string, shown: readonly { runId: string }[]): Selection {
  const next = new Set(selection === 'all' ? shown.map((run) => run.runId) : selection);
  if (!next.delete(runId)) next.add(runId);
  return next;
}
