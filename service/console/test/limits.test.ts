import assert from 'node:assert/strict';
import test from 'node:test';
import { bodyOf, initialOf, lackOf } from '../src/fields';
import {
  actionsOfList,
  behindOf,
  fieldsOfLimits,
  heldBack,
  inShort,
  keyOfLine,
  limitRows,
  limitsOf,
  lineOfKey,
  phraseOf,
  runningOf,
} from '../src/limits';
import type { TaskList } from '../src/lists';
import { type Described, reasonOf } from '../src/words';

const list = (more: Partial<TaskList> = {}): TaskList => ({
  name: 'PCI',
  kind: 'activity',
  waiting: 0,
  moreWaiting: false,
  dispatchedLastMinute: 0,
  polls: 0,
  ...more,
});
const ofList = { limit: 'max-running', scope: 'list', name: 'PCI', running: 20, max: 20 };

test('limits are described in the words of the command line', () => {
  const rate = { perSecond: 5, burst: 10 };
  assert.equal(limitsOf({ maxRunning: 20, rate }), 'at most 20 running, at most 5/s (burst 10)');
  assert.equal(phraseOf({ limit: 'paused', scope: 'list', name: 'PCI' }, 'PCI'), 'PCI is paused');
  assert.equal(
    phraseOf({ limit: 'counting', scope: 'list', name: 'PCI' }, 'PCI'),
    'the service counts the running tasks of PCI',
  );
  assert.equal(phraseOf({ ...ofList, scope: 'key', name: 'visa' }, 'PCI'), '20 of 20 running with key visa on PCI');
  assert.equal(phraseOf({ ...ofList, scope: 'group', name: 'bank' }, 'PCI'), '20 of 20 running in group bank');
  assert.equal(phraseOf({ limit: 'rate', scope: 'list', name: 'PCI', rate }, 'PCI'), 'at most 5/s (burst 10) on PCI');
  assert.equal(phraseOf({ limit: 'new', scope: 'list', name: 'PCI' }, 'PCI'), 'limit new on PCI');
  assert.equal(behindOf([], 'PCI'), '');
  assert.equal(behindOf(undefined, 'PCI'), '');
  assert.equal(
    behindOf(
      [
        { ...ofList, ahead: 1200 },
        { limit: 'paused', scope: 'list', name: 'PCI', ahead: 0 },
      ],
      'PCI',
    ),
    'waits behind: 20 of 20 running on PCI, 1,200 ahead; PCI is paused',
  );
});

test('held tasks are counted, and a list is described in short', () => {
  const behind = [
    { ...ofList, waiting: 3000 },
    { ...ofList, scope: 'key', name: 'gold', waiting: 1 },
  ];
  assert.deepEqual(heldBack(list({ behind })), [
    '3,000 wait behind: 20 of 20 running on PCI',
    '1 waits behind: 20 of 20 running with key gold on PCI',
  ]);
  assert.equal(inShort(list()), '');
  const limits = { maxRunning: 20, perKey: { maxRunning: 2 }, limits: [{ key: 'a' }], group: 'bank' };
  assert.equal(inShort(list({ limits })), '20 running, per key, 1 key, group bank');
  assert.deepEqual(runningOf(list({ inFlight: 3 })), { running: 3, max: undefined });
  const uses = [{ scope: 'list', name: 'PCI', running: 7, maxRunning: 20 }];
  assert.deepEqual(runningOf(list({ inFlight: 3, uses, limits })), { running: 7, max: 20 });
});

test('limits of a list, its group and keys are rows with their use', () => {
  const rows = limitRows(
    list({
      limits: { maxRunning: 20, perKey: { maxRunning: 2 }, limits: [{ key: 'visa', maxRunning: 9, weight: 3 }] },
      uses: [
        { scope: 'list', name: 'PCI', running: 20, maxRunning: 20 },
        { scope: 'group', name: 'bank', running: 21, maxRunning: 40 },
        { scope: 'key', name: 'gold', running: 2, maxRunning: 2 },
      ],
      behind: [
        { ...ofList, waiting: 5 },
        { limit: 'paused', scope: 'list', name: 'PCI', waiting: 6 },
        { limit: 'max-running', scope: 'key', name: 'new', running: 2, max: 2, waiting: 1 },
      ],
    }),
  );
  assert.deepEqual(
    rows.map(({ scope, name, running, max, weight, waiting }) => [scope, name, running, max, weight, waiting]),
    [
      ['list', 'PCI', 20, 20, 1, 6],
      ['group', 'bank', 21, 40, 1, 0],
      ['each key', undefined, undefined, 2, 1, 0],
      ['key', 'gold', 2, 2, 1, 0],
      ['key', 'visa', 0, 9, 3, 0],
      ['key', 'new', 2, 2, 1, 1],
    ],
  );
});

