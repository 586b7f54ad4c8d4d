// The same done to many runs: what is asked for, and the work itself, which can be stopped and goes on where it was.
// It draws nothing, and asks for nothing by itself: requests are given to it.
import { signal } from '@preact/signals';
import { type Problem, problemOf } from './api';
import { type Field, REASON, type Values, WHO, payload } from './fields';
import { type Filter, OUTCOMES } from './filter';
import { workflowPath } from './paths';

/** A run, as far as it matters here. */
export interface Target {
  workflowId: string;
  runId: string;
}

export interface BulkAction {
  name: 'cancel' | 'terminate' | 'signal';
  label: string;
  /** Before the number of runs. */
  verb: string;
  says: string;
  /** What was done to those that it was done to. */
  done: string;
  isGrave?: boolean;
  fields: Field[];
}

export const BULK_ACTIONS: BulkAction[] = [
  {
    name: 'signal',
    label: 'Signal',
    verb: 'Signal',
    says: 'Records the signal in each run. The decider of each sees it in its next turn.',
    done: 'signaled',
    fields: [{ name: '/name', label: 'signal', kind: 'line', isRequired: true }, payload('input', 'input'), WHO],
  },
  {
    name: 'cancel',
    label: 'Request cancel',
    verb: 'Request cancel of',
    says: 'Asks the decider of each run to end it. The decider decides how.',
    done: 'asked to cancel',
    fields: [REASON, WHO],
  },
  {
    name: 'terminate',
    label: 'Terminate',
    verb: 'Terminate',
    says: 'Ends the runs immediately, without asking their deciders. Open activities and timers are abandoned; children follow their child policy.',
    done: 'terminated',
    isGrave: true,
    fields: [REASON, payload('details', 'details'), WHO],
  },
];

/** Returns the path of the request for one run. */
export function pathOfBulk(action: BulkAction, domain: string, { workflowId, runId }: Target, values: Values): string {
  const what = action.name === 'signal' ? `signals/${encodeURIComponent(values['/name']?.trim() ?? '')}` : action.name;
  return `${workflowPath(domain, workflowId)}/${what}?runId=${encodeURIComponent(runId)}`;
}

/**
 * Returns the filter of the open runs among those that match, as nothing can be done to closed ones; `undefined` where all are closed.
 * The order is not kept: newest first, those that start meanwhile are not come to.
 */
export function openOf({ order: _, ...filter }: Filter): Filter | undefined {
  if (filter.status === 'closed' || (OUTCOMES as readonly string[]).includes(filter.status ?? '')) return undefined;
  if (filter.closedFrom || filter.closedBefore) return undefined;
  return { ...filter, status: filter.status ?? 'open' };
}

/** Ours: requests under way at a time. A browser has six connections to a service without HTTP/2, and other windows want some. */
const AT_ONCE = 4;

/** Codes that say that the run is another one by now than the list showed: no error, and nothing to do again. */
const CHANGED: ReadonlySet<string> = new Set(['run-closed', 'run-not-current', 'unknown-run', 'unknown-workflow']);
/** Statuses that would be the same for every run: no answer, not allowed, too much. The work stops, and can go on later. */
const FOR_ALL: ReadonlySet<number> = new Set([0, 401, 403, 429, 502, 503]);

export interface Failed {
  target: Target;
  problem: Problem;
}

export type Stage = 'planned' | 'working' | 'stopping' | 'stopped' | 'done';

/** Work on many runs. Each request has a key of the run's own, the same whenever it is made: what was done is not done twice. */
export class Work {
  readonly stage = signal<Stage>('planned');
  readonly done = signal(0);
  readonly changed = signal<Failed[]>([]);
  readonly failed = signal<Failed[]>([]);
  /** Why it has stopped by itself. */
  readonly problem = signal<Problem | undefined>(undefined);
  private waiting: Target[] = [];
  private hasAll = false;
  private reading: Promise<void> | undefined;

  constructor(
    /** Gives the next runs; none at the end. */
    private readonly next: () => Promise<Target[]>,
    private readonly send: (target: Target, key: string) => Promise<unknown>,
    private readonly key: string,
  ) {}

  /** Works until all is done, or until it is stopped; called again, it goes on where it was. */
  async go(): Promise<void> {
    if (this.isWorking) return;
    this.stage.value = 'working';
    this.problem.value = undefined;
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.work()));
    this.stage.value = this.isStopping ? 'stopped' : 'done';
  }

  private get isWorking(): boolean {
    return this.stage.value === 'working' || this.stage.value === 'stopping';
  }
  private get isStopping(): boolean {
    return this.stage.value === 'stopping';
  }

  /** Begins no further request. Those under way come to their ends. */
  stop(): void {
    if (this.stage.value === 'working') this.stage.value = 'stopping';
  }

  /** Does once more what has failed. */
  again(): Promise<void> {
    this.waiting.push(...this.failed.value.map(({ target }) => target));
    this.failed.value = [];
    return this.go();
  }

  private async work(): Promise<void> {
    for (;;) {
      if (this.isStopping) return;
      const target = await this.take();
      if (!target) return;
      if (this.isStopping) {
        this.waiting.unshift(target);
        return;
      }
      try {
        await this.send(target, `${this.key}-${target.runId}`);
        this.done.value++;
      } catch (error) {
        const problem = problemOf(error);
        if (FOR_ALL.has(problem.status)) {
          this.waiting.unshift(target);
          this.problem.value = problem;
          this.stop();
        } else {
          const kind = CHANGED.has(problem.code) ? this.changed : this.failed;
          kind.value = [...kind.value, { target, problem }];
        }
      }
    }
  }

  /** Takes the next run; one worker at a time reads more of them. */
  private async take(): Promise<Target | undefined> {
    while (this.waiting.length === 0 && !this.hasAll && !this.isStopping) {
      this.reading ??= this.read().finally(() => {
        this.reading = undefined;
      });
      await this.reading;
    }
    return this.waiting.shift();
  }

  private async read(): Promise<void> {
    try {
      const targets = await this.next();
      this.waiting.push(...targets);
      this.hasAll = targets.length === 0;
    } catch (error) {
      this.problem.value = problemOf(error);
      this.stop();
    }
  }
}
