import assert from 'node:assert/strict';
import test from 'node:test';
import { type SampleTask, decide } from '../src/sample';

const task = (more: Partial<SampleTask> & { events?: unknown[] }): SampleTask =>
  ({ token: 't', workflowId: 'sample-1', runId: 'r', previousStartedEventId: 0, ...more }) as SampleTask;
const kinds = (answer: Record<string, unknown>): string[] =>
  ((answer['decisions'] ?? []) as { type: string }[]).map(({ type }) => type);

test('the sample waits for a signal or a minute, and then ends', () => {
  const started = { id: 1, type: 'WorkflowStarted' };
  assert.deepEqual(kinds(decide(task({ events: [started] }))), ['RecordMarker', 'StartTimer']);
  const signal = { id: 7, type: 'Signal', name: 'hello', input: { by: 'ann' } };
  const said = decide(task({ previousStartedEventId: 3, events: [started, signal] }));
  assert.deepEqual(said['decisions'], [{ type: 'SucceedWorkflow', result: { hello: { by: 'ann' } } }]);
  const expired = { id: 7, type: 'TimerExpired' };
  assert.deepEqual(kinds(decide(task({ previousStartedEventId: 3, events: [started, expired] }))), ['SucceedWorkflow']);
  const canceled = { id: 7, type: 'WorkflowCancelRequested' };
  assert.deepEqual(kinds(decide(task({ previousStartedEventId: 3, events: [started, canceled] }))), ['CancelWorkflow']);
  assert.deepEqual(kinds(decide(task({ previousStartedEventId: 7, events: [started, signal] }))), [], 'seen already');
});

test('the sample answers its one query with a page, and only that where nothing else is asked', () => {
  const queries = [
    { id: 'a', name: 'page' },
    { id: 'b', name: 'other' },
  ];
  const answer = decide(task({ queryOnly: true, queries }));
  assert.deepEqual(Object.keys(answer), ['queryResults']);
  const [page, other] = answer['queryResults'] as { result?: { markdown: string }; error?: { known: string[] } }[];
  assert.match(page?.result?.markdown ?? '', /\[Say hello\]\(<signal:hello/);
  assert.deepEqual(other?.error?.known, ['page']);
});