test('limits of a key are read as on the command line', () => {
  assert.deepEqual(keyOfLine('visa=20'), { key: 'visa', maxRunning: 20 });
  assert.deepEqual(keyOfLine('a=b=2, 0.5/s, weight:3'), {
    key: 'a=b',
    maxRunning: 2,
    rate: { perSecond: 0.5 },
    weight: 3,
  });
  for (const bad of ['visa', '=2', 'visa=', 'visa=x', 'visa=-1', 'visa=5/d', 'visa=burst:2', 'visa=weight:x'])
    assert.equal(keyOfLine(bad), undefined, bad);
  for (const key of [
    { key: 'visa', maxRunning: 20, rate: { perSecond: 5, burst: 9 }, weight: 3 },
    { key: 'trial', rate: { perSecond: 0.5, burst: 1 } },
  ]) {
    const { rate } = keyOfLine(lineOfKey(key)) ?? {};
    assert.equal(rate?.perSecond, key.rate.perSecond);
    assert.ok(rate?.burst === undefined ? key.rate.burst === 1 : rate.burst === key.rate.burst);
  }
  assert.equal(lineOfKey({ key: 'trial', maxRunning: 1, rate: { perSecond: 0.5, burst: 1 } }), 'trial=1,0.5/s');
});

test('the form has the current limits, and sends all of them', () => {
  const limits = {
    maxRunning: 20,
    rate: { perSecond: 0.5, burst: 3 },
    perKey: { rate: { perSecond: 2, burst: 2 } },
    limits: [{ key: 'gold', maxRunning: 10, weight: 3 }],
    group: 'bank',
  };
  const fields = fieldsOfLimits(limits, ['other']);
  const values = initialOf(fields);
  assert.deepEqual(lackOf(fields, values), {});
  assert.deepEqual(JSON.parse(bodyOf(fields, values)), limits);
  assert.deepEqual(Object.keys(lackOf(fields, { ...values, limits: 'gold' })), ['limits']);
  const none = fieldsOfLimits(undefined, []);
  assert.equal(bodyOf(none, initialOf(none)), '{}');
});

test('a list is paused or resumed; existing limits are removed', () => {
  const labels = (of: TaskList): string[] => actionsOfList('d', of, []).map(({ label }) => label);
  assert.deepEqual(labels(list()), ['Set limits', 'Pause']);
  const paused = { since: '2026-11-21T10:00:00Z' };
  const resume = (stopClocks: boolean) =>
    actionsOfList('d', list({ paused: { ...paused, stopClocks } }), []).find((one) => one.name === 'resume')!.says;
  assert.match(resume(true), /timeouts continue/);
  assert.doesNotMatch(resume(false), /timeouts/);
  const pause = actionsOfList('d', list({}), []).find((one) => one.name === 'pause')!;
  assert.ok(pause.fields.some((field) => field.name === 'stopClocks' && field.kind === 'flag'));
  assert.deepEqual(labels(list({ limits: { maxRunning: 1 }, paused })), ['Change limits', 'Remove limits', 'Resume']);
  const [set] = actionsOfList('d', list({ name: 'a/b', kind: 'decider' }), []);
  assert.deepEqual([set?.method, set?.path({})], ['PUT', '/v1/domains/d/task-lists/a%2Fb/decider/limits']);
});

test('a run says which limit its turn or its activity waits behind', () => {
  const run = (more: Partial<Described>): Described =>
    ({
      status: 'open',
      taskList: 'PCI',
      turn: 'none',
      openActivities: [],
      openChildren: [],
      openTimers: [],
      awaiting: [],
      ...more,
    }) as unknown as Described;
  assert.equal(
    reasonOf(run({ turn: 'waiting', behind: [ofList] }), undefined, 0),
    'A turn waits behind: 20 of 20 running on PCI.',
  );
  const activity = { activityId: 'charge', taskList: 'PCI', behind: [{ ...ofList, limit: 'paused' }] };
  const openActivities = [activity, activity] as unknown as Described['openActivities'];
  assert.equal(reasonOf(run({ turn: 'waiting', openActivities }), undefined, 0), 'A turn waits for a decider of PCI.');
  assert.equal(
    reasonOf(run({ openActivities }), undefined, 0),
    'Activity charge waits behind: PCI is paused. 1 more waits behind limits.',
  );
});
