import assert from 'node:assert/strict';
import test from 'node:test';
import { readJump } from '../src/jump';

const START = new Date(2026, 10, 24, 14, 2, 11, 340).getTime();
const at = (...[hours, minutes, seconds, ms]: [number, number, number?, number?]): number =>
  new Date(2026, 10, 24, hours, minutes, seconds ?? 0, ms ?? 0).getTime();

test('where to go is read as one types it', () => {
  for (const [typed, expected] of [
    ['120', { event: 120 }],
    [' #1,200 ', { event: 1200 }],
    ['turn 7', { turn: 7 }],
    ['T7', { turn: 7 }],
    ['+3m20s', { at: START + 200_000 }],
    ['+ 1.5 h', { at: START + 5_400_000 }],
    ['+40ms', { at: START + 40 }],
    ['15:00', { at: at(15, 0) }],
    ['14:02:12.5', { at: at(14, 2, 12, 500) }],
    ['14:02', { at: at(14, 2) }],
    ['14:02:11', { at: at(14, 2, 11) }],
    ['14:01', { at: at(14 + 24, 1) }],
    ['0:30', { at: at(24, 30) }],
    ['2026-11-24 14:05', { at: at(14, 5) }],
    ['2026-11-24T14:05:00Z', { at: Date.parse('2026-11-24T14:05:00Z') }],
  ] as const)
    assert.deepEqual(readJump(typed, START), expected, typed);
});

test('what is nothing of the kind leads nowhere', () => {
  for (const typed of ['', 'x', '-1', 'turn', '+', '+3', '3m', '14:2', 'tomorrow', '2026-13-45'])
    assert.equal(readJump(typed, START), undefined, typed);
});
