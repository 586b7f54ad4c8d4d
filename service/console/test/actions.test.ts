import assert from 'node:assert/strict';
import test from 'node:test';
import {
  type Action,
  actionsOfActivity,
  actionsOfRun,
  actionsOfSchedule,
  bodyOf,
  initialOf,
  lackOf,
} from '../src/actions';
import type { Described } from '../src/words';

const run = (more: object = {}): Described =>
  ({ workflowId: 'a/b', runId: 'r', status: 'open', awaiting: ['approve', 'baton.cancel'], ...more }) as never;
const named = (actions: Action[], name: string): Action => {
  const found = actions.find((action) => action.name === name);
  assert.ok(found, name);
  return found;
};
const names = (actions: Action[]): string[] => actions.map(({ name }) => name);

test('payloads go as they were typed, and what is empty does not go', () => {
  const signal = named(actionsOfRun('default', run(), 1), 'signal');
  const values = { ...initialOf(signal.fields), input: ' {"n": 1.0, "big": 12345678901234567890} ' };
  assert.equal(bodyOf(signal.fields, values), '{"input":{"n": 1.0, "big": 12345678901234567890}}');
  assert.equal(signal.path(values), '/v1/domains/default/workflows/a%2Fb/signals/approve?runId=r');
  assert.equal(bodyOf(signal.fields, { ...values, input: '', identity: 'a"b' }), '{"identity":"a\\"b"}');
});

test('what is lacking is said by field', () => {
  const signal = named(actionsOfRun('default', run({ awaiting: [] }), 1), 'signal');
  assert.deepEqual(Object.keys(lackOf(signal.fields, { '/name': ' ', input: 'text' })), ['/name', 'input']);
  assert.deepEqual(lackOf(signal.fields, { '/name': 'n', input: '"text"' }), {});
});

test('a reset starts from the event that is selected, and sends it although it was not changed', () => {
  const reset = named(actionsOfRun('default', run(), 12), 'reset');
  assert.equal(bodyOf(reset.fields, initialOf(reset.fields)), '{"eventId":12,"signals":"reapply"}');
});

test('a run is offered what can be done with it as it stands', () => {
  assert.deepEqual(names(actionsOfRun('d', run({ status: 'failed' }), 1)), ['query', 'reset']);
  assert.ok(names(actionsOfRun('d', run(), 1)).includes('pause'));
  const paused = names(actionsOfRun('d', run({ paused: { stopClocks: true } }), 1));
  assert.ok(paused.includes('resume') && !paused.includes('pause'));
  assert.deepEqual(names(actionsOfSchedule('d', 's', true)), ['trigger', 'resume']);
});

test('of an activity what is not changed stays as it is', () => {
  const activity = { activityId: 'x y', taskList: 'imports', attempt: 1 } as never;
  const change = named(actionsOfActivity('d', run(), activity), 'options');
  const values = { ...initialOf(change.fields), 'timeouts.startToClose': '2m', 'timeouts.heartbeat': '5s' };
  assert.equal(bodyOf(change.fields, values), '{"timeouts":{"startToClose":"2m","heartbeat":"5s"}}');
  assert.equal(bodyOf(change.fields, { taskList: 'other' }), '{"taskList":"other"}');
  assert.equal(change.path(values), '/v1/domains/d/workflows/a%2Fb/activities/x%20y/options?runId=r');
  assert.ok(!names(actionsOfActivity('d', run(), activity)).includes('retry'), 'it waits for its first try');
  const paused = { activityId: 'x', taskList: 'l', attempt: 1, paused: {} } as never;
  assert.ok(names(actionsOfActivity('d', run(), paused)).includes('retry'));
});
