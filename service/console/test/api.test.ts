import assert from 'node:assert/strict';
import test from 'node:test';
import { Problem, aheadBy, letIn, request, stream, turnedAway } from '../src/api';

const at = Date.parse('2026-11-25T12:00:00Z');

test('a clock is off by what no time that an answer takes can explain', () => {
  assert.equal(aheadBy(at - 900, at, at + 10), 0, 'the header has whole seconds');
  assert.equal(aheadBy(at, at, at + 30_000), 0, 'the answer was long under way, or long in being looked at');
  assert.equal(aheadBy(at + 30_000, at, at + 30_000), 0, 'it was long in being made');
  assert.equal(aheadBy(at + 3_600_000, at, at + 100), 3_599_900);
  assert.equal(aheadBy(at - 3_600_000, at, at + 100), -3_600_000);
  assert.equal(aheadBy(at + 5000, at, at), 0);
  assert.equal(aheadBy(at + 5001, at, at), 5001);
});

/**
 * Simulates a service that returns these responses in order. Each function is called when its response is requested.
 */
function answering(...answers: (() => Response)[]): string[] {
  const asked: string[] = [];
  globalThis.fetch = (path) => {
    asked.push(String(path));
    return new Promise((done) => setTimeout(() => done((answers.shift() ?? (() => new Response('')))())));
  };
  return asked;
}
const refused = (): Response => new Response('{"code": "unauthorized", "detail": "no"}', { status: 401 });

test('who is turned away is asked to sign in', async () => {
  answering(refused);
  await assert.rejects(request('/v1/domains'), Problem);
  assert.equal(turnedAway.value?.code, 'unauthorized');
});

test('what was asked before somebody signed in, and is refused after, is asked again by them', async () => {
  const asked = answering(
    () => {
      letIn();
      return refused();
    },
    () => new Response('{"domains": []}'),
  );
  assert.equal((await request('/v1/domains')).status, 200);
  assert.deepEqual(asked, ['/v1/domains', '/v1/domains']);
  assert.equal(turnedAway.value, undefined, 'nobody is asked for a secret once more');
});

test('a stream without anything to come is told from one that has ended', async () => {
  const read: string[] = [];
  const take = (data: string): void => void read.push(data);
  answering(
    () => new Response('id: 1\nevent: Signal\ndata: {}\n\n'),
    () => new Response(null, { status: 204 }),
  );
  const { signal } = new AbortController();
  await stream('/v1/domains/default/workflows/w/history', take, signal);
  await assert.rejects(
    stream('/v1/domains/default/workflows/w/history?after=1', take, signal),
    (error) => error instanceof Problem && error.status === 204,
  );
  assert.deepEqual(read, ['{}']);
});
