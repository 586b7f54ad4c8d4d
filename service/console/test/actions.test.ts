import assert from 'node:assert/strict';
import test from 'node:test';
import { type Action, actionsOfActivity, actionsOfRun, knownIn, resetPointOf, retryOf } from '../src/actions';
import { bodyOf, initialOf, lackOf } from '../src/fields';
import { actionsOfDomain, actionsOfSchedule, actionsOfType, registerType } from '../src/manage';
import type { Turn } from '../src/fold';
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
  const signal = named(actionsOfRun('default', run()), 'signal');
  const values = { ...initialOf(signal.fields), input: ' {"n": 1.0, "big": 12345678901234567890} ' };
  assert.equal(bodyOf(signal.fields, values), '{"input":{"n": 1.0, "big": 12345678901234567890}}');
  assert.equal(signal.path(values), '/v1/domains/default/workflows/a%2Fb/signals/approve?runId=r');
  assert.equal(bodyOf(signal.fields, { ...values, input: '', identity: 'a"b' }), '{"identity":"a\\"b"}');
});

test('what is lacking is said by field', () => {
  const signal = named(actionsOfRun('default', run({ awaiting: [] })), 'signal');
  assert.deepEqual(Object.keys(lackOf(signal.fields, { '/name': ' ', input: 'text' })), ['/name', 'input']);
  assert.deepEqual(lackOf(signal.fields, { '/name': 'n', input: '"text"' }), {});
});

test('a reset is proposed for the selected event, or for the one before the last decision', () => {
  const turn = (id: number, decisions: object[], outcome = 'completed'): Turn =>
    ({ scheduled: { id }, decisions, outcome }) as never;
  const turns = [turn(2, [{}]), turn(7, [{}]), turn(12, []), turn(15, [], 'running')];
  const body = (selected: number | undefined, turns: Turn[]): string => {
    const reset = named(actionsOfRun('default', run(), resetPointOf(selected, turns)), 'reset');
    return bodyOf(reset.fields, initialOf(reset.fields));
  };
  assert.equal(body(12, turns), '{"eventId":12,"signals":"reapply"}');
  assert.equal(body(undefined, turns), '{"eventId":7,"signals":"reapply"}');
  assert.equal(body(undefined, [turn(2, [])]), '{"signals":"reapply"}', 'the operator has to choose one');
  const [field] = named(actionsOfRun('default', run()), 'reset').fields;
  assert.deepEqual(lackOf(field ? [field] : [], {}), { eventId: 'Required.' });
});

test('a run is offered what can be done with it as it stands', () => {
  assert.deepEqual(names(actionsOfRun('d', run({ status: 'failed' }))), ['query', 'reset']);
  assert.ok(names(actionsOfRun('d', run())).includes('pause'));
  const paused = names(actionsOfRun('d', run({ paused: { stopClocks: true } })));
  assert.ok(paused.includes('resume') && !paused.includes('pause'));
  assert.deepEqual(names(actionsOfSchedule('d', 's', true)), ['trigger', 'backfill', 'resume']);
});

test('a run of a single activity is offered no messages, and a reset to its activity', () => {
  const open = names(actionsOfRun('d', run({ oneActivity: true })));
  assert.deepEqual(open, ['pause', 'cancel', 'reset', 'terminate']);
  const closed = run({ oneActivity: true, status: 'failed' });
  assert.deepEqual(names(actionsOfRun('d', closed)), ['reset']);
  const [first, last] = [
    { decisions: [{ type: 'ActivityScheduled', id: 5 }] },
    { decisions: [{}] },
  ] as unknown as Turn[];
  assert.equal(resetPointOf(undefined, [first!, last!], true)?.event, 5);
  assert.equal(resetPointOf(7, [first!, last!], true)?.event, 7);
});

test('names that the history shows are offered, those of the service are not', () => {
  const events = [
    { type: 'DeciderCompleted', awaiting: ['approve', 'baton.cancel'] },
    { type: 'Signal', name: 'remark' },
    { type: 'UpdateAccepted', name: 'set-limit' },
    { type: 'Signal', name: 'remark' },
  ] as never[];
  const known = knownIn(events);
  assert.deepEqual(known, { signals: ['approve', 'remark'], updates: ['set-limit'] });
  const actions = actionsOfRun('d', run({ awaiting: ['stop'] }), 1, known);
  assert.deepEqual(named(actions, 'signal').fields[0]?.offers, ['stop', 'approve', 'remark']);
  assert.deepEqual(named(actions, 'update').fields[0]?.offers, ['set-limit']);
});

test('a type and a domain are offered what can be done with them as they stand', () => {
  assert.deepEqual(names(actionsOfType('d', 'workflow', 'order/2', false)), ['deprecate']);
  const [back] = actionsOfType('d', 'activity', 'order/2', true);
  assert.equal(back?.path({}), '/v1/domains/d/activity-types/order%2F2/undeprecate');
  assert.deepEqual(names(actionsOfDomain('a b', true)), ['undeprecate']);
  const register = registerType('d', 'activity');
  const values = {
    ...initialOf(register.fields),
    name: 'charge',
    'defaults.taskList': 'payments',
    'defaults.timeouts.heartbeat': '5s',
  };
  assert.equal(
    bodyOf(register.fields, values),
    '{"name":"charge","defaults":{"taskList":"payments","timeouts":{"heartbeat":"5s"}}}',
  );
  const workflow = registerType('d', 'workflow');
  assert.equal(bodyOf(workflow.fields, { ...initialOf(workflow.fields), name: 'order' }), '{"name":"order"}');
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

test('a retry policy goes whole where any of it was changed, and not at all where nothing was', () => {
  const retry = { initialInterval: 'PT1S', backoffCoefficient: 2, maximumAttempts: 5, nonRetryableReasons: ['a', 'b'] };
  const activity = { activityId: 'x', taskList: 'l', attempt: 2, startedAt: 'now' } as never;
  const change = named(actionsOfActivity('d', run(), activity, retry), 'options');
  const initial = initialOf(change.fields);
  assert.equal(bodyOf(change.fields, initial), '{}');
  assert.equal(
    bodyOf(change.fields, { ...initial, 'retry.maximumAttempts': '9' }),
    '{"retry":{"initialInterval":"PT1S","backoffCoefficient":2,"maximumAttempts":9,"nonRetryableReasons":["a","b"],"whenExhausted":"fail"}}',
  );
  assert.equal(bodyOf(change.fields, { ...initial, taskList: 'm' }), '{"taskList":"m"}');
  assert.deepEqual(Object.keys(lackOf(change.fields, { 'retry.maximumAttempts': 'many' })), ['retry.maximumAttempts']);
  assert.ok(!named(actionsOfActivity('d', run(), activity), 'options').fields.some(({ part }) => part), 'it has none');
});

test('the retry policy of an activity is the newest that the history has', () => {
  const events = [
    { id: 5, type: 'ActivityScheduled', retry: { maximumAttempts: 2 } },
    { id: 6, type: 'ActivityScheduled' },
    { id: 7, type: 'ActivityOptionsChanged', scheduledEventId: 5, retry: { maximumAttempts: 9 } },
  ] as never[];
  assert.deepEqual(retryOf(events, 5), { maximumAttempts: 9 });
  assert.equal(retryOf(events, 6), undefined);
});
