// Turns: one card a turn, the newest first: the news it saw, what it decided, how long it waited and took, who decided.
import { Component, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Turn, nameOfTurn, timeOf } from '../fold';
import { duration } from '../time';
import { rawOf } from '../raw';
import { Empty, Name, Payload, Time } from '../ui';
import { EventLine } from './event';
import { GoTo } from './goto';
import type { Shown } from './shown';

/** Ours: cards that are drawn at first, and that come when one scrolls to the end. */
const CARDS = 30;
/** Ours: events from which on one has to go to a turn, rather than to scroll. */
const LONG = 100;

export function Turns(shown: Shown): JSX.Element {
  const turns = shown.run.turns.value.filter((turn) => turn.scheduled.id <= shown.asOf);
  const chosen = shown.selected === undefined ? undefined : shown.run.turnOf.value.get(shown.selected);
  const index = chosen ? Math.max(0, turns.length - chosen.number) : 0;
  const [wanted, setWanted] = useState(CARDS);
  const end = useRef<HTMLDivElement>(null);
  const count = Math.min(turns.length, Math.max(wanted, index + 5));
  useEffect(() => {
    const { current } = end;
    if (!current) return undefined;
    const watch = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting) setWanted((old) => old + CARDS);
      },
      { rootMargin: '600px' },
    );
    watch.observe(current);
    return () => watch.disconnect();
  }, [count]);
  const card = (turn: Turn): JSX.Element => {
    const isChosen = turn === chosen;
    const events = [turn.scheduled, turn.started, turn.ended, ...turn.news, ...turn.decisions];
    const shows = isChosen || events.some((event) => event?.id === shown.selected);
    const isLater = shown.asOf < (turn.decisions.at(-1) ?? turn.ended ?? turn.scheduled).id;
    const look = `${isChosen} ${shows ? shown.selected : ''} ${isLater ? shown.asOf : ''}`;
    return <Kept key={turn.scheduled.id} turn={turn} shown={shown} isChosen={isChosen} look={look} />;
  };
  return (
    <div class="turns">
      {shown.run.lastId.value > LONG ? (
        <div class="tools">
          <GoTo {...shown} />
        </div>
      ) : null}
      {turns.length === 0 ? (
        <Empty>No turn begins among the events that are here. Those of a long turn are under Events.</Empty>
      ) : null}
      {turns
        .slice(turns.length - count)
        .reverse()
        .map(card)}
      {count < turns.length ? (
        <div ref={end} class="end">
          {turns.length - count} earlier turns
        </div>
      ) : null}
    </div>
  );
}

const OUTCOMES: Record<Turn['outcome'], string> = {
  waiting: 'waits for a decider',
  running: 'is being decided',
  completed: '',
  failed: 'was given back',
  'timed-out': 'was lost: no answer came in time',
  overtaken: 'was overtaken by the end of the run',
};

interface Drawn {
  turn: Turn;
  shown: Shown;
  isChosen: boolean;
}

/** A card that is drawn again only when its turn has changed or how it looks, so that a key press costs the cards that it changes alone. Its
 * nodes are not kept for that: those of cards that are gone would be held by those that are there. */
class Kept extends Component<Drawn & { look: string }> {
  override shouldComponentUpdate(next: Drawn & { look: string }): boolean {
    return next.turn !== this.props.turn || next.look !== this.props.look;
  }

  override render(): JSX.Element {
    const { turn, shown, isChosen } = this.props;
    return <Card turn={turn} shown={shown} isChosen={isChosen} />;
  }
}

