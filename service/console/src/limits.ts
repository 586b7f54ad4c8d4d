// Limits and pauses of task lists: texts, and the actions of operators. Pure functions.
import type { Action } from './actions';
import { type Field, REASON, type Values, WHO } from './fields';
import type { Schemas } from './fold';
import type { TaskList } from './lists';
import { domainPath } from './paths';

export type Group = Schemas['LimitGroup'];
type Behind = Omit<Schemas['WaitsBehind'], 'ahead'> & { ahead?: number | null };
type Limits = Schemas['TaskLimits'];
type Rate = Schemas['StartRate'];
type Key = Schemas['KeyLimits'];

const rateOf = ({ perSecond, burst }: Rate): string => `${perSecond}/s (burst ${burst})`;

/** Describes limits of some tasks: `at most 20 running, at most 5/s (burst 10)`. */
export const limitsOf = ({ maxRunning, rate }: Limits): string =>
  [maxRunning == null ? '' : `at most ${maxRunning} running`, rate ? `at most ${rateOf(rate)}` : '']
    .filter(Boolean)
    .join(', ');

/** Describes a limit that holds tasks of a list back, in the words of `baton workflow show`. */
export function phraseOf({ limit, scope, name, running, max, rate }: Behind, list: string): string {
  const of = scope === 'key' ? `with key ${name} on ${list}` : scope === 'group' ? `in group ${name}` : `on ${name}`;
  if (limit === 'paused') return `${list} is paused`;
  if (limit === 'counting') return `the service counts the running tasks of ${list}`;
  if (running != null && max != null) return `${running} of ${max} running ${of}`;
  if (rate) return `at most ${rateOf(rate)} ${of}`;
  // A newer service may have other limits.
  return `limit ${limit} ${of}`;
}

/** Describes the limits that hold a task of a list back. Empty if the task waits only for a poller. */
export function behindOf(behind: readonly Behind[] | undefined, list: string): string {
  if (!behind || behind.length === 0) return '';
  const each = behind.map(
    (one) => phraseOf(one, list) + (one.ahead ? `, ${one.ahead.toLocaleString('en')} ahead` : ''),
  );
  return `waits behind: ${each.join('; ')}`;
}

/** Describes the tasks that wait behind limits of a list, one text per limit. */
export const heldBack = (list: TaskList): string[] =>
  (list.behind ?? []).map((one) => {
    const tasks = one.waiting === 1 ? '1 waits' : `${one.waiting.toLocaleString('en')} wait`;
    return `${tasks} behind: ${phraseOf(one, list.name)}`;
  });

/** Describes the limits of a list in a few words. */
export function inShort({ limits }: TaskList): string {
  if (!limits) return '';
  const keys = (limits.limits ?? []).length;
  return [
    limits.maxRunning == null ? '' : `${limits.maxRunning} running`,
    limits.rate ? rateOf(limits.rate) : '',
    limits.perKey ? 'per key' : '',
    keys > 0 ? `${keys} key${keys === 1 ? '' : 's'}` : '',
    limits.group ? `group ${limits.group}` : '',
  ]
    .filter(Boolean)
    .join(', ');
}

/** Returns the number of running tasks of a list and, if it is limited, their maximum. */
export function runningOf(list: TaskList): { running: number | undefined; max: number | undefined } {
  const used = (list.uses ?? []).find(({ scope }) => scope === 'list');
  return { running: used?.running ?? list.inFlight ?? undefined, max: list.limits?.maxRunning ?? undefined };
}

/** A limit of a list, as a row of a table. */
export interface LimitRow {
  scope: string;
  /** Name of the list, group or key; absent for the limits of each key. */
  name: string | undefined;
  running: number | undefined;
  max: number | undefined;
  rate: string;
  weight: number;
  /** Number of tasks that wait behind the limit. */
  waiting: number;
}

