// The loaded part of a history, and what is computed from it, for the views of a run. The subclass `Run` follows a run
// of the service.
import { computed, signal } from '@preact/signals';
import type { Problem } from './api';
import { Row, effectsIn, timeOf, turnsByEvent, turnsOf } from './fold';
import { textOf } from './raw';
import type { Described } from './words';

export type Connection = 'loading' | 'live' | 'closed' | 'lost' | 'gone';

export class History {
  /** Description of the run by the service. `undefined` for a recorded history. */
  readonly described = signal<Described | undefined>(undefined);
  readonly row = signal(new Row([]));
  readonly connection = signal<Connection>('loading');
  readonly problem = signal<Problem | undefined>(undefined);
  /** Id of the newest event that is known to exist. */
  readonly lastId = signal(0);
  /** True if the newest events are not loaded. */
  readonly isElsewhere = computed(() => this.row.value.events.length > 0 && this.row.value.last < this.lastId.value);
  readonly turns = computed(() => turnsOf(this.row.value));
  readonly turnOf = computed(() => turnsByEvent(this.turns.value));
  readonly effects = computed(() => effectsIn(this.row.value));
  /** True if the history was read from a file. The current state of the run is then unknown. */
  readonly isRecorded: boolean = true;

  constructor(
    readonly domain: string,
    readonly workflowId: string,
    public runId: string | undefined,
  ) {}

  /** Returns the whole history as JSON, in parts. `read` is called with the number of events read so far. */
  async whole(_read: (events: number) => void): Promise<Blob[]> {
    const events = this.row.value.events.map((event) => textOf(event));
    return [new Blob(['{"events": [\n', events.join(',\n'), '\n]}\n'])];
  }

  /**
   * Returns the first event of a turn of the whole history. `looked` is called with the id of the last event searched.
   */
  async findTurn(number: number, _looked: (id: number) => void): Promise<number | undefined> {
    return this.turns.value[number - 1]?.scheduled.id;
  }

  /** Returns the first event at or after this instant. */
  async findTime(at: number): Promise<number | undefined> {
    return this.row.value.events.find((event) => timeOf(event) >= at)?.id;
  }

  // A recorded history is loaded completely.
  async readEarlier(): Promise<void> {}
  async readLater(): Promise<void> {}
  async goTo(_id: number): Promise<void> {}
  async goToNewest(): Promise<void> {}
}
