// Navigation to an event of a history, by its id, by turn, or by time.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { problemOf } from '../api';
import { timeOf } from '../fold';
import { readJump } from '../jump';
import type { Shown } from './shown';

export function GoTo({ run, select }: Shown): JSX.Element {
  const [said, setSaid] = useState('');
  const go = async (text: string): Promise<void> => {
    const first = run.row.value.events[0];
    const started = run.described.value?.startedAt;
    const startedAt = started ? Date.parse(started) : first ? timeOf(first) : 0;
    const jump = readJump(text, startedAt);
    if (!jump) return setSaid('Enter an event (120), a turn (turn 7) or a time (14:02:10, +3m).');
    setSaid('');
    try {
      const last = Math.max(run.lastId.value, run.row.value.last);
      if ('event' in jump) return select(Math.max(1, Math.min(jump.event, last)));
      const looked = (id: number): void =>
        setSaid(`Searched ${id.toLocaleString('en')} of ${last.toLocaleString('en')} events.`);
      const found = 'turn' in jump ? await run.findTurn(jump.turn, looked) : await run.findTime(jump.at);
      setSaid(found === undefined ? ('turn' in jump ? 'There is no such turn.' : 'There are no later events.') : '');
      if (found !== undefined) select(found);
    } catch (error) {
      run.problem.value = problemOf(error);
    }
  };
  return (
    <form
      class="goto"
      onSubmit={(event) => {
        event.preventDefault();
        void go(String(new FormData(event.currentTarget).get('to') ?? ''));
      }}
    >
      <label>
        go to{' '}
        <input
          name="to"
          size={14}
          placeholder="120, turn 7"
          title="An event (120), a turn (turn 7), a time (14:02:10, +3m)"
          autocomplete="off"
          aria-describedby="goto-said"
        />
      </label>
      <span id="goto-said" role="status" class="quieter">
        {said}
      </span>
    </form>
  );
}
