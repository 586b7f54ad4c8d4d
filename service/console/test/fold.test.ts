import { test } from 'node:test';
import assert from 'node:assert/strict';
import { consequenceOf, deadlinesOf } from '../src/deadlines';
import { type Event, Row, causesOf, effectsIn, stateAsOf, turnsByEvent, turnsOf } from '../src/fold';
import { barsOf, barsOfAll, scaleOf } from '../src/bars';

const START = Date.parse('2026-11-23T06:00:00.000Z');

/** Creates a history from short lines: seconds, type, fields. Ids are consecutive. */
function history(...lines: [number, string, object?][]): Row {
  return new Row(
    lines.map(
      ([seconds, type, fields], index) =>
        ({
          id: index + 1,
          timestamp: new Date(START + seconds * 1000).toISOString(),
          type,
          ...fields,
        }) as unknown as Event,
    ),
  );
}

const ORDER = history(
  [
    0,
    'WorkflowStarted',
    {
      workflowId: 'w',
      runId: 'r',
      workflowType: 'order',
      taskList: 'orders',
      executionTimeout: 'PT1H',
      startToClose: 'PT30S',
    },
  ],
  [0, 'DeciderScheduled', { taskList: 'orders', startToClose: 'PT30S', attempt: 1 }],
  [2, 'DeciderStarted', { scheduledEventId: 2, identity: 'a' }],
  [3, 'DeciderCompleted', { scheduledEventId: 2, startedEventId: 3, context: { step: 1 }, awaiting: ['go'] }],
  [
    3,
    'ActivityScheduled',
    {
      activityId: 'charge',
      activityType: 'charge-card',
      taskList: 'pay',
      timeouts: { scheduleToStart: 'PT1M', startToClose: 'PT5S' },
      decisionEventId: 4,
    },
  ],
  [3, 'TimerScheduled', { timerId: 'due', after: 'PT10M', decisionEventId: 4 }],
  [4, 'ActivityStarted', { scheduledEventId: 5, identity: 'p' }],
  [6, 'ActivityFailed', { scheduledEventId: 5, startedEventId: 7, reason: 'declined' }],
  [6, 'DeciderScheduled', { taskList: 'orders', startToClose: 'PT30S', attempt: 1 }],
  [7, 'DeciderStarted', { scheduledEventId: 9 }],
  [7, 'Signal', { name: 'go' }],
  [8, 'DeciderFailed', { scheduledEventId: 9, startedEventId: 10, cause: 'Reported', reason: 'TypeError' }],
  [8, 'DeciderScheduled', { taskList: 'orders', startToClose: 'PT30S', attempt: 2 }],
  [9, 'DeciderStarted', { scheduledEventId: 13 }],
  [10, 'DeciderCompleted', { scheduledEventId: 13, startedEventId: 14, context: { step: 2 } }],
  [10, 'TimerCanceled', { timerId: 'due', scheduledEventId: 6, decisionEventId: 15 }],
  [10, 'WorkflowFailed', { reason: 'declined', decisionEventId: 15 }],
);

test('a turn has the news that it saw, and the decisions that it made', () => {
  const [first, second, third] = turnsOf(ORDER);
  assert.deepEqual(
    first?.news.map((event) => event.id),
    [1],
  );
  assert.deepEqual(
    first?.decisions.map((event) => event.id),
    [5, 6],
  );
  assert.equal(first?.waitedMs, 2000);
  assert.equal(first?.tookMs, 1000);
  assert.deepEqual(
    second?.news.map((event) => event.id),
    [7, 8],
  );
  assert.equal(second?.outcome, 'failed');
  assert.deepEqual(
    third?.decisions.map((event) => event.id),
    [16, 17],
  );
});

test('what a lost turn saw is news to the next one again, with what came meanwhile', () => {
  assert.deepEqual(
    turnsOf(ORDER)[2]?.news.map((event) => event.id),
    [7, 8, 11],
  );
});

test('what comes while a turn is being decided is news to the next one', () => {
  const row = history(
    [0, 'WorkflowStarted'],
    [0, 'DeciderScheduled', { startToClose: 'PT30S', attempt: 1 }],
    [1, 'DeciderStarted', { scheduledEventId: 2 }],
    [2, 'Signal', { name: 'go' }],
    [3, 'DeciderCompleted', { scheduledEventId: 2, startedEventId: 3 }],
    [3, 'DeciderScheduled', { startToClose: 'PT30S', attempt: 1 }],
    [4, 'DeciderStarted', { scheduledEventId: 6 }],
  );
  assert.deepEqual(
    turnsOf(row)[1]?.news.map((event) => event.id),
    [4],
  );
  assert.deepEqual(causesOf(row.at(6) as Event, row), [4]);
});

test('a turn that waits shows what it will see, and one that a close overtook says so', () => {
  const waiting = turnsOf(new Row(ORDER.events.slice(0, 9)));
  assert.equal(waiting[1]?.outcome, 'waiting');
  assert.deepEqual(
    waiting[1]?.news.map((event) => event.id),
    [7, 8],
  );
  const overtaken = history(
    [0, 'WorkflowStarted'],
    [0, 'DeciderScheduled', { startToClose: 'PT1S' }],
    [1, 'WorkflowTerminated'],
  );
  assert.equal(turnsOf(overtaken)[0]?.outcome, 'overtaken');
});

