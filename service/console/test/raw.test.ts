import { test } from 'node:test';
import assert from 'node:assert/strict';
import { parse, pretty, rawList, rawOf, textOf } from '../src/raw';
import { readHistory } from '../src/recorded';
import { payloadsOf, triesOf } from '../src/words';

/** Numbers that JSON.parse would change. */
const NUMBERS = ['18446744073709551617', '9007199254740993', '-0', '1.0', '0.1000', '1e400', '-1E-400', '1e2', '0.1'];
const TEXTS = ['"\\u2028"', '"\\ud800"', '"\\u0041"', '"a\\/b"', '"\\"{[,:"', '"\\\\"', '"漢"'];

test('a payload is shown as it was recorded', () => {
  for (const json of [
    ...NUMBERS,
    ...TEXTS,
    'null',
    'true',
    '[]',
    '{}',
    '{"a":1.0,"a":2}',
    '{"b":1,"a":{"__proto__":-0}}',
  ]) {
    const event = parse<object>(`{ "id": 1, "input" : ${json} , "x": [1, {}] }`);
    assert.equal(rawOf(event, 'input'), json);
    const page = parse<{ events: object[] }>(`{"events":[{"input":${json}}], "next": 7}`);
    assert.equal(rawOf(page.events[0] ?? {}, 'input'), json);
    assert.equal(textOf(page.events[0]), `{"input":${json}}`);
  }
});

test('the failure of an open activity keeps its text, too', () => {
  const run = parse<{ openActivities: { lastFailure: object }[] }>(
    '{"openActivities":[{"lastFailure":{"details":{"cents":18446744073709551617}}}]}',
  );
  assert.equal(rawOf(run.openActivities[0]?.lastFailure ?? {}, 'details'), '{"cents":18446744073709551617}');
});

test('what no answer has brought is written by the browser', () => {
  assert.equal(rawOf({ input: [1] }, 'input'), '[1]');
  assert.equal(textOf(undefined), 'null');
});

test('a copy differs from what was recorded by white space alone', () => {
  const json = `{"n":[${NUMBERS.join(',')}],"t" : [ ${TEXTS.join(' , ')} ],"twice":1,"twice":1.0,"e":[ ],"o":{ }}`;
  const shown = pretty(json);
  assert.equal(shown.split('\n').length, NUMBERS.length + TEXTS.length + 10);
  for (const one of [...NUMBERS, ...TEXTS]) assert.ok(shown.includes(`\n    ${one}`), one);
  assert.ok(shown.includes('  "twice": 1,\n  "twice": 1.0,\n  "e": [],\n  "o": {}\n}'), shown);
  for (const one of [...NUMBERS, ...TEXTS]) assert.equal(pretty(` ${one} `), one);
  const plain = { a: [1, 'two: {x}, [y]', { b: null, c: [], d: {} }], e: 'x' };
  assert.equal(pretty(JSON.stringify(plain)), JSON.stringify(plain, null, 2));
  assert.equal(pretty(JSON.stringify(plain, null, 7)), JSON.stringify(plain, null, 2));
});

test('every member is there, also one that stands twice', () => {
  assert.deepEqual(rawList('{"a":1.0,"a":2,"b":-0}'), [
    ['a', '1.0'],
    ['a', '2'],
    ['b', '-0'],
  ]);
  assert.deepEqual(rawList('[1e400]'), [['0', '1e400']]);
});

test('deep and large documents are read and indented', () => {
  const deep = `${'['.repeat(10_000)}1.0${']'.repeat(10_000)}`;
  assert.equal(pretty(deep).replace(/\s/g, ''), deep);
  assert.ok(pretty(deep).length < 10_000_000);
  const large = `[${Array.from({ length: 200_000 }, () => '1.0').join(',')}]`;
  assert.equal(rawList(large).length, 200_000);
  assert.equal(pretty(large).split('\n').length, 200_002);
});

test('a history out of a file keeps its numbers', () => {
  const at = '2026-11-23T06:00:00.000Z';
  const started = `{"id":1,"type":"WorkflowStarted","timestamp":"${at}","workflowId":"w","workflowType":"t","taskList":"l","input":{"n":1.0,"n":18446744073709551617}}`;
  const row = readHistory(`{"events":[${started}]}`);
  const [first] = row.events;
  assert.ok(first);
  assert.deepEqual(payloadsOf(first), [['input', '{"n":1.0,"n":18446744073709551617}']]);
});

test('a try is never one of fewer', () => {
  const paused = { cause: 'AttemptsExhausted' };
  const byHand = { cause: 'OperatorInitiated' };
  for (const [activity, said] of [
    [{ attempt: 1 }, 'attempt 1'],
    [{ attempt: 7, maximumAttempts: null }, 'attempt 7'],
    [{ attempt: 1, maximumAttempts: 2 }, 'attempt 1 of 2'],
    [{ attempt: 2, maximumAttempts: 2 }, 'attempt 2 of 2'],
    [{ attempt: 2, maximumAttempts: 2, paused: byHand }, 'attempt 2 of 2'],
    [{ attempt: 3, maximumAttempts: 2, paused }, 'attempts exhausted after 2'],
    [{ attempt: 3, maximumAttempts: 2, paused: byHand }, 'attempts exhausted after 2'],
    [{ attempt: 2, maximumAttempts: 5, paused }, 'attempts exhausted after 1'],
    [{ attempt: 3, maximumAttempts: 2 }, 'attempt 3, by an operator; its policy allows 2'],
  ] as const)
    assert.equal(triesOf(activity), said);
});

test('a history whose names are no text is refused in words', () => {
  const started = {
    id: 1,
    type: 'WorkflowStarted',
    timestamp: '2026-01-01T00:00:00Z',
    workflowId: 'w',
    runId: 'r',
    workflowType: 't',
    taskList: 'l',
  };
  assert.equal(readHistory(JSON.stringify([started])).last, 1);
  for (const name of ['workflowId', 'runId', 'workflowType', 'taskList', 'identity', 'reason'])
    for (const value of [{}, [], 7, true, { constructor: null }])
      assert.throws(() => readHistory(JSON.stringify([{ ...started, [name]: value }])), {
        message: `Its events do not have Baton’s format: \`${name}\` of event 1 is not text.`,
      });
});
