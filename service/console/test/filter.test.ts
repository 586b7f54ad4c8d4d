import { test } from 'node:test';
import assert from 'node:assert/strict';
import { filterOfQuery, parseFilter, queryOfFilter, textOfFilter } from '../src/filter';
import { pathOf, routeOf, type Route } from '../src/route';
import { duration, millisecondsOf, relative } from '../src/time';

test('a filter is the same as text, as a query and as fields', () => {
  const filter = {
    status: 'open',
    type: 'order',
    tag: 'customer: "ann" \\ b',
    workflowId: '<img src=x> & co',
    reason: 'card "7" declined',
  };
  assert.deepEqual(parseFilter(textOfFilter(filter)), { filter, problems: [] });
  assert.deepEqual(filterOfQuery(queryOfFilter(filter)), filter);
});

test('a word without a field is the beginning of a workflow id', () => {
  assert.deepEqual(parseFilter('order-10').filter, { workflowIdPrefix: 'order-10' });
  assert.deepEqual(parseFilter('id-prefix:order-10').filter, { workflowIdPrefix: 'order-10' });
  assert.deepEqual(parseFilter('id:a:b').filter, { workflowId: 'a:b' });
});

test('what is not understood is said, and the rest is used', () => {
  const { filter, problems } = parseFilter('status:opne color:red type:order from:yesterday');
  assert.deepEqual(filter, { type: 'order' });
  assert.equal(problems.length, 3);
  assert.match(problems[0] ?? '', /^Unknown status `opne`/);
  assert.match(parseFilter('tag:"a b').problems[0] ?? '', /closing quote/);
  assert.match(parseFilter('type:a type:b').problems[0] ?? '', /twice/);
});

test('every view has a path that leads to it', () => {
  const routes: Route[] = [
    { page: 'start' },
    { page: 'runs', domain: 'default' },
    { page: 'lists', domain: 'a b' },
    { page: 'list', domain: 'd', list: 'a/b' },
    { page: 'batches', domain: 'd' },
    { page: 'batches', domain: 'd', batchId: '01a2' },
    { page: 'schedules', domain: 'd' },
    { page: 'schedules', domain: 'd', scheduleId: 'nightly/1' },
    { page: 'run', domain: 'd', workflowId: 'a/b?c#d%', view: 'turns' },
    { page: 'run', domain: 'd', workflowId: '<b>', runId: 'r', view: 'future' },
  ];
  for (const route of routes) assert.deepEqual(routeOf(pathOf(route)), route);
  assert.equal(pathOf(routeOf('/console/d/lists')), '/console/d/task-lists');
  assert.equal(pathOf({ page: 'list', domain: 'd', list: 'l' }), '/console/d/task-lists/l');
  for (const path of ['/console/d/nothing', '/console/d/task-lists/l/m', '/console/d/batches/b/c'])
    assert.equal(routeOf(path).page, 'unknown');
  assert.equal(routeOf('/console/%E0%A4%A').page, 'unknown');
});

const plain = (text: string): string => text.replaceAll('\u00a0', ' ');

test('durations are read as the service writes them, and written as people read them', () => {
  assert.equal(millisecondsOf('P1DT2H'), 93_600_000);
  assert.equal(millisecondsOf('PT0.4S'), 400);
  assert.equal(millisecondsOf('soon'), undefined);
  assert.deepEqual(
    [0, 340, 4230, 61_000, 3_600_000, 90_000_000].map((ms) => plain(duration(ms))),
    ['0 ms', '340 ms', '4.2 s', '1 m 1 s', '1 h', '1 d 1 h'],
  );
  assert.equal(plain(relative(0, 65_400)), '1 m 5 s ago');
  assert.equal(plain(relative(65_400, 0)), 'in 1 m 5 s');
});
