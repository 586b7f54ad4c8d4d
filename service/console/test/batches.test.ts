import assert from 'node:assert/strict';
import test from 'node:test';
import {
  ALL_FIELDS,
  type Batch,
  actionsOfBatch,
  bodyOfBatch,
  bodyOfDryRun,
  fieldsOfBatch,
  filterOfBatch,
  progressOf,
  proposedFor,
  selectionOf,
  textForBatch,
  wordsOfOperation,
} from '../src/batches';
import { filterOfFailure, proposedForFailure } from '../src/failures';
import { initialOf, lackOf } from '../src/fields';
import type { Filter } from '../src/filter';

const batch = (more: Partial<Batch>): Batch => ({
  batchId: 'b',
  status: 'running',
  operation: { type: 'retry-activities' },
  filter: {},
  pace: 50,
  createdAt: '2026-11-21T10:00:00Z',
  estimatedTotal: 5000,
  estimateTruncated: false,
  examined: 0,
  done: 0,
  refused: 0,
  refusedByCode: {},
  refusals: [],
  ...more,
});
const initial = initialOf(ALL_FIELDS);

test('the body has the filter, and only fields of the operation', () => {
  const values = {
    ...initial,
    'operation.type': 'retry-activities',
    '/filter': 'status:blocked type:"a b"',
    'operation.failureReason': 'smtp-refused',
    // A value that was typed for another operation.
    'operation.name': 'go',
    pace: '100',
    reason: 'it is back',
  };
  assert.deepEqual(JSON.parse(bodyOfBatch(values)), {
    filter: { status: 'blocked', type: 'a b' },
    operation: { type: 'retry-activities', failureReason: 'smtp-refused' },
    reason: 'it is back',
    pace: 100,
  });
  const signal = { ...values, 'operation.type': 'signal', 'operation.input': '{"n": 1.0}' };
  assert.ok(bodyOfBatch(signal).includes('"operation":{"type":"signal","name":"go","input":{"n": 1.0}}'));
  assert.deepEqual(Object.keys(lackOf(fieldsOfBatch(signal), { ...signal, 'operation.name': '', '/filter': 'x:y' })), [
    '/filter',
    'operation.name',
  ]);
});

test('a reset begins at a named event or at an event id, not both', () => {
  const values = { ...initial, 'operation.type': 'reset', '/filter': 'status:failed', 'operation.eventId': '7' };
  assert.deepEqual(JSON.parse(bodyOfBatch(values)).operation, { type: 'reset', to: 'last-turn', signals: 'reapply' });
  assert.deepEqual(JSON.parse(bodyOfBatch({ ...values, 'operation.to': '' })).operation, {
    type: 'reset',
    eventId: 7,
    signals: 'reapply',
  });
});

test('a dry run has required members and selected workflow ids', () => {
  assert.deepEqual(JSON.parse(bodyOfDryRun('signal', 'tag:a order:startedAt', ['x', 'y'])), {
    dryRun: true,
    operation: { type: 'signal', name: 'any' },
    filter: { tag: 'a', workflowIds: ['x', 'y'] },
  });
  assert.deepEqual(filterOfBatch('order-'), { workflowIdPrefix: 'order-' });
  const filter: Filter = { status: 'open', workflowIdPrefix: 'order-', order: 'startedAt' };
  assert.equal(textForBatch(filter, false), 'status:open id-prefix:order-');
  assert.equal(textForBatch(filter, true), 'status:open');
});

test('the operation that is proposed fits the runs', () => {
  const cases: [Filter, string][] = [
    [{ status: 'blocked' }, 'retry-activities'],
    [{ status: 'paused' }, 'resume'],
    [{ status: 'failed' }, 'reset'],
    [{ status: 'success' }, 'delete'],
    [{ closedBefore: '2026-11-21T10:00:00Z' }, 'delete'],
    [{ type: 'order' }, 'signal'],
  ];
  for (const [filter, kind] of cases) assert.equal(proposedFor(filter), kind);
});

test('the estimated total is never lower than the runs done', () => {
  assert.deepEqual(progressOf(batch({ done: 4000, refused: 3 })), {
    came: 4003,
    total: 5000,
    words: '4,000 of about 5,000 runs done, 3 refused; at least 20\u00a0s left',
  });
  assert.equal(progressOf(batch({ done: 6000, status: 'stopped' })).total, 6000);
  assert.equal(progressOf(batch({ estimateTruncated: true, status: 'stopped' })).words, '0 of 5,000 or more runs done');
  assert.equal(progressOf(batch({ status: 'completed', done: 1, refused: 2 })).words, '1 run done, 2 refused');
});

test('a batch is described by its operation and its runs', () => {
  assert.equal(selectionOf({ status: 'open', tag: 'a b', workflowIds: ['x'] }), '1 workflow id status:open tag:"a b"');
  assert.equal(selectionOf({}), '');
  assert.equal(
    wordsOfOperation({ type: 'retry-activities', failureReason: 'disk-full' }),
    'Retry activities that failed with disk-full',
  );
  assert.equal(wordsOfOperation({ type: 'reset', to: 'last-turn' }), 'Reset to the last turn');
  assert.equal(wordsOfOperation({ type: 'reset', eventId: 7 }), 'Reset to event 7');
  assert.equal(wordsOfOperation({ type: 'cancel' }), 'Request cancel');
});

test('a running batch can be stopped, and only others deleted', () => {
  const labels = (status: Batch['status']): string[] =>
    actionsOfBatch('d', batch({ status })).map(({ label }) => label);
  assert.deepEqual(labels('running'), ['Stop', 'Change pace']);
  assert.deepEqual(labels('stopped'), ['Resume', 'Change pace', 'Delete']);
  assert.deepEqual(labels('completed'), ['Delete']);
});

test('blocked runs are proposed for a retry, failed for a reset', () => {
  const group = {
    status: 'blocked',
    workflowType: 'mail',
    reason: 'smtp-refused',
    runs: 2,
    firstAt: '2026-11-21T10:00:00Z',
    lastAt: '2026-11-21T10:00:00Z',
  };
  assert.deepEqual(filterOfFailure(group), { status: 'blocked', type: 'mail' });
  assert.deepEqual(proposedForFailure(group).filled, { 'operation.failureReason': 'smtp-refused' });
  const failed = { ...group, status: 'failed' };
  assert.deepEqual(filterOfFailure(failed), { status: 'failed', type: 'mail', reason: 'smtp-refused' });
  assert.equal(proposedForFailure(failed).operation, 'reset');
  const { reason: _, ...without } = failed;
  assert.deepEqual(filterOfFailure(without), { status: 'failed', type: 'mail' });
});
