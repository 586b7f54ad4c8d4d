// The view of turns: one card per turn, newest first, with the news, the decisions, the durations and the decider.
import { Component, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Turn, nameOfTurn, stateAsOf, timeOf } from '../fold';
import { duration } from '../time';
import { rawOf } from '../raw';
import { Empty, Name, Payload, Time } from '../ui';
import { visible } from '../words';
import { EventLine } from './event';
import { GoTo } from './goto';
import type { Shown } from './shown';

/** Number of cards drawn initially, and added when the user scrolls to the end. Our choice. */
const CARDS = 30;
/** Number of events above which the view offers navigation to a turn. Our choice. */
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
    const isStuck = shown.run.described.value?.stuck === true;
    const look = `${isChosen} ${shows ? shown.selected : ''} ${isLater ? shown.asOf : ''} ${shown.isPast || isStuck}`;
    return <Kept key={turn.scheduled.id} turn={turn} shown={shown} isChosen={isChosen} look={look} />;
  };
  return (
    <div class="turns">
      {shown.run.lastId.value > LONG ? (
        <div class="tools">
          <GoTo {...shown} />
        </div>
      ) : null}
      {turns.length === 0 ? <Empty>No turn begins within the loaded events. Use the events view.</Empty> : null}
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
  waiting: 'waiting for a decider',
  running: 'in progress',
  completed: '',
  failed: 'failed',
  'timed-out': 'timed out',
  overtaken: 'not completed: the run has closed',
};

/** Maximum number of items that are named for a turn without decisions. Our choice. */
const WAITING_NAMED = 3;

/** Returns what the run waited for after a turn without decisions. */
function waitingAfter({ ended }: Turn, { run }: Shown): string {
  if (!ended) return '';
  const state = stateAsOf(run.row.value, ended.id);
  const names = [
    ...[...state.activities.values()].map(({ scheduled }) => `activity ${scheduled.activityId}`),
    ...[...state.children.values()].map(({ scheduled }) => `child ${scheduled.workflowId}`),
    ...[...state.timers.values()].map(({ scheduled }) => `timer ${scheduled.timerId}`),
    ...state.awaiting.map((name) => (name === 'baton.cancel' ? 'a cancel request' : `signal ${name}`)),
  ];
  if (names.length === 0) return 'no decisions';
  const more = names.length - WAITING_NAMED;
  return `waiting for ${visible(names.slice(0, WAITING_NAMED).join(', '))}${more > 0 ? ` and ${more} more` : ''}`;
}

interface Drawn {
  turn: Turn;
  shown: Shown;
  isChosen: boolean;
}

/**
 * A card that is drawn again only if its turn or its appearance has changed, so that a key press draws only a few
 * cards. It does not keep its elements, because kept elements would hold those of removed cards in memory.
 */
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
  const isStuck =
    nothing && !shown.isPast && shown.run.described.value?.stuck === true && turn === shown.run.turns.value.at(-1);
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
      class={`card o-${turn.outcome}${isStuck ? ' stuck' : nothing ? ' nothing' : ''}${isChosen ? ' chosen' : ''}`}
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
        {nothing ? <span class="outcome">{isStuck ? 'no decisions: stuck' : waitingAfter(turn, shown)}</span> : null}
        <span class="meta">
          {scheduled.attempt > 1 ? <span>attempt {scheduled.attempt}</span> : null}
          {started?.identity ? (
            <span title="decider">
              <Name>{started.identity}</Name>
            </span>
          ) : null}
          {started?.by ? (
            <span title="credential">
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
              <span class="quieter">no new events</span>
            ) : (
              turn.news.slice(0, 40).map((event) => <EventLine key={event.id} event={event} shown={shown} />)
            )}
            {turn.news.length > 40 ? <span class="quieter">and {turn.news.length - 40} more events</span> : null}
          </div>
        </div>
        <div class="arrow" aria-hidden="true" />
        <div>
          <h3>{turn.outcome === 'failed' || turn.outcome === 'timed-out' ? 'outcome' : 'decided'}</h3>
          <div class="lines">
            {turn.decisions.slice(0, 40).map((event) => (
              <EventLine key={event.id} event={event} shown={shown} />
            ))}
            {decided > 40 ? <span class="quieter">and {decided - 40} more</span> : null}
            {turn.outcome === 'completed' && decided === 0 ? <span class="quieter">no decisions</span> : null}
            {turn.outcome === 'completed' ? null : ended ? (
              <EventLine event={ended} shown={shown} />
            ) : (
              <span class="quieter">not yet</span>
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
          <summary>context</summary>
          <Payload json={rawOf(ended, 'context')} />
        </details>
      ) : null}
      {ended?.type === 'DeciderFailed' && ended.details !== undefined ? (
        <details open={isChosen}>
          <summary>failure details</summary>
          <Payload json={rawOf(ended, 'details')} />
        </details>
      ) : null}
    </article>
  );
}
