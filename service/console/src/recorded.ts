// A history out of a file: what `baton history --json` prints, what the REST API answers, and what the events page downloads. Pure.
import { deadlinesOf } from './deadlines';
import { type Event, Row, effectsIn, stateAsOf, timeOf, turnsByEvent, turnsOf } from './fold';
import { parse } from './raw';
import { fieldsOf, payloadsOf, subjectOf } from './words';

/** Says in words why a file is no history. */
export class NoHistory extends Error {}

/** Reads a history, oldest event first, whichever way round it stands in the file. Throws `NoHistory` with the reason. */
export function readHistory(text: string): Row {
  const events = listIn(text);
  if (events.length === 0) throw new NoHistory('It contains no events.');
  events.forEach((event, index) => {
    const { id, type, timestamp } = (event ?? {}) as Partial<Event>;
    if (typeof id !== 'number' || typeof type !== 'string' || Number.isNaN(Date.parse(timestamp ?? '')))
      throw new NoHistory(`Item ${index + 1} is not an event: it needs an id, a type and a timestamp.`);
  });
  const history = events as Event[];
  const wrong = history.map(notText).find((field) => field !== undefined);
  if (wrong) throw new NoHistory(`Its events do not have Baton’s format: ${wrong} is not text.`);
  const [first, second] = history;
  if (first && second && first.id > second.id) history.reverse();
  const row = new Row(history);
  const gap = history.find((event, index) => event.id !== row.first + index);
  if (gap)
    throw new NoHistory(
      `Event ${gap.id} does not follow the previous one: events are missing, or the file has several histories.`,
    );
  try {
    fold(row);
  } catch (error) {
    throw new NoHistory(`Its events do not have Baton’s format: ${(error as Error).message}.`);
  }
  return row;
}

/** What is text in whichever event it stands, and is shown as such. */
const TEXTS = [
  'workflowId',
  'runId',
  'workflowType',
  'taskList',
  'identity',
  'by',
  'activityId',
  'activityType',
  'timerId',
  'name',
  'reason',
  'updateId',
] as const;

/** The first member of an event that should be text and is something else. */
function notText(event: Event): string | undefined {
  const members = event as unknown as Record<string, unknown>;
  const wrong = TEXTS.find(
    (name) => members[name] !== undefined && members[name] !== null && typeof members[name] !== 'string',
  );
  return wrong && `\`${wrong}\` of event ${event.id}`;
}

/** Folds it as the views do: what breaks here would break them. */
function fold(row: Row): void {
  const turns = turnsOf(row);
  turnsByEvent(turns);
  effectsIn(row);
  deadlinesOf(stateAsOf(row, row.last));
  for (const event of row.events) {
    subjectOf(event, (id) => row.at(id));
    payloadsOf(event);
    fieldsOf(event);
    timeOf(event);
  }
}

function listIn(text: string): unknown[] {
  let found: unknown;
  try {
    found = parse(text);
  } catch {
    // One event a line, as `baton history --follow --json` prints them.
    try {
      found = text
        .split('\n')
        .filter((line) => line.trim() !== '')
        .map((line) => parse<unknown>(line));
    } catch {
      throw new NoHistory('It is not JSON.');
    }
  }
  if (Array.isArray(found)) return found;
  const { events, type } = (found ?? {}) as { events?: unknown; type?: unknown };
  if (Array.isArray(events)) return events;
  // A single line.
  if (type !== undefined) return [found];
  throw new NoHistory('It has no list of events.');
}
