// How many runs there are of each status, from one count. Pure.
import { OUTCOMES, STANDINGS } from './filter';
import type { Schemas } from './fold';

export interface Tally {
  count: number;
  /** Whether there may be more: counting stopped. */
  truncated: boolean;
}

/** Returns the tallies by what `status` takes, those of all runs under the empty word. `open` has every open run, as the list has. */
export function talliesOf({ count, truncated, byStatus = {} }: Schemas['Count']): Map<string, Tally> {
  const of = (word: string): number => byStatus[word] ?? 0;
  const tallies = new Map<string, Tally>([['', { count, truncated }]]);
  const open = ['open', ...STANDINGS].reduce((sum, word) => sum + of(word), 0);
  tallies.set('open', { count: open, truncated });
  for (const word of [...STANDINGS, ...OUTCOMES]) tallies.set(word, { count: of(word), truncated });
  return tallies;
}
