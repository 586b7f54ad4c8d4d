// The view of events: a table, newest first, and navigation by id, turn or time.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { problemOf } from '../api';
import { timeOf } from '../fold';
import { clock, place, setQuery } from '../state';
import { duration, exactTime } from '../time';
import { Name, Rows, useNarrow } from '../ui';
import { kindOf, subjectOf, toneOf } from '../words';
import { GoTo } from './goto';
import type { Shown } from './shown';

export function Events(shown: Shown): JSX.Element {
  const row = shown.run.row.value;
  const narrow = useNarrow();
  // Relative times start at the first loaded event, which usually is the start of the run.
  const first = row.events[0];
  const oldestFirst = place.value.query.get('order') === 'oldest';
  const count = Math.max(0, shown.asOf - row.first + 1);
  const idAt = (index: number): number => (oldestFirst ? row.first + index : shown.asOf - index);
  const indexOf = (id: number): number => (oldestFirst ? id - row.first : shown.asOf - id);
  const [reading, setReading] = useState<number>();
  const json = async (): Promise<void> => {
    if (reading !== undefined) return;
    setReading(0);
    try {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob(await shown.run.whole(setReading), { type: 'application/json' }));
      link.download = `${shown.run.workflowId.replace(/[^\w.-]+/g, '_')}.json`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    } catch (error) {
      shown.run.problem.value = problemOf(error);
    } finally {
      setReading(undefined);
    }
  };
  return (
    <div class="events">
      <div class="tools">
        <GoTo {...shown} />
        <button type="button" class="quiet" onClick={() => setQuery({ order: oldestFirst ? undefined : 'oldest' })}>
          {oldestFirst ? 'oldest first' : 'newest first'}
        </button>
        <button type="button" class="quiet" onClick={() => void json()}>
          {reading === undefined ? 'download JSON' : `${reading.toLocaleString('en')} events read…`}
        </button>
      </div>
      <Rows
        class="event-rows"
        count={count}
        height={narrow ? 50 : 30}
        label="Events"
        at={shown.selected === undefined ? undefined : indexOf(shown.selected)}
        onEnd={() => {
          if (!oldestFirst && row.first > 1) void shown.run.readEarlier();
        }}
        draw={(index) => {
          const event = row.at(idAt(index));
          if (!event) return <div key={index} />;
          const before = row.at(event.id - 1);
          const gap = before ? timeOf(event) - timeOf(before) : 0;
          return (
            <div
              key={event.id}
              role="row"
              aria-rowindex={index + 1}
              aria-selected={event.id === shown.selected}
              class={`row event k-${kindOf(event)} tone-${toneOf(event)}${event.id === shown.selected ? ' at' : ''}`}
            >
              <span role="cell" class="event-id">
                <button
                  type="button"
                  class="stretched"
                  tabIndex={-1}
                  aria-label={`Event ${event.id}`}
                  onClick={() => shown.select(event.id)}
                >
                  {event.id}
                </button>
              </span>
              <span role="cell" class="time">
                {clock.value === 'exact' ? (
                  exactTime(timeOf(event)).slice(11)
                ) : (
                  <span title={exactTime(timeOf(event))}>
                    {first ? `+${duration(timeOf(event) - timeOf(first))}` : ''}
                  </span>
                )}
              </span>
              <span role="cell" class="time gap">
                {gap > 0 ? `+${duration(gap)}` : ''}
              </span>
              <span role="cell" class="event-type">
                {event.type}
              </span>
              <span role="cell" class="cut">
                <Name>{subjectOf(event, (id) => row.at(id))}</Name>
              </span>
            </div>
          );
        }}
      />
    </div>
  );
}