function Card({ turn, shown, isChosen }: Drawn): JSX.Element {
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (isChosen) card.current?.scrollIntoView({ block: 'nearest' });
  }, [isChosen]);
  const { started, ended, scheduled } = turn;
  const decided = turn.decisions.length;
  const nothing = turn.outcome === 'completed' && decided === 0;
  const reason =
    ended?.type === 'DeciderFailed'
      ? (ended.reason ?? ended.cause)
      : ended?.type === 'DeciderTimedOut'
        ? ended.timeout
        : undefined;
  const from = timeOf(scheduled);
  const name = nameOfTurn(turn, shown.run.row.value);
  return (
    <article
      ref={card}
      class={`card o-${turn.outcome}${nothing ? ' nothing' : ''}${isChosen ? ' chosen' : ''}`}
      aria-label={name}
    >
      <header>
        <h2>{name}</h2>
        {OUTCOMES[turn.outcome] ? (
          <span class="outcome">
            {OUTCOMES[turn.outcome]}
            {reason ? (
              <>
                : <Name>{reason}</Name>
              </>
            ) : null}
          </span>
        ) : null}
        {nothing ? <span class="outcome">decided nothing</span> : null}
        <span class="meta">
          {scheduled.attempt > 1 ? <span>attempt {scheduled.attempt}</span> : null}
          {started?.identity ? (
            <span title="who decided">
              <Name>{started.identity}</Name>
            </span>
          ) : null}
          {started?.by ? (
            <span title="the credential">
              by <Name>{started.by}</Name>
            </span>
          ) : null}
          {turn.waitedMs === undefined ? null : <span>waited {duration(turn.waitedMs)}</span>}
          {turn.tookMs === undefined ? null : <span>took {duration(turn.tookMs)}</span>}
          <Time at={scheduled.timestamp} />
        </span>
      </header>
      <div class="columns">
        <div>
          <h3>saw</h3>
          <div class="lines">
            {turn.news.length === 0 ? (
              <span class="quieter">no news</span>
            ) : (
              turn.news.slice(0, 40).map((event) => <EventLine key={event.id} event={event} shown={shown} />)
            )}
            {turn.news.length > 40 ? <span class="quieter">and {turn.news.length - 40} more events</span> : null}
          </div>
        </div>
        <div class="arrow" aria-hidden="true" />
        <div>
          <h3>{turn.outcome === 'failed' || turn.outcome === 'timed-out' ? 'instead of decisions' : 'decided'}</h3>
          <div class="lines">
            {turn.decisions.slice(0, 40).map((event) => (
              <EventLine key={event.id} event={event} shown={shown} />
            ))}
            {decided > 40 ? <span class="quieter">and {decided - 40} more</span> : null}
            {turn.outcome === 'completed' && decided === 0 ? <span class="quieter">nothing</span> : null}
            {turn.outcome === 'completed' ? null : ended ? (
              <EventLine event={ended} shown={shown} />
            ) : (
              <span class="quieter">nothing yet</span>
            )}
          </div>
        </div>
      </div>
      <footer>
        {[scheduled, started, ended].map((event) =>
          event ? (
            <button
              key={event.id}
              type="button"
              class={`step${event.id === shown.selected ? ' at' : ''}`}
              onClick={() => shown.select(event.id)}
            >
              <span class="event-id">{event.id}</span> {event.type.replace('Decider', '').toLowerCase()}{' '}
              <span class="quieter">+{duration(timeOf(event) - from)}</span>
            </button>
          ) : null,
        )}
        {ended?.type === 'DeciderCompleted' && ended.awaiting?.length ? (
          <span class="awaits">
            awaits{' '}
            {ended.awaiting.map((name) => (
              <span key={name} class="tag">
                <Name>{name}</Name>
              </span>
            ))}
          </span>
        ) : null}
      </footer>
      {ended?.type === 'DeciderCompleted' && ended.context !== undefined ? (
        <details>
          <summary>context it left</summary>
          <Payload json={rawOf(ended, 'context')} />
        </details>
      ) : null}
      {ended?.type === 'DeciderFailed' && ended.details !== undefined ? (
        <details open={isChosen}>
          <summary>details of the failure</summary>
          <Payload json={rawOf(ended, 'details')} />
        </details>
      ) : null}
    </article>
  );
}
