import assert from 'node:assert/strict';
import test from 'node:test';
import { type Levels, allows } from '../src/session';

const levels = (more: Partial<Levels>): Levels => ({ name: 'n', operator: false, metrics: false, ...more });

test('what a level may not do is not offered, and everything is before it is known', () => {
  const application = levels({ applications: ['a'] });
  const operator = levels({ operators: ['*'] });
  assert.deepEqual(
    ['signal', 'start', 'terminate', 'pause', 'register', 'retry'].map((name) => allows(application, name, 'a')),
    [true, true, true, false, false, false],
  );
  assert.equal(allows(application, 'signal', 'b'), false);
  assert.equal(allows(operator, 'retry', 'b'), true);
  assert.equal(allows(operator, 'signal', 'b'), false, 'as the service has it: a level of its own');
  assert.equal(allows(operator, 'register', ''), false, 'a domain is registered by operators of the service');
  assert.equal(allows(levels({ operator: true }), 'register', ''), true);
  assert.equal(allows(levels({ readers: ['a'] }), 'query', 'a'), false);
  assert.equal(allows(undefined, 'register', ''), true);
});