/** Returns the limits of a list: of the list, its group, each key, and single keys, with their use. */
export function limitRows(list: TaskList): LimitRow[] {
  const { limits } = list;
  const keys = limits?.limits ?? [];
  const rows: LimitRow[] = [];
  const add = (scope: string, name: string | undefined, of: Limits, running: number | undefined): void => {
    if (rows.some((row) => row.scope === scope && row.name === name)) return;
    const held = (list.behind ?? []).filter((one) => one.scope === scope && one.name === name);
    rows.push({
      scope,
      name,
      running,
      max: of.maxRunning ?? undefined,
      rate: of.rate ? rateOf(of.rate) : '',
      weight: (scope === 'key' ? keys.find(({ key }) => key === name)?.weight : undefined) ?? 1,
      waiting: Math.max(0, ...held.map(({ waiting }) => waiting)),
    });
  };
  for (const { scope, name, running, ...of } of list.uses ?? []) if (scope !== 'key') add(scope, name, of, running);
  if (limits?.perKey) add('each key', undefined, limits.perKey, undefined);
  for (const { scope, name, running, ...of } of list.uses ?? []) if (scope === 'key') add(scope, name, of, running);
  for (const { key, ...of } of keys) add('key', key, of, 0);
  for (const { scope, name, running, max, rate } of list.behind ?? [])
    if (scope === 'key') add(scope, name, { maxRunning: max ?? null, rate: rate ?? null }, running ?? undefined);
  return rows;
}

// ---- the form ------------------------------------------------------------------------------------------------------

const KEY_EXPECTED = 'Write KEY=LIMITS, for example visa=20, visa=20,5/s or visa=20,weight:3.';

/** Returns the limits of a key as a line of the form. */
export function lineOfKey({ key, maxRunning, rate, weight }: Key): string {
  const parts = [
    maxRunning == null ? '' : String(maxRunning),
    rate ? `${rate.perSecond}/s` : '',
    // This is the default of the service.
    rate && rate.burst !== Math.max(1, Math.ceil(rate.perSecond)) ? `burst:${rate.burst}` : '',
    weight == null ? '' : `weight:${weight}`,
  ];
  return `${key}=${parts.filter(Boolean).join(',')}`;
}

/** Returns the limits in a line of the form, or `undefined` if it is invalid. */
export function keyOfLine(line: string): Schemas['SetKeyLimits'] | undefined {
  const at = line.lastIndexOf('=');
  if (at < 1) return undefined;
  const of: Schemas['SetKeyLimits'] = { key: line.slice(0, at).trim() };
  let burst: number | undefined;
  for (const part of line.slice(at + 1).split(',')) {
    const [, count, perSecond, bursts, weight] =
      part.trim().match(/^(?:(\d+)|(\d+(?:\.\d+)?)\/s|burst:(\d+)|weight:(\d+))$/) ?? [];
    if (count !== undefined) of.maxRunning = Number(count);
    else if (perSecond !== undefined) of.rate = { perSecond: Number(perSecond) };
    else if (bursts !== undefined) burst = Number(bursts);
    else if (weight !== undefined) of.weight = Number(weight);
    else return undefined;
  }
  if (burst === undefined) return of;
  return of.rate ? { ...of, rate: { ...of.rate, burst } } : undefined;
}

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line.trim() !== '');

/** Returns the fields of limits that some tasks share. `prefix` is the member that contains them. */
function limitFields(prefix: string, of: Limits | null | undefined, part?: string): Field[] {
  const field = (name: string, label: string, initial: number | null | undefined, hint: string): Field => ({
    name: prefix + name,
    label,
    kind: 'number',
    hint,
    ...(part === undefined ? {} : { part }),
    ...(initial == null ? {} : { initial: String(initial) }),
  });
  return [
    field('maxRunning', 'maximum running', of?.maxRunning, 'tasks at the same time; no limit if empty'),
    field('rate.perSecond', 'starts per second', of?.rate?.perSecond, 'for example 5 or 0.5; no limit if empty'),
    field(
      'rate.burst',
      'burst',
      of?.rate?.burst,
      'starts at once after a time without starts; as many as per second if empty',
    ),
  ];
}

