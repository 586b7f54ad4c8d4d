import assert from 'node:assert/strict';
import test from 'node:test';
import { type TaskList, inOrder, isLonely, polledBy, waitsFor } from '../src/lists';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const SINCE = '2026-11-21T09:57:00Z';
const list = (more: Partial<TaskList>): TaskList => ({
  name: 'l',
  kind: 'activity',
  waiting: 0,
  moreWaiting: false,
  inFlight: 0,
  dispatchedLastMinute: 0,
  polls: 0,
  ...more,
});
const lately = { polls: 0, since: SINCE, lastPolledAt: SINCE };

test('a list is lonely where tasks wait and nobody polls, and not while who polled lately has one of them', () => {
  assert.equal(isLonely(list({ waiting: 1, noPollersSince: SINCE })), true);
  assert.equal(isLonely(list({ waiting: 0, noPollersSince: SINCE })), false);
  assert.equal(isLonely(list({ waiting: 1, polls: 1 })), false);
  assert.equal(isLonely(list({ waiting: 1, noPollersSince: SINCE, pollers: [lately] })), true, 'it went away');
  assert.equal(isLonely(list({ waiting: 1, noPollersSince: SINCE, pollers: [lately], inFlight: 1 })), false, 'busy');
});

test('who polls is said, here and at other nodes, and who did lately', () => {
  assert.equal(polledBy(list({ polls: 1 }), NOW), '1 poller');
  assert.equal(polledBy(list({ polls: 2, pollingNodes: ['b'] }), NOW), '2 pollers and 1 other node');
  assert.equal(polledBy(list({ pollingNodes: ['b', 'c'] }), NOW), '2 other nodes');
  assert.equal(polledBy(list({ noPollersSince: SINCE }), NOW), 'no pollers for 3\u00a0m');
  const busy = list({ noPollersSince: SINCE, pollers: [lately] });
  assert.equal(polledBy(busy, NOW), 'none now; 1 in the last five minutes');
});

test('what waits is counted in words, and lists in trouble come first', () => {
  assert.equal(waitsFor(list({ waiting: 1 })), '1 activity waits for a runner');
  assert.equal(waitsFor(list({ waiting: 1, moreWaiting: true })), '1+ activities wait for a runner');
  assert.equal(waitsFor(list({ waiting: 2000, kind: 'decider' })), '2,000 turns wait for a decider');
  const lists = [
    list({ name: 'b' }),
    list({ name: 'c', waiting: 9, polls: 1 }),
    list({ name: 'd', waiting: 1, noPollersSince: SINCE }),
    list({ name: 'a' }),
  ];
  assert.deepEqual(
    inOrder(lists).map(({ name }) => name),
    ['d', 'c', 'a', 'b'],
  );
});
