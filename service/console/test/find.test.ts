import assert from 'node:assert/strict';
import test from 'node:test';
import { type IndexRow, RESULTS_MAX, search } from '../src/find';

const INDEX: IndexRow[] = [
  [
    '/docs/credentials',
    'Manage credentials',
    [
      ['Rotate a credential', 'rotate-a-credential'],
      ['Revoke', 'revoke'],
    ],
  ],
  ['/docs/tls', 'Encrypt with TLS', [['Rotate certificates', 'rotate-certificates']]],
];
const paths = (text: string): string[] => search(INDEX, text).map(({ path }) => path);

test('titles and headings are found by the words in them, in any case and order', () => {
  assert.deepEqual(paths('ROTATE'), ['/docs/credentials#rotate-a-credential', '/docs/tls#rotate-certificates']);
  assert.deepEqual(paths('credential rotate'), ['/docs/credentials#rotate-a-credential']);
  assert.equal(paths('tls')[0], '/docs/tls');
  assert.deepEqual(paths('nothing of the kind'), []);
  assert.deepEqual(paths('  '), []);
});

test('a heading is found by words of its page, after headings that contain all words', () => {
  assert.deepEqual(paths('tls rotate'), ['/docs/tls#rotate-certificates']);
  const [first] = search(INDEX, 'revoke');
  assert.deepEqual(first, { path: '/docs/credentials#revoke', title: 'Manage credentials', heading: 'Revoke' });
});

test('results are bounded', () => {
  const many: IndexRow[] = [['/docs/a', 'a', Array.from({ length: 99 }, (_, n) => [`a ${n}`, `a-${n}`])]];
  assert.equal(search(many, 'a').length, RESULTS_MAX);
});
