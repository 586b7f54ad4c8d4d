// One run, live: what the service says of it, and its history as far as it is here, followed by a stream while it is open.
import { Problem, clockAhead, get, problemOf, request, stream } from './api';
import { type Event, Row, type Schemas, closes, timeOf } from './fold';
import { History } from './history';
import { workflowPath } from './paths';
import { parse, rawMembers } from './raw';
import { untilSignedIn } from './session';
import type { Described } from './words';

/** Ours: events that a page keeps; the oldest go first, and are read again when they are looked for. */
const EVENTS_KEPT_MAX = 20_000;
/** Ours: histories up to this are read whole. */
const EVENTS_WHOLE_MAX = 5000;
const PAGE = 1000;
/** Ours: up to so many events each frame folds what has come; beyond, four times a second, so that keys are answered between. */
const EVENTS_AT_ONCE_MAX = 2000;
const PAUSE_MS = 250;
/** Ours: how long after a deadline the service is asked what came of it, in milliseconds. */
const AFTER_DEADLINE_MS = 400;
export const AGAIN_MS = [500, 1000, 2000, 5000, 10_000];

/** Ours: how long a page that nobody sees goes on following. A browser has six connections to a service without HTTP/2, and a
    stream holds one of them. */
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
        // What happened between the two is in the history alone: the run may have closed.
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

  /** Follows the history until the run closes, or until nobody has seen the page for a while; then waits until somebody does. */
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
    // A page that the browser keeps for the way back would keep its connection, too.
    addEventListener('pagehide', stop);
    this.stop.signal.addEventListener('abort', stop);
    try {
      await stream(
        `${this.path}/history?${this.query({ after: this.lastId.value })}`,
        (data) => this.take(parse<Event>(data)),
        following.signal,
      );
    } catch (error) {
      // The run had closed, and all of its events are here.
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
    const wait = next ? Date.parse(next.at) - (Date.now() + clockAhead.value) + AFTER_DEADLINE_MS : Infinity;
    // A timer of the browser takes 2^31 milliseconds at most.
    if (described.status === 'open' && wait < 2 ** 31 && wait > 0) this.deadline = setTimeout(() => this.ask(), wait);
  }

  /** Asks for the description again, once for all events that come meanwhile. */
  private ask(): void {
    if (this.asking) return;
    this.asking = true;
    setTimeout(() => {
      this.asking = false;
      this.describe().catch((error: unknown) => {
        // It may be deleted as soon as it has closed.
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

  /** Reads all events, whatever is here of them, as the service sends them: byte for byte. */
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

  /** Reads the events around one, in place of those that are here, where it is further away than a page. */
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

  /** Reads a page of newer events, where those that are here are some from the middle. */
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

  /** Reads on from the start until there have been so many turns, where they are not here. */
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

  /** Halves the history until it has the place: twenty reads of one event in a million of them. */
  override async findTime(at: number): Promise<number | undefined> {
    const { first, last } = this.row.value;
    const here = await super.findTime(at);
    if (here !== undefined && (here > first || first === 1)) return here;
    let [low, high] = here === undefined ? [last, this.lastId.value] : [0, first];
    // Everything up to `low` was before, and so may be what is up to `high`.
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

  /** Shows the newest events again. */
  override async goToNewest(): Promise<void> {
    await this.readNewest();
  }

  private take(event: Event): void {
    if (this.coming.length === 0) {
      if (this.row.value.events.length < EVENTS_AT_ONCE_MAX) requestAnimationFrame(() => this.flush());
      else setTimeout(() => this.flush(), PAUSE_MS);
    }
    this.coming.push(event);
    // Nothing is drawn while nobody looks, and then the frame does not come.
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
