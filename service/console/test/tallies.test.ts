import assert from 'node:assert/strict';
import test from 'node:test';
import { talliesOf } from '../src/tallies';

test('open runs are all that are open, however they stand, and the rest is as it was counted', () => {
  const tallies = talliesOf({ count: 13, truncated: false, byStatus: { open: 5, stuck: 2, retrying: 1, success: 5 } });
  const of = (word: string): number | undefined => tallies.get(word)?.count;
  assert.deepEqual([of(''), of('open'), of('stuck'), of('retrying'), of('paused'), of('success')], [13, 8, 2, 1, 0, 5]);
  assert.equal(of('failed'), 0);
});

test('what is cut short is said to be for each', () => {
  const tallies = talliesOf({ count: 1_000_000, truncated: true, byStatus: { success: 1_000_000 } });
  assert.ok([...tallies.values()].every(({ truncated }) => truncated));
});
