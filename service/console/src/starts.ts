// Starting a new run, or another run like an existing run. Pure functions.
import type { Action } from './actions';
import { DURATION, type Field, WHO, payload, retryFields } from './fields';
import type { EventOf } from './fold';
import { domainPath } from './paths';
import { rawMembers } from './raw';

/** Initial values of a start. `input` is JSON as it was sent. */
export type Start = Partial<Omit<EventOf<'WorkflowStarted'>, 'input'>> & { workflowId?: string; input?: string };

const MORE = 'Timeouts and tags';
const IDS = 'Workflow id conflicts';

/** Returns the action that starts a run. `offers` are suggested workflow types. */
export function startAction(domain: string, like: Start, offers: string[] = []): Action {
  const line = (name: string, label: string, initial: string | null | undefined, more: Partial<Field> = {}): Field => ({
    name,
    label,
    kind: 'line',
    ...(initial ? { initial } : {}),
    ...more,
  });
  const wait = (name: string, label: string, initial: string | null | undefined): Field =>
    line(name, label, initial, { hint: DURATION, part: MORE });
  const timeouts = like.activityTimeouts ?? {};
  return {
    name: 'start',
    label: 'Start run',
    title: 'Start run',
    says: 'Starts a run. Its first turn waits in the task list for a decider.',
    does: 'Start',
    fields: [
      line('workflowId', 'workflow id', like.workflowId, { isRequired: true }),
      line('workflowType', 'workflow type', like.workflowType, { isRequired: true, offers }),
      line('taskList', 'task list', like.taskList, { hint: 'if empty, the default of the type, or “default”' }),
      { ...payload('input', 'input'), ...(like.input ? { initial: like.input } : {}) },
      {
        name: 'tags',
        label: 'tags',
        kind: 'lines',
        hint: 'one per line',
        part: MORE,
        initial: like.tags?.join('\n') ?? '',
      },
      wait('startAfter', 'delay of the first turn', like.startAfter),
      wait('executionTimeout', 'execution timeout', like.executionTimeout),
      wait('runTimeout', 'run timeout', like.runTimeout),
      wait('deciderStartToClose', 'turn timeout', like.deciderStartToClose),
      wait('deciderScheduleToStart', 'turn schedule-to-start timeout', like.deciderScheduleToStart),
      wait('activityTimeouts.scheduleToStart', 'activity schedule-to-start timeout', timeouts.scheduleToStart),
      wait('activityTimeouts.startToClose', 'activity start-to-close timeout', timeouts.startToClose),
      wait('activityTimeouts.scheduleToClose', 'activity schedule-to-close timeout', timeouts.scheduleToClose),
      wait('activityTimeouts.heartbeat', 'activity heartbeat timeout', timeouts.heartbeat),
      wait('retention', 'retention', like.retention),
      {
        ...line('taskPriority', 'priority', like.taskPriority == null ? undefined : String(like.taskPriority)),
        kind: 'number',
        part: MORE,
      },
      ...retryFields(like.retry, 'workflow', false),
      {
        name: 'conflictPolicy',
        label: 'if a run with this id is open',
        kind: 'choice',
        part: IDS,
        choices: [
          ['', 'refuse the start'],
          ['use-existing', 'use that run'],
          ['terminate-existing', 'terminate that run first'],
        ],
      },
      {
        name: 'reusePolicy',
        label: 'if a run with this id has closed',
        kind: 'choice',
        part: IDS,
        choices: [
          ['', 'start only after a failure'],
          ['allow-duplicate', 'start'],
          ['reject-duplicate', 'refuse the start'],
        ],
      },
      WHO,
    ],
    path: () => `${domainPath(domain)}/workflows`,
    leadsOn: true,
  };
}

/**
 * Returns the action that starts another run like this one. `answer` contains the first event of this run, as the
 * service sent it.
 */
export function anotherLike(domain: string, workflowId: string, answer: string): Action {
  const events = rawMembers(answer).get('events') ?? '[]';
  const first = rawMembers(events).get('0') ?? '{}';
  const started = JSON.parse(first) as EventOf<'WorkflowStarted'>;
  const { input: _, ...rest } = started;
  const input = rawMembers(first).get('input');
  return {
    ...startAction(domain, { ...rest, workflowId: anotherId(workflowId), ...(input === undefined ? {} : { input }) }),
    name: 'another',
    title: `Start run similar to ${workflowId}`,
    says: 'Starts a run with the values that this run was started with, and a new id.',
  };
}

/** Returns a workflow id for another run: `a`, `a-again`, `a-again-2`. */
export function anotherId(id: string): string {
  const again = id.match(/^(.*-again)(?:-(\d+))?$/s);
  return again ? `${again[1]}-${Number(again[2] ?? 1) + 1}` : `${id}-again`;
}