test('a history without its oldest events still has its turns', () => {
  const turns = turnsOf(new Row(ORDER.events.slice(7)));
  assert.equal(turns.length, 2);
  assert.deepEqual(
    turns[1]?.news.map((event) => event.id),
    [8, 11],
  );
});

test('each event names what caused it, and what it caused', () => {
  const event = (id: number): Event => ORDER.at(id) as Event;
  assert.deepEqual(causesOf(event(8), ORDER), [7, 5]);
  assert.deepEqual(causesOf(event(9), ORDER), [8]);
  assert.deepEqual(causesOf(event(13), ORDER), [12]);
  const effects = effectsIn(ORDER);
  assert.deepEqual(effects.get(5), [7, 8]);
  assert.deepEqual(effects.get(4), [5, 6]);
  assert.deepEqual(effects.get(1), [2]);
});

test('an event belongs to the turn that made it, or else to the first that saw it', () => {
  const turns = turnsByEvent(turnsOf(ORDER));
  assert.equal(turns.get(5)?.number, 1);
  assert.equal(turns.get(8)?.number, 2);
  assert.equal(turns.get(11)?.number, 3);
  assert.equal(turns.get(14)?.number, 3);
});

test('the state as of an event is that of the events up to it', () => {
  const early = stateAsOf(ORDER, 7);
  assert.deepEqual([...early.activities.keys()], [5]);
  assert.deepEqual([...early.timers.keys()], [6]);
  assert.deepEqual(early.context, { step: 1 });
  assert.deepEqual(early.awaiting, ['go']);
  assert.equal(early.turn, 'none');
  assert.equal(stateAsOf(ORDER, 10).turn, 'running');
  assert.equal(stateAsOf(ORDER, 12).failingTurns, 1);
  const late = stateAsOf(ORDER, 17);
  assert.equal(late.activities.size + late.timers.size, 0);
  assert.equal(late.closed?.id, 17);
});

test('deadlines come in the order of time, and none are left when it is closed', () => {
  const deadlines = deadlinesOf(stateAsOf(ORDER, 7));
  assert.deepEqual(
    deadlines.map(({ kind, at }) => [kind, (at - START) / 1000]),
    [
      ['activity-start-to-close', 9],
      ['timer', 603],
      ['execution', 3600],
    ],
  );
  assert.deepEqual(deadlinesOf(stateAsOf(ORDER, 17)), []);
});

test('clocks that stood still have timers come later', () => {
  const row = history(
    [0, 'WorkflowStarted', { executionTimeout: 'PT1H' }],
    [0, 'TimerScheduled', { timerId: 't', after: 'PT1M', decisionEventId: 9 }],
    [10, 'WorkflowPaused', { stopClocks: true }],
    [40, 'WorkflowResumed'],
  );
  assert.deepEqual(deadlinesOf(stateAsOf(row, 3)), []);
  assert.deepEqual(
    deadlinesOf(stateAsOf(row, 4)).map(({ at }) => (at - START) / 1000),
    [90, 3630],
  );
});

test('each deadline that the service names has words', () => {
  for (const kind of [
    'timer',
    'execution',
    'run',
    'turn-start-to-close',
    'turn-schedule-to-start',
    'activity-schedule-to-start',
    'activity-start-to-close',
    'activity-schedule-to-close',
    'activity-heartbeat',
    'activity-retry',
    'first-turn',
    'turn-retry',
    'effects',
  ]) {
    assert.notEqual(consequenceOf({ kind }).then, '', kind);
  }
});

test('an activity has a bar with its waiting and its running, and one that is open ends dashed at its deadline', () => {
  const charge = barsOfAll(ORDER, START).find((bar) => bar.label === 'charge');
  assert.deepEqual(
    charge?.parts.map(({ kind, from, to }) => [kind, (from - START) / 1000, (to - START) / 1000]),
    [
      ['waiting', 3, 4],
      ['running', 4, 6],
    ],
  );
  assert.equal(charge?.outcome, 'bad');
  const open = barsOf(ORDER, stateAsOf(ORDER, 7), START + 5000).find((bar) => bar.label === 'due');
  assert.equal(open?.parts.at(-1)?.kind, 'pending');
  assert.equal(open?.parts.at(-1)?.to, START + 603_000);
});

test('signals of one name share a row, and each leads to its own event', () => {
  const row = history(
    [0, 'WorkflowStarted'],
    [1, 'Signal', { name: 'paid' }],
    [2, 'Signal', { name: 'other' }],
    [3, 'Signal', { name: 'paid' }],
  );
  const bars = barsOfAll(row, START);
  assert.deepEqual(
    bars.map((bar) => [bar.label, bar.parts.map((part) => part.eventId)]),
    [
      ['paid', [2, 4]],
      ['other', [3]],
    ],
  );
});

test('idle time is folded, and no two instants change places', () => {
  const instants = [0, 1000, 2000, 3000, 86_400_000, 86_401_000, 86_402_000];
  const { place, folds } = scaleOf(instants, true);
  assert.equal(folds.length, 1);
  assert.ok(place(3000) > 0.4 && place(86_400_000) < 0.7, 'what happens has most of the room');
  const places = instants.map(place);
  assert.deepEqual(
    places,
    [...places].sort((a, b) => a - b),
  );
  assert.equal(places[0], 0);
  assert.equal(places.at(-1), 1);
  assert.equal(scaleOf(instants, false).folds.length, 0);
});