/** Returns the fields of the limits of a list. */
export function fieldsOfLimits(limits: Schemas['ListLimits'] | null | undefined, groups: readonly string[]): Field[] {
  const group = limits?.group ?? '';
  const names = [...new Set([...groups, ...(group ? [group] : [])])].sort();
  return [
    ...limitFields('', limits),
    {
      name: 'group',
      label: 'limit group',
      kind: 'choice',
      initial: group,
      choices: [['', 'none'], ...names.map((name): [string, string] => [name, name])],
    },
    ...limitFields('perKey.', limits?.perKey, 'Each concurrency key'),
    {
      name: 'limits',
      label: 'limits of single keys',
      kind: 'lines',
      part: 'Single concurrency keys',
      hint: 'one per line, for example visa=20,0.5/s,weight:3',
      initial: (limits?.limits ?? []).map(lineOfKey).join('\n'),
      check: (text) => (linesOf(text).every((line) => keyOfLine(line)) ? undefined : KEY_EXPECTED),
      json: (text) => JSON.stringify(linesOf(text).map(keyOfLine)),
    },
  ];
}

/** Returns the actions for a task list. */
export function actionsOfList(domain: string, list: TaskList, groups: readonly string[]): Action[] {
  const { name } = list;
  const path = (what: string): Action['path'] => {
    return () => `${domainPath(domain)}/task-lists/${encodeURIComponent(name)}/${list.kind}/${what}`;
  };
  const of = list.kind === 'decider' ? 'deciders' : 'runners';
  return [
    {
      name: 'limit',
      label: list.limits ? 'Change limits' : 'Set limits',
      title: `Limits of ${name}`,
      says: `Replaces the limits of the list of ${of}. Running tasks are not stopped.`,
      does: 'Set limits',
      method: 'PUT',
      fields: fieldsOfLimits(list.limits, groups),
      path: path('limits'),
    },
    ...(list.limits
      ? [
          {
            name: 'limit',
            label: 'Remove limits',
            title: `Remove the limits of ${name}`,
            says: `Removes all limits of the list of ${of}, and takes it out of its group.`,
            does: 'Remove limits',
            method: 'PUT' as const,
            isGrave: true,
            fields: [],
            path: path('limits'),
          },
        ]
      : []),
    list.paused
      ? {
          name: 'resume',
          label: 'Resume',
          title: `Resume ${name}`,
          says: `Makes the tasks of the list available to ${of} again.${list.paused.stopClocks ? ' Their schedule-to-start timeouts continue.' : ''}`,
          does: 'Resume',
          fields: [],
          path: path('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${name}`,
          says: `Hands out no tasks to ${of} until the list is resumed. Running tasks continue, and so do timeouts, unless you stop them.`,
          does: 'Pause',
          fields: [
            { name: 'stopClocks', label: 'also stop schedule-to-start timeouts of waiting tasks', kind: 'flag' },
            { ...REASON, hint: 'shown with the list' },
            { ...WHO, hint: 'shown with the list' },
          ],
          path: path('pause'),
        },
  ];
}

const pathOfGroup = (domain: string, name: string): string =>
  `${domainPath(domain)}/limit-groups/${encodeURIComponent(name)}`;

/** Returns the action that creates a limit group. */
export const newGroup = (domain: string): Action => ({
  name: 'limit',
  label: 'Create limit group',
  title: 'Create limit group',
  says: 'The task lists of a group share its limits. A group needs at least one limit.',
  does: 'Create',
  method: 'PUT',
  fields: [{ name: '/name', label: 'name', kind: 'line', isRequired: true }, ...limitFields('', undefined)],
  path: (values: Values) => pathOfGroup(domain, values['/name']?.trim() ?? ''),
});

/** Returns the actions for a limit group. */
export const actionsOfGroup = (domain: string, group: Group): Action[] => [
  {
    name: 'limit',
    label: 'Change limits',
    title: `Limits of group ${group.name}`,
    says: 'Replaces the limits that the task lists of the group share. Running tasks are not stopped.',
    does: 'Set limits',
    method: 'PUT',
    fields: limitFields('', group),
    path: () => pathOfGroup(domain, group.name),
  },
  {
    name: 'limit',
    label: 'Delete',
    title: `Delete group ${group.name}`,
    says: 'Deletes the group. Take its task lists out of the group first.',
    does: 'Delete',
    method: 'DELETE',
    isGrave: true,
    fields: [],
    path: () => pathOfGroup(domain, group.name),
  },
];
