// A run of the service: its description and the loaded part of its history. While the run is open, a stream adds new
// events.
import { Problem, clockAhead, get, problemOf, request, stream } from './api';
import { type Event, Row, type Schemas, closes, timeOf } from './fold';
import { History } from './history';
import { workflowPath } from './paths';
import { parse, rawMembers } from './raw';
import { untilSignedIn } from './session';
import type { Described } from './words';

/**
 * Maximum number of events that a page keeps. The oldest are dropped, and are read again when they are needed. Our
 * choice.
 */
const EVENTS_KEPT_MAX = 20_000;
/** Maximum length of a history that is loaded completely. Our choice. */
const EVENTS_WHOLE_MAX = 5000;
const PAGE = 1000;
/**
 * Number of events up to which new events are processed in every frame. Longer histories are processed four times a
 * second, so that key presses are handled in between. Our choice.
 */
const EVENTS_AT_ONCE_MAX = 2000;
const PAUSE_MS = 250;
/** Time after a deadline at which the page asks the service for the effect, in milliseconds. Our choice. */
const AFTER_DEADLINE_MS = 400;
/** Interval at which the page asks for the state of a run that waits behind a limit, in milliseconds. Our choice. */
const HELD_MS = 5000;
export const AGAIN_MS = [500, 1000, 2000, 5000, 10_000];

/**
 * Time for which a hidden page continues to follow. Our choice: a browser opens six connections to a service without
 * HTTP/2, and a stream occupies one of them.
 */
export const HIDDEN_MS = 30_000;

export class Run extends History {
  override readonly isRecorded = false;
  private readonly stop = new AbortController();
  private coming: Event[] = [];
  private deadline: ReturnType<typeof setTimeout> | undefined;
  private asking = false;
  private reading = false;
  private isClosed = false;

  constructor(domain: string, workflowId: string, runId: string | undefined) {
    super(domain, workflowId, runId);
    void this.open();
  }

  close(): void {
    this.stop.abort();
    clearTimeout(this.deadline);
  }

  private get path(): string {
    return workflowPath(this.domain, this.workflowId);
  }
  private query(more: Record<string, string | number>): string {
    return new URLSearchParams({
      ...(this.runId ? { runId: this.runId } : {}),
      ...Object.fromEntries(Object.entries(more).map(([k, v]) => [k, String(v)])),
    }).toString();
  }

