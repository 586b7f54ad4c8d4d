import { test } from 'node:test';
import assert from 'node:assert/strict';
import { type Described, closeReason, readMetrics, reasonOf, standingOf, subjectOf, visible } from '../src/words';
import type { Event } from '../src/fold';

const NOW = Date.parse('2026-11-23T06:10:00.000Z');
const described = (more: object): Described =>
  ({
    status: 'open',
    startedAt: '2026-11-23T06:00:00.000Z',
    taskList: 'orders',
    awaiting: [],
    openActivities: [],
    openChildren: [],
    openTimers: [],
    deadlines: [],
    turn: 'none',
    tags: [],
    blocked: false,
    stuck: false,
    retrying: false,
    ...more,
  }) as unknown as Described;
const reason = (more: object, last?: object): string =>
  reasonOf(described(more), last as Event | undefined, NOW).replaceAll('\u00a0', ' ');

test('a run that waits for a list that nobody polls says which one', () => {
  assert.match(
    reason({ turn: 'waiting', noPollers: [{ taskList: 'orders', decider: true, since: '2026-11-23T06:05:00.000Z' }] }),
    /^Waiting in a task list without pollers: orders \(deciders, for 5\sm\)/,
  );
});

test('closed runs say their reason and the first line of their details', () => {
  const [status, closedAt] = ['failed', '2026-11-23T06:05:00.000Z'];
  const told = (type: string, event: object, more: object): string =>
    reason({ status, closedAt, ...more }, { type, ...event });
  const both = { reason: 'declined', detailsLine: 'card 7\u001b' };
  assert.equal(
    told('WorkflowFailed', { reason: 'declined' }, both),
    'Failed by its decider after 5 m: declined: card 7␛.',
  );
  assert.equal(told('WorkflowFailed', { reason: 'declined' }, {}), 'Failed by its decider after 5 m: declined.');
  assert.equal(told('WorkflowTerminated', {}, { reason: 'reset' }), 'Terminated after 5 m: reset.');
  assert.equal(told('WorkflowTerminated', { reason: 'old' }, both), 'Terminated after 5 m: old: card 7␛.');
  assert.equal(told('WorkflowCanceled', {}, { detailsLine: 'undone' }), 'Canceled by its decider after 5 m: undone.');
  assert.equal(told('Marker', {}, both), 'Closed after 5 m: declined: card 7␛.');
  assert.equal(closeReason({}), '');
});

test('each way in which a run stands has its reason in words', () => {
  assert.match(reason({ stuck: true }), /^Stuck: /);
  assert.match(
    reason({
      paused: { at: '2026-11-23T06:09:00.000Z', eventId: 7, identity: 'kim', reason: 'audit', stopClocks: true },
    }),
    /^Paused 1 m ago by kim: audit\. Its timers and timeouts are stopped/,
  );
  assert.match(
    reason({
      blocked: true,
      openActivities: [
        {
          activityId: 'copy',
          attempt: 3,
          maximumAttempts: 2,
          paused: { cause: 'AttemptsExhausted' },
          lastFailure: { reason: 'disk-full' },
        },
      ],
    }),
    /^Blocked: activity copy has exhausted its 2 attempts; last failure: disk-full/,
  );
  const again = { activityId: 'copy', taskList: 'imports', attempt: 3, lastFailure: { reason: 'disk-full' } };
  assert.equal(
    reason({ retrying: true, openActivities: [again] }),
    'Attempt 3 of activity copy waits for a runner of imports; last failure: disk-full.',
  );
  assert.match(
    reason({
      failing: {
        turns: 4,
        since: '2026-11-23T06:00:00.000Z',
        reason: 'TypeError',
        details: { message: 'no lines\nat a' },
      },
    }),
    /^Failing: TypeError: no lines\. 4 turns in a row have failed, for 10\sm; the turn is retried until one is completed\.$/,
  );
  assert.match(
    reason({ repeating: { times: 1, eventId: 17, activityId: 'charge' } }),
    /^Event 17 schedules activity charge again, with the same type and input, although it had succeeded\./,
  );
  assert.match(
    reason({
      retrying: true,
      openActivities: [
        {
          activityId: 'pull',
          attempt: 2,
          nextAttemptAt: '2026-11-23T06:11:00.000Z',
          lastFailure: { reason: 'http-503' },
        },
      ],
    }),
    /attempt 2 of activity pull, in 1 m: http-503/,
  );
  assert.match(reason({ awaiting: ['approve', 'baton.cancel'] }), /^Waiting for signal approve, a cancel request\.$/);
  assert.match(
    reason(
      { status: 'failed', closedAt: '2026-11-23T06:01:00.000Z' },
      { type: 'WorkflowFailed', reason: 'card-declined' },
    ),
    /^Failed by its decider after 1 m: card-declined\.$/,
  );
  assert.match(
    reason({ status: 'terminated' }, { type: 'WorkflowTerminated', identity: 'kim', reason: 'not needed' }),
    /^Terminated by kim: not needed/,
  );
});

test('the first flag that applies is how an open run stands, as in lists', () => {
  assert.equal(standingOf({ status: 'open', blocked: true, retrying: true }), 'blocked');
  assert.equal(standingOf({ status: 'success', stuck: true }), 'success');
});

test('an event names its subject, also where an earlier event knows it', () => {
  const scheduled = { id: 5, type: 'ActivityScheduled', activityId: 'charge' } as unknown as Event;
  const event = { id: 8, type: 'ActivityFailed', scheduledEventId: 5, reason: 'declined' } as unknown as Event;
  assert.equal(
    subjectOf(event, (id) => (id === 5 ? scheduled : undefined)),
    'charge: declined',
  );
  assert.equal(
    subjectOf(event, () => undefined),
    'of 5: declined',
  );
});

test('escapes of terminals and marks that turn text around are seen, and do nothing', () => {
  assert.equal(visible('a\u001b[31mb'), 'a␛[31mb');
  assert.equal(visible('user\u202egnp.exe'), 'user⟨U+202E⟩gnp.exe');
  assert.equal(visible('a\tb\nc é 漢'), 'a\tb\nc é 漢');
});

test('counts are read from the metrics, with names that are quoted', () => {
  const { domains, values } = readMetrics(
    [
      '# HELP baton_commits_total Commits',
      'baton_commits_total 12',
      'baton_runs_open{domain="say \\"hi\\", b"} 3',
      'baton_tasks_waiting{domain="a",side="decider",list="l"} 2',
      'nonsense',
    ].join('\n'),
  );
  assert.deepEqual([...domains], [['say "hi", b', new Map([['open', 3]])]]);
  assert.equal(values.get('commits_total'), 12);
});
