// An action on selected runs: its fields, and the work, which can be stopped and continued. This module draws nothing,
// and sends requests only through functions that are passed to it.
import { signal } from '@preact/signals';
import { type Problem, problemOf } from './api';
import { type Field, REASON, type Values, WHO, payload } from './fields';
import { workflowPath } from './paths';

/** Identifies a run. */
export interface Target {
  workflowId: string;
  runId: string;
}

export interface BulkAction {
  name: 'cancel' | 'terminate' | 'signal';
  label: string;
  /** Text before the number of runs. */
  verb: string;
  says: string;
  /** Participle that describes runs for which the action succeeded. */
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
 * Maximum number of concurrent requests. Our choice: a browser opens six connections to a service without HTTP/2, and
 * other windows need some of them.
 */
const AT_ONCE = 4;

/** Codes that mean that the run has changed since it was listed. They are not errors, and a retry would not help. */
const CHANGED: ReadonlySet<string> = new Set(['run-closed', 'run-not-current', 'unknown-run', 'unknown-workflow']);
/**
 * Statuses that would be the same for every run: no response, not allowed, or too many requests. The work stops, and
 * can be continued later.
 */
const FOR_ALL: ReadonlySet<number> = new Set([0, 401, 403, 429, 502, 503]);

export interface Failed {
  target: Target;
  problem: Problem;
}

export type Stage = 'planned' | 'working' | 'stopping' | 'stopped' | 'done';

/** Work on many runs. A repeated request for a run has the same idempotency key, so it takes effect only once. */
export class Work {
  readonly stage = signal<Stage>('planned');
  readonly done = signal(0);
  readonly changed = signal<Failed[]>([]);
  readonly failed = signal<Failed[]>([]);
  /** Reason why the work has stopped by itself. */
  readonly problem = signal<Problem | undefined>(undefined);
  private waiting: Target[] = [];
  private hasAll = false;
  private reading: Promise<void> | undefined;

  constructor(
    /** Returns the next runs, or none at the end. */
    private readonly next: () => Promise<Target[]>,
    private readonly send: (target: Target, key: string) => Promise<unknown>,
    private readonly key: string,
  ) {}

  /** Works until everything is done or `stop` is called. Another call continues the work. */
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

  /** Stops sending requests. Requests in progress are completed. */
  stop(): void {
    if (this.stage.value === 'working') this.stage.value = 'stopping';
  }

  /** Retries the requests that have failed. */
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

  /** Takes the next run. If none is left, reads more runs; only one worker reads at a time. */
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
