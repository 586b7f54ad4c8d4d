// An event: as one line of a list, and in the panel next to the views.
import type { JSX } from 'preact';
import { type Event, causesOf, nameOfTurn, timeOf } from '../fold';
import { rawOf } from '../raw';
import { setQuery } from '../state';
import { duration, exactTime, millisecondsOf } from '../time';
import { Name, Payload, Time } from '../ui';
import { fieldsOf, kindOf, payloadsOf, subjectOf, toneOf } from '../words';
import { ByHand } from './byhand';
import type { Shown } from './shown';

/** An event in one line, which can be clicked. */
export function EventLine({ event, shown, time }: { event: Event; shown: Shown; time?: number }): JSX.Element {
  const subject = subjectOf(event, (id) => shown.run.row.value.at(id));
  return (
    <button
      type="button"
      class={`event k-${kindOf(event)} tone-${toneOf(event)}${event.id === shown.selected ? ' at' : ''}${event.id > shown.asOf ? ' later' : ''}`}
      aria-pressed={event.id === shown.selected}
      onClick={() => shown.select(event.id)}
    >
      <span class="event-id">{event.id}</span>
      <span class="event-type">{event.type}</span>
      <span class="event-subject cut">
        <Name>{subject}</Name>
      </span>
      {time === undefined ? null : <span class="event-time">+{duration(Math.max(0, timeOf(event) - time))}</span>}
    </button>
  );
}

export function EventPanel({ event, shown }: { event: Event; shown: Shown }): JSX.Element {
  const row = shown.run.row.value;
  const find = (ids: readonly number[]): Event[] => ids.map((id) => row.at(id)).filter((one) => one !== undefined);
  const causes = find(causesOf(event, row));
  const effects = find(shown.run.effects.value.get(event.id) ?? []);
  const turn = shown.run.turnOf.value.get(event.id);
  const described = shown.run.described.value;
  const activity = described?.openActivities.find(({ scheduledEventId }) => scheduledEventId === event.id);
  return (
    <div class="panel">
      <div class="panel-head">
        <h2>
          <span class="event-id">{event.id}</span> {event.type}
        </h2>
        <button
          type="button"
          class="quiet"
          aria-label="Close the event (Escape)"
          onClick={() => setQuery({ event: undefined })}
        >
          ×
        </button>
      </div>
      <p class="when">
        <time dateTime={event.timestamp}>{exactTime(timeOf(event))}</time> · <Time at={event.timestamp} />
        {turn ? ` · ${nameOfTurn(turn, shown.run.row.value).replace('Turn', 'turn')}` : ''}
        {event.id === shown.asOf ? null : (
          <>
            {' '}
            ·{' '}
            <button type="button" class="link" onClick={() => setQuery({ asof: String(event.id) })}>
              show the run as of this event
            </button>
          </>
        )}
      </p>
      {causes.length > 0 ? (
        <>
          <h3>caused by</h3>
          <div class="lines">
            {causes.map((one) => (
              <EventLine key={one.id} event={one} shown={shown} />
            ))}
          </div>
        </>
      ) : null}
      {effects.length > 0 ? (
        <>
          <h3>led to</h3>
          <div class="lines">
            {effects.slice(0, 20).map((one) => (
              <EventLine key={one.id} event={one} shown={shown} />
            ))}
          </div>
        </>
      ) : null}
      {described && activity ? (
        <ByHand domain={shown.run.domain} run={described} activity={activity} events={shown.run.row.value.events} />
      ) : null}
      {payloadsOf(event).map(([name, json]) => (
        <Payload key={`${event.id}${name}`} name={name} json={json} />
      ))}
      <h3>fields</h3>
      <dl class="fields">
        {fieldsOf(event).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{saying(value, rawOf(event, name))}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function saying(value: unknown, json: string): JSX.Element {
  if (Array.isArray(value) && value.every((one) => typeof one === 'string'))
    return (
      <>
        {value.map((one) => (
          <span key={one} class="tag">
            <Name>{one}</Name>
          </span>
        ))}
      </>
    );
  if (value !== null && typeof value === 'object') {
    const durations = Object.entries(value).map(([name, one]): [string, number | undefined] => [
      name,
      typeof one === 'string' ? millisecondsOf(one) : undefined,
    ]);
    if (durations.length === 0 || durations.some(([, ms]) => ms === undefined)) return <Payload json={json} />;
    return (
      <>
        {durations.map(([name, ms]) => (
          <div key={name}>
            <span class="quieter">{name}</span> {duration(ms ?? 0)}
          </div>
        ))}
      </>
    );
  }
  const ms = typeof value === 'string' ? millisecondsOf(value) : undefined;
  return ms === undefined ? <Name>{String(value)}</Name> : <span title={String(value)}>{duration(ms)}</span>;
}