  private async open(): Promise<void> {
    for (let tries = 0; !this.stop.signal.aborted; tries++) {
      try {
        await this.describe();
        if (this.row.value.events.length === 0) await this.readNewest();
        // The history is newer than the description, and the run may have closed, so the description is read again.
        if ((this.described.value?.historyLength ?? 0) < this.lastId.value) await this.describe();
        this.problem.value = undefined;
        if (this.row.value.events.some(closes)) {
          this.connection.value = 'closed';
          return;
        }
        this.connection.value = 'live';
        tries = 0;
        await this.follow();
        this.flush();
        if (this.isClosed) {
          this.connection.value = 'closed';
          await this.describe();
          return;
        }
      } catch (error) {
        if (this.stop.signal.aborted) return;
        this.problem.value = problemOf(error);
        if (error instanceof Problem && error.status === 401) {
          await untilSignedIn(this.stop.signal);
          continue;
        }
        if (error instanceof Problem && [400, 403, 404].includes(error.status)) {
          this.connection.value = error.status === 404 && this.described.value ? 'gone' : 'closed';
          return;
        }
        this.connection.value = 'lost';
      }
      await new Promise((done) => setTimeout(done, AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]));
    }
  }

  /**
   * Follows the history until the run closes or the page has been hidden for some time. In the latter case, waits until
   * the page is visible again.
   */
  private async follow(): Promise<void> {
    const following = new AbortController();
    const stop = (): void => following.abort();
    let leaves: ReturnType<typeof setTimeout> | undefined;
    let comes: (() => void) | undefined;
    const looked = (): void => {
      clearTimeout(leaves);
      if (document.hidden) leaves = setTimeout(stop, HIDDEN_MS);
      else comes?.();
    };
    looked();
    document.addEventListener('visibilitychange', looked);
    // A page in the browser's back/forward cache would otherwise keep its connection.
    addEventListener('pagehide', stop);
    this.stop.signal.addEventListener('abort', stop);
    try {
      await stream(
        `${this.path}/history?${this.query({ after: this.lastId.value })}`,
        (data) => this.take(parse<Event>(data)),
        following.signal,
      );
    } catch (error) {
      // The run has closed, and all of its events are loaded.
      if (error instanceof Problem && error.status === 204) {
        this.isClosed = true;
        return;
      }
      if (!following.signal.aborted || this.stop.signal.aborted) throw error;
      if (document.hidden)
        await new Promise<void>((done) => {
          comes = done;
        });
    } finally {
      clearTimeout(leaves);
      document.removeEventListener('visibilitychange', looked);
      removeEventListener('pagehide', stop);
      this.stop.signal.removeEventListener('abort', stop);
    }
  }

  private async describe(): Promise<void> {
    const described = await get<Described>(`${this.path}?${this.query({})}`, this.stop.signal);
    this.runId = described.runId;
    this.described.value = described;
    clearTimeout(this.deadline);
    const next = described.deadlines[0];
    const due = next ? Date.parse(next.at) - (Date.now() + clockAhead.value) + AFTER_DEADLINE_MS : Infinity;
    // A limit can let a task go, or hold it back, without an event.
    const isHeld = [described, ...described.openActivities].some(({ behind }) => (behind ?? []).length > 0);
    const wait = isHeld && due > 0 ? Math.min(due, HELD_MS) : due;
    const again = (): void => {
      if (isHeld && document.hidden) this.deadline = setTimeout(again, HELD_MS);
      else this.ask();
    };
    // The maximum delay of a browser's timer is 2^31 milliseconds.
    if (described.status === 'open' && wait < 2 ** 31 && wait > 0) this.deadline = setTimeout(again, wait);
  }

  /** Requests the description again. One request serves all events that arrive within a short time. */
  private ask(): void {
    if (this.asking) return;
    this.asking = true;
    setTimeout(() => {
      this.asking = false;
      this.describe().catch((error: unknown) => {
        // A closed run may be deleted at any time.
        if (!(error instanceof Problem && error.status === 404)) return;
        this.problem.value = error;
        this.connection.value = 'gone';
      });
    }, 60);
  }

  private async readNewest(): Promise<void> {
    const page = await get<Schemas['History']>(
      `${this.path}/history?${this.query({ reverse: 'true', limit: PAGE })}`,
      this.stop.signal,
    );
    this.lastId.value = page.lastEventId;
    this.row.value = new Row(page.events.reverse());
    while (this.row.value.first > 1 && page.lastEventId <= EVENTS_WHOLE_MAX) await this.readEarlier();
  }

  /**
   * Reads all events from the service, even those that are already loaded, as the service sends them: byte for byte.
   */
  override async whole(read: (events: number) => void): Promise<Blob[]> {
    const parts = [new Blob(['{"events": [\n'])];
    for (let after: string | undefined = '0'; after !== undefined;) {
      const path = `${this.path}/history?${this.query({ after, limit: PAGE })}`;
      const page = rawMembers(await (await request(path, { signal: this.stop.signal })).text());
      const events = [...rawMembers(page.get('events') ?? '[]').values()];
      const last: Event = JSON.parse(events.at(-1) ?? '{"id": 0}');
      if (events.length > 0) parts.push(new Blob([parts.length > 1 ? ',\n' : '', events.join(',\n')]));
      read(last.id);
      after = page.has('next') ? String(last.id) : undefined;
    }
    return [...parts, new Blob(['\n]}\n'])];
  }

  /** Reads a page of older events. */
  override async readEarlier(): Promise<void> {
    const { first } = this.row.value;
    if (first <= 1 || this.reading) return;
    this.reading = true;
    try {
      await this.readBefore(first);
    } finally {
      this.reading = false;
    }
  }

  private async readBefore(first: number): Promise<void> {
    const page = await get<Schemas['History']>(
      `${this.path}/history?${this.query({ reverse: 'true', limit: PAGE, before: first })}`,
      this.stop.signal,
    );
    this.row.value = new Row([...page.events.reverse(), ...this.row.value.events]);
  }

  /** Loads the events around an event. If it is more than a page away, they replace the events that are loaded. */
  override async goTo(id: number): Promise<void> {
    const { first, last } = this.row.value;
    if ((id >= first && id <= last) || this.reading) return;
    if (id < first && first - id <= PAGE) return this.readEarlier();
    this.reading = true;
    try {
      const page = await get<Schemas['History']>(
        `${this.path}/history?${this.query({ after: Math.max(0, id - PAGE / 2), limit: PAGE })}`,
        this.stop.signal,
      );
      if (page.events.length > 0) this.row.value = new Row(page.events);
      this.lastId.value = Math.max(this.lastId.value, page.lastEventId);
    } finally {
      this.reading = false;
    }
  }

  /** Reads a page of newer events, if the newest events are not loaded. */
  override async readLater(): Promise<void> {
    if (!this.isElsewhere.value || this.reading) return;
    this.reading = true;
    try {
      const page = await get<Schemas['History']>(
        `${this.path}/history?${this.query({ after: this.row.value.last, limit: PAGE })}`,
        this.stop.signal,
      );
      this.row.value = new Row([...this.row.value.events, ...page.events]);
      this.lastId.value = Math.max(this.lastId.value, page.lastEventId);
    } finally {
      this.reading = false;
    }
  }

  /**
   * Finds the start of a turn. If the start of the history is not loaded, reads the history from its start and counts
   * the turns.
   */
  override async findTurn(number: number, looked: (id: number) => void): Promise<number | undefined> {
    if (this.row.value.first === 1 && !this.isElsewhere.value) return super.findTurn(number, looked);
    let left = number;
    for (let after: number | undefined = 0; after !== undefined;) {
      const page: Schemas['History'] = await get(
        `${this.path}/history?${this.query({ after, limit: PAGE })}`,
        this.stop.signal,
      );
      for (const event of page.events) if (event.type === 'DeciderScheduled' && --left === 0) return event.id;
      const last: number | undefined = page.events.at(-1)?.id;
      after = page.next == null ? undefined : last;
      looked(last ?? 0);
    }
    return undefined;
  }

  /**
   * Finds the first event at or after an instant by binary search. For a million events, this reads about twenty of
   * them.
   */
  override async findTime(at: number): Promise<number | undefined> {
    const { first, last } = this.row.value;
    const here = await super.findTime(at);
    if (here !== undefined && (here > first || first === 1)) return here;
    let [low, high] = here === undefined ? [last, this.lastId.value] : [0, first];
    // All events up to `low` are before the instant. Events between `low` and `high` may be before it, too.
    while (low < high) {
      const middle = low + Math.floor((high - low) / 2);
      const page = await get<Schemas['History']>(
        `${this.path}/history?${this.query({ after: middle, limit: 1 })}`,
        this.stop.signal,
      );
      const event = page.events[0];
      if (event && timeOf(event) < at) low = middle + 1;
      else high = middle;
    }
    return low < this.lastId.value ? low + 1 : undefined;
  }

  /** Loads the newest events again. */
  override async goToNewest(): Promise<void> {
    await this.readNewest();
  }

  private take(event: Event): void {
    if (this.coming.length === 0) {
      if (this.row.value.events.length < EVENTS_AT_ONCE_MAX) requestAnimationFrame(() => this.flush());
      else setTimeout(() => this.flush(), PAUSE_MS);
    }
    this.coming.push(event);
    // A hidden page is not drawn, so `requestAnimationFrame` does not call back.
    if (document.hidden && this.coming.length > 500) this.flush();
  }

  private flush(): void {
    const known = this.lastId.value;
    const isElsewhere = this.isElsewhere.value;
    const events = this.coming.filter((event) => event.id > known);
    this.coming = [];
    if (events.length === 0) return;
    this.lastId.value = events.at(-1)?.id ?? known;
    this.ask();
    if (events.some(closes)) this.isClosed = true;
    if (isElsewhere) return;
    const all = [...this.row.value.events, ...events];
    this.row.value = new Row(all.length > EVENTS_KEPT_MAX ? all.slice(all.length - EVENTS_KEPT_MAX) : all);
  }
}
