// A history from a file: the output of `baton history --json`, a response of the REST API, or a download from the page
// of events. Pure functions.
import { deadlinesOf } from './deadlines';
import { type Event, Row, effectsIn, stateAsOf, timeOf, turnsByEvent, turnsOf } from './fold';
import { parse } from './raw';
import { fieldsOf, payloadsOf, subjectOf } from './words';

/** A file that is not a history. The message contains the reason. */
export class NoHistory extends Error {}

/**
 * Reads a history, and returns the oldest event first. The file may be in either order. Throws `NoHistory` with the
 * reason.
 */
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

/** Fields that are texts in all events, and are shown as such. */
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

/** Returns the first field of an event that must be a text but is not. */
function notText(event: Event): string | undefined {
  const members = event as unknown as Record<string, unknown>;
  const wrong = TEXTS.find(
    (name) => members[name] !== undefined && members[name] !== null && typeof members[name] !== 'string',
  );
  return wrong && `\`${wrong}\` of event ${event.id}`;
}

/** Computes everything that the views compute, to detect a history that would break them. */
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
    // One event per line, as in the output of `baton history --follow --json`.
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
  // The file has a single line, with one event.
  if (type !== undefined) return [found];
  throw new NoHistory('It has no list of events.');
}
