import assert from 'node:assert/strict';
import test from 'node:test';
import { Problem } from '../src/api';
import { BULK_ACTIONS, type Target, Work, pathOfBulk } from '../src/bulk';
import { dropView, keepView, readViews } from '../src/kept';
import { NOTHING, has, isEmpty, toggle } from '../src/selection';

const targets = (count: number): Target[] =>
  Array.from({ length: count }, (_, n) => ({ workflowId: `w${n}`, runId: `r${n}` }));
/** Returns a function that returns these pages in order, then empty ones. */
const pages = (...all: Target[][]) => {
  const rest = [...all];
  return () => Promise.resolve(rest.shift() ?? []);
};
const refused = (status: number, code: string): Problem => new Problem(status, code, `it is ${code}`, '');

test('every run of every page is come to once, each with a key of its own', async () => {
  const sent: string[] = [];
  const work = new Work(
    pages(targets(3), targets(9).slice(3)),
    (target, key) => Promise.resolve(sent.push(`${target.runId} ${key}`)),
    'k',
  );
  await work.go();
  assert.equal(work.stage.value, 'done');
  assert.equal(work.done.value, 9);
  assert.deepEqual(
    sent.sort(),
    targets(9).map(({ runId }) => `${runId} k-${runId}`),
  );
});

test('a run that has closed meanwhile is told apart from one that failed, which can be done again with the same key', async () => {
  const keys: string[] = [];
  let isMended = false;
  const work = new Work(
    pages(targets(4)),
    ({ runId }, key) => {
      keys.push(key);
      if (runId === 'r1') return Promise.reject(refused(409, 'run-closed'));
      if (runId === 'r2' && !isMended) return Promise.reject(refused(409, 'limit-exceeded'));
      return Promise.resolve();
    },
    'k',
  );
  await work.go();
  assert.deepEqual([work.stage.value, work.done.value], ['done', 2]);
  assert.deepEqual(
    work.changed.value.map(({ target }) => target.runId),
    ['r1'],
  );
  assert.deepEqual(
    work.failed.value.map(({ problem }) => problem.detail),
    ['it is limit-exceeded'],
  );
  isMended = true;
  await work.again();
  assert.deepEqual([work.done.value, work.failed.value.length, work.changed.value.length], [3, 0, 1]);
  assert.equal(keys.filter((key) => key === 'k-r2').length, 2);
});

test('it can be stopped, and goes on where it was', async () => {
  const sent: string[] = [];
  const work: Work = new Work(
    pages(targets(50)),
    ({ runId }) => {
      if (sent.push(runId) === 10) work.stop();
      return Promise.resolve();
    },
    'k',
  );
  await work.go();
  assert.equal(work.stage.value, 'stopped');
  assert.ok(sent.length >= 10 && sent.length < 20, `${sent.length} were under way`);
  await work.go();
  assert.deepEqual([work.stage.value, work.done.value, new Set(sent).size], ['done', 50, 50]);
});

test('what would be refused for every run stops the work, and no run is lost', async () => {
  let isAway = false;
  let tries = 0;
  const work = new Work(
    pages(targets(6)),
    ({ runId }) => {
      tries++;
      if (runId === 'r2') isAway = tries < 6;
      return isAway ? Promise.reject(refused(0, 'unreachable')) : Promise.resolve();
    },
    'k',
  );
  await work.go();
  assert.equal(work.stage.value, 'stopped');
  assert.equal(work.problem.value?.code, 'unreachable');
  assert.equal(work.failed.value.length, 0);
  isAway = false;
  tries = 9;
  await work.go();
  assert.deepEqual([work.stage.value, work.done.value, work.problem.value], ['done', 6, undefined]);
});

test('a request names the run, so that another of the same id is not meant', () => {
  const [signal, cancel] = BULK_ACTIONS;
  assert.ok(signal && cancel);
  const target = { workflowId: 'a/b', runId: 'r' };
  assert.equal(
    pathOfBulk(signal, 'd', target, { '/name': ' x y ' }),
    '/v1/domains/d/workflows/a%2Fb/signals/x%20y?runId=r',
  );
  assert.equal(pathOfBulk(cancel, 'd', target, {}), '/v1/domains/d/workflows/a%2Fb/cancel?runId=r');
});

test('runs are selected one by one, and left out of all', () => {
  const shown = targets(3);
  const one = toggle(NOTHING, 'r1', shown);
  assert.ok(has(one, 'r1') && !has(one, 'r0') && isEmpty(NOTHING) && !isEmpty(one));
  assert.ok(isEmpty(toggle(one, 'r1', shown)));
  assert.ok(has('all', 'r9'));
  const rest = toggle('all', 'r1', shown);
  assert.ok(has(rest, 'r0') && has(rest, 'r2') && !has(rest, 'r1'));
});

test('saved views are read with care, one of each name', () => {
  assert.deepEqual(readViews('{'), []);
  assert.deepEqual(readViews('{"a":1}'), []);
  const stuck = { name: 'stuck', domain: 'd', query: 'status=stuck' };
  assert.deepEqual(readViews(JSON.stringify([null, 7, { name: 'a' }, stuck])), [stuck]);
  const views = keepView(keepView([stuck], { name: 'all', domain: 'd', query: '' }), {
    ...stuck,
    query: 'status=failing',
  });
  assert.deepEqual(
    views.map(({ name, query }) => [name, query]),
    [
      ['all', ''],
      ['stuck', 'status=failing'],
    ],
  );
  assert.deepEqual(dropView(views, { name: 'stuck', domain: 'other', query: '' }).length, 2);
  assert.deepEqual(dropView(views, stuck).length, 1);
});
