import assert from 'node:assert/strict';
import test from 'node:test';
import { bodyOf, initialOf } from '../src/fields';
import { rawMembers } from '../src/raw';
import { anotherId, anotherLike, startAction } from '../src/starts';

test('members of JSON are given byte for byte', () => {
  const json = '{ "a" : [1, {"b":"}\\"]"}] ,"c\\"d":12345678901234567890,"e":{"2":1.0,"1":0}, "f":null}';
  assert.deepEqual(
    [...rawMembers(json)],
    [
      ['a', '[1, {"b":"}\\"]"}]'],
      ['c"d', '12345678901234567890'],
      ['e', '{"2":1.0,"1":0}'],
      ['f', 'null'],
    ],
  );
  assert.deepEqual([...rawMembers('[ "x,]" ,[], -1e3]').values()], ['"x,]"', '[]', '-1e3']);
  assert.equal(rawMembers('{}').size, 0);
  assert.equal(rawMembers(' [ ]').size, 0);
});

const ANSWER = `{"events":[{"id":1,"timestamp":"2026-11-22T10:00:00.000Z","type":"WorkflowStarted","workflowType":"order",
  "taskList":"orders","input":{"n": 1.0, "big": 12345678901234567890},"executionTimeout":"P30D","deciderStartToClose":"PT30S",
  "tags":["a b","c"],"retention":"P7D","activityTimeouts":{"startToClose":"PT5M"},"identity":"cron",
  "retry":{"initialInterval":"PT1S","backoffCoefficient":2,"maximumAttempts":3}}],"runId":"r","lastEventId":9,"closed":true}`;

test('another one is started as the first was, its input byte for byte, with an id of its own', () => {
  const { fields, path } = anotherLike('d', 'order-7', ANSWER);
  const body = bodyOf(fields, initialOf(fields));
  assert.equal(path({}), '/v1/domains/d/workflows');
  assert.ok(body.includes('"input":{"n": 1.0, "big": 12345678901234567890}'), body);
  const { input: _, ...rest } = JSON.parse(body);
  assert.deepEqual(rest, {
    workflowId: 'order-7-again',
    workflowType: 'order',
    taskList: 'orders',
    tags: ['a b', 'c'],
    executionTimeout: 'P30D',
    deciderStartToClose: 'PT30S',
    retention: 'P7D',
    activityTimeouts: { startToClose: 'PT5M' },
    retry: { initialInterval: 'PT1S', backoffCoefficient: 2, maximumAttempts: 3 },
  });
});

test('a plain start says nothing but what was typed', () => {
  const { fields } = startAction('d', {});
  const values = { ...initialOf(fields), workflowId: 'a', workflowType: 't', tags: ' x \n\n y' };
  assert.equal(bodyOf(fields, values), '{"workflowId":"a","workflowType":"t","tags":["x","y"]}');
});

test('ids of further ones count', () => {
  assert.equal(anotherId('order-1003'), 'order-1003-again');
  assert.equal(anotherId('order-1003-again'), 'order-1003-again-2');
  assert.equal(anotherId('order-1003-again-9'), 'order-1003-again-10');
});
