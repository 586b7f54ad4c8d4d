import assert from 'node:assert/strict';
import test from 'node:test';
import { linkOf, markdownOf, tokensOf } from '../src/markdown';
import { NoHistory, readHistory } from '../src/recorded';
import { pathOf, routeOf, type Route } from '../src/route';

test('an answer is a page where it says so, and not where it happens to be a text', () => {
  assert.equal(markdownOf({ markdown: '# A' }), '# A');
  for (const other of ['# A', { markdown: 7 }, null, undefined, [], { text: 'a' }])
    assert.equal(markdownOf(other), undefined);
});

test('links name signals, updates and queries, with their inputs', () => {
  assert.deepEqual(linkOf('signal:approve'), { to: 'signal', name: 'approve', input: '' });
  assert.deepEqual(linkOf('update:set limit?{"euros": 5}'), { to: 'update', name: 'set limit', input: '{"euros": 5}' });
  assert.deepEqual(linkOf('signal:a%3Fb?%7B%22a%22%3A%22%3F%22%7D'), { to: 'signal', name: 'a?b', input: '{"a":"?"}' });
  assert.deepEqual(linkOf('query:total?"100%"'), { to: 'query', name: 'total', input: '"100%"' });
  assert.deepEqual(linkOf('https://example.org/a'), { to: 'page', href: 'https://example.org/a' });
  assert.deepEqual(linkOf('/console/default/workflows'), { to: 'page', href: '/console/default/workflows' });
});

test('no link leads to a script, to the API or to nothing', () => {
  for (const href of [
    'javascript:alert(1)',
    'JavaScript:alert(1)',
    ' javascript:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    '//example.org',
    '/v1/domains',
    'signal:',
    'terminate:now',
    'relative',
    '',
  ])
    assert.equal(linkOf(href), undefined, href);
});

test('links come out of Markdown as they are meant', () => {
  const hrefs = (markdown: string): string[] => {
    const found: string[] = [];
    const walk = (tokens: readonly { type: string; href?: string; tokens?: never[] }[]): void => {
      for (const token of tokens) {
        if (token.type === 'link') found.push(token.href ?? '');
        walk(token.tokens ?? []);
      }
    };
    walk(tokensOf(markdown) as never[]);
    return found;
  };
  assert.deepEqual(hrefs('[Yes](signal:yes) [No](<signal:no?{"why": "too much"}>)'), [
    'signal:yes',
    'signal:no?{"why": "too much"}',
  ]);
});

const event = (id: number, type: string, more: object = {}): object => ({
  id,
  type,
  timestamp: '2026-11-22T10:00:00.000Z',
  ...more,
});
const EVENTS = [
  event(1, 'WorkflowStarted', {
    workflowId: 'a',
    runId: 'r',
    workflowType: 't',
    taskList: 'l',
    executionTimeout: 'P1D',
  }),
  event(2, 'DeciderScheduled', { taskList: 'l', attempt: 1 }),
  event(3, 'DeciderStarted', { scheduledEventId: 2 }),
];

test('a history is read in each of the forms that there are', () => {
  for (const text of [
    JSON.stringify(EVENTS),
    JSON.stringify({ events: EVENTS, lastEventId: 3, closed: false }),
    JSON.stringify([...EVENTS].reverse()),
    `${EVENTS.map((one) => JSON.stringify(one)).join('\n')}\n`,
    JSON.stringify(EVENTS[0]) + '\n',
  ]) {
    const row = readHistory(text);
    assert.equal(row.first, 1);
    assert.equal(row.at(1)?.type, 'WorkflowStarted');
  }
  assert.deepEqual([readHistory(JSON.stringify(EVENTS.slice(1))).first], [2], 'a part of one');
});

test('what is no history is refused with the reason', () => {
  const refusals: [string, RegExp][] = [
    ['', /no events/],
    ['<html>', /not JSON/],
    ['7', /no list of events/],
    ['{"events": 7}', /no list of events/],
    ['[]', /no events/],
    ['[7]', /Item 1 is not an event/],
    [JSON.stringify([EVENTS[0], { id: 2, type: 'Signal' }]), /Item 2 is not an event/],
    [JSON.stringify([EVENTS[0], EVENTS[2]]), /Event 3 does not follow/],
    [JSON.stringify([...EVENTS, event(4, 'ActivityScheduled', { activityId: 'x' })]), /do not have Baton’s format/],
  ];
  for (const [text, words] of refusals) assert.throws(() => readHistory(text), words, text);
  assert.throws(() => readHistory('x'), NoHistory);
});

test('every page is a URL, and the URL is the page', () => {
  const routes: Route[] = [
    { page: 'types', domain: 'domains', kind: 'activity' },
    { page: 'types', domain: 'recorded', kind: 'workflow' },
    { page: 'domains' },
    { page: 'runs', domain: 'domains' },
    { page: 'recorded', view: 'events' },
    { page: 'asked', domain: 'd', workflowId: 'a/b', runId: 'r', query: 'what is/it' },
    { page: 'run', domain: 'd', workflowId: 'a', runId: 'r', view: 'future' },
  ];
  for (const route of routes) assert.deepEqual(routeOf(pathOf(route)), route);
  assert.equal(routeOf('/console/d/workflows/a/r/query').page, 'unknown');
  assert.equal(routeOf('/console/d/types/other').page, 'unknown');
});
