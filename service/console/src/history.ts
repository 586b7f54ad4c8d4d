// A history as the four views show it: what is here of it, and what is folded of that. `Run` follows one of the service's.
import { computed, signal } from '@preact/signals';
import type { Problem } from './api';
import { Row, effectsIn, timeOf, turnsByEvent, turnsOf } from './fold';
import { textOf } from './raw';
import type { Described } from './words';

export type Connection = 'loading' | 'live' | 'closed' | 'lost' | 'gone';

export class History {
  /** What the service says of the run; nothing of a recorded one. */
  readonly described = signal<Described | undefined>(undefined);
  readonly row = signal(new Row([]));
  readonly connection = signal<Connection>('loading');
  readonly problem = signal<Problem | undefined>(undefined);
  /** The newest event that is known to be there. */
  readonly lastId = signal(0);
  /** Whether the events that are here are some from the middle: the newest are not among them. */
  readonly isElsewhere = computed(() => this.row.value.events.length > 0 && this.row.value.last < this.lastId.value);
  readonly turns = computed(() => turnsOf(this.row.value));
  readonly turnOf = computed(() => turnsByEvent(this.turns.value));
  readonly effects = computed(() => effectsIn(this.row.value));
  /** Whether it was read from a file: nobody can say how the run stands now. */
  readonly isRecorded: boolean = true;

  constructor(
    readonly domain: string,
    readonly workflowId: string,
    public runId: string | undefined,
  ) {}

  /** The whole history as JSON, in parts; `read` hears how many events there are so far. */
  async whole(_read: (events: number) => void): Promise<Blob[]> {
    const events = this.row.value.events.map((event) => textOf(event));
    return [new Blob(['{"events": [\n', events.join(',\n'), '\n]}\n'])];
  }

  /** The event with which a turn of the whole history begins; `looked` hears how far the look for it has come. */
  async findTurn(number: number, _looked: (id: number) => void): Promise<number | undefined> {
    return this.turns.value[number - 1]?.scheduled.id;
  }

  /** The first event that happened at this instant or later. */
  async findTime(at: number): Promise<number | undefined> {
    return this.row.value.events.find((event) => timeOf(event) >= at)?.id;
  }

  // What is recorded is all here.
  async readEarlier(): Promise<void> {}
  async readLater(): Promise<void> {}
  async goTo(_id: number): Promise<void> {}
  async goToNewest(): Promise<void> {}
}
