// Number of runs of each status, from one count. Pure functions.
import { OUTCOMES, STANDINGS } from './filter';
import type { Schemas } from './fold';

export interface Tally {
  count: number;
  /** True if counting stopped at a limit, so that there may be more runs. */
  truncated: boolean;
}

/** Returns the counts by status. The empty word has the count of all runs, and `open` the count of all open runs. */
export function talliesOf({ count, truncated, byStatus = {} }: Schemas['Count']): Map<string, Tally> {
  const of = (word: string): number => byStatus[word] ?? 0;
  const tallies = new Map<string, Tally>([['', { count, truncated }]]);
  const open = ['open', ...STANDINGS].reduce((sum, word) => sum + of(word), 0);
  tallies.set('open', { count: open, truncated });
  for (const word of [...STANDINGS, ...OUTCOMES]) tallies.set(word, { count: of(word), truncated });
  return tallies;
}
