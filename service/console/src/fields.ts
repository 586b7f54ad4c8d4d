// Fields of a dialog, their validation, and the body created from them. Pure functions.
import type { Schemas } from './fold';

export interface Field {
  /** Name in the body. `timeouts.heartbeat` is a member of `timeouts`, and `/name` is a part of the path. */
  name: string;
  label: string;
  /** A field of kind `lines` contains one text per line. A `number` is sent as it was typed. */
  kind: 'line' | 'json' | 'choice' | 'flag' | 'number' | 'lines';
  hint?: string;
  isRequired?: boolean;
  choices?: [value: string, label: string][];
  /** Suggested values. */
  offers?: string[];
  initial?: string;
  /**
   * True if `initial` is the current value. The field is then sent only if it, or another field of its group, was
   * changed.
   */
  isKept?: boolean;
  /** Returns the error of a value that is not empty, if it has one. */
  check?: (value: string) => string | undefined;
  /** Returns the JSON of a value, if it differs from that of the kind. */
  json?: (value: string) => string;
  /** Collapsible part of the dialog that contains the field. */
  part?: string;
}
export type Values = Record<string, string>;

export const REASON: Field = { name: 'reason', label: 'reason', kind: 'line', hint: 'recorded in the history' };
export const WHO: Field = { name: 'identity', label: 'your name', kind: 'line', hint: 'recorded in the history' };
export const DURATION = 'for example 30s, 1h 30m or 7d';
/** Timeouts of activities: their names in the API, and their labels. */
export const ACTIVITY_TIMEOUTS = [
  ['scheduleToStart', 'schedule-to-start timeout'],
  ['startToClose', 'start-to-close timeout'],
  ['scheduleToClose', 'schedule-to-close timeout'],
  ['heartbeat', 'heartbeat timeout'],
] as const;
export const payload = (name: string, label: string): Field => ({
  name,
  label,
  kind: 'json',
  hint: 'JSON, for example {"ok": true} or "text"; optional',
});

const groupOf = (name: string): string => name.split('.')[0] ?? '';
const typed = (values: Values, name: string): string => values[name]?.trim() ?? '';

/** Returns the errors of the fields, by name. The result is empty if the action can be sent. */
export function lackOf(fields: readonly Field[], values: Values): Values {
  const lack: Values = {};
  for (const { name, kind, isRequired, check } of fields) {
    const value = typed(values, name);
    if (value === '') {
      if (isRequired) lack[name] = 'Required.';
    } else if (check) {
      const problem = check(value);
      if (problem) lack[name] = problem;
    } else if (kind === 'json') {
      try {
        JSON.parse(value);
      } catch {
        lack[name] = `Not valid JSON. Put text in quotes: ${JSON.stringify(value).slice(0, 60)}`;
      }
    } else if (kind === 'number' && !/^-?(0|[1-9]\d*)(\.\d+)?$/.test(value)) {
      lack[name] = 'Not a number.';
    }
  }
  return lack;
}

/** Returns the body. Payloads are inserted as they were typed, because the service stores them byte for byte. */
export function bodyOf(fields: readonly Field[], values: Values): string {
  const changed = new Set(
    fields
      .filter(
        ({ name, isKept, initial, choices }) => isKept && typed(values, name) !== (initial ?? choices?.[0]?.[0] ?? ''),
      )
      .map(({ name }) => groupOf(name)),
  );
  const body: Members = new Map();
  for (const { name, kind, isKept, json } of fields) {
    const value = typed(values, name);
    if (name.startsWith('/') || value === '' || (isKept && !changed.has(groupOf(name)))) continue;
    const path = name.split('.');
    const last = path.pop() ?? '';
    let members = body;
    for (const group of path) {
      const inner = members.get(group) ?? new Map();
      members.set(group, inner);
      members = inner as Members;
    }
    members.set(last, json?.(value) ?? textOf(kind, value));
  }
  return written(body);
}

/** Members of an object. Each is JSON text or has members. */
type Members = Map<string, string | Members>;

function written(members: Members): string {
  const all = [...members].map(([name, value]) => {
    return `${JSON.stringify(name)}:${typeof value === 'string' ? value : written(value)}`;
  });
  return `{${all.join(',')}}`;
}

function textOf(kind: Field['kind'], value: string): string {
  switch (kind) {
    case 'json':
    case 'number':
      return value;
    case 'flag':
      return 'true';
    case 'lines':
      return JSON.stringify(linesOf(value));
    case 'line':
    case 'choice':
      return JSON.stringify(value);
  }
}

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

export const initialOf = (fields: readonly Field[]): Values =>
  Object.fromEntries(fields.map(({ name, initial, choices }) => [name, initial ?? choices?.[0]?.[0] ?? '']));

export type Retry = Schemas['RetryPolicyOutput'];

/**
 * Returns the fields of a retry policy. With `isKept`, the policy is sent only if a field was changed, and then as a
 * whole, as the API requires.
 */
export function retryFields(retry: Retry | null | undefined, of: 'activity' | 'workflow', isKept: boolean): Field[] {
  const field = (name: keyof Retry, label: string, kind: Field['kind'], initial: unknown, hint?: string): Field => ({
    name: `retry.${name}`,
    label,
    kind,
    part: 'Retry policy',
    ...(hint ? { hint } : {}),
    ...(initial == null || initial === '' ? {} : { initial: String(initial) }),
    ...(isKept ? { isKept } : {}),
  });
  return [
    field('initialInterval', 'initial interval', 'line', retry?.initialInterval, DURATION),
    field('backoffCoefficient', 'backoff factor', 'number', retry?.backoffCoefficient, 'default 2'),
    field('maximumInterval', 'maximum interval', 'line', retry?.maximumInterval),
    field('maximumAttempts', 'maximum attempts', 'number', retry?.maximumAttempts, 'unlimited if empty'),
    field(
      'nonRetryableReasons',
      'non-retryable reasons',
      'lines',
      retry?.nonRetryableReasons?.join('\n'),
      'one per line',
    ),
    field('jitter', 'jitter', 'number', retry?.jitter || undefined, 'random share of each interval, 0 to 1'),
    ...(of === 'activity'
      ? [
          {
            ...field('whenExhausted', 'when attempts are exhausted', 'choice', retry?.whenExhausted ?? 'fail'),
            choices: [
              ['fail', 'fail the activity'],
              ['pause', 'pause it for an operator'],
            ] as [string, string][],
          },
        ]
      : []),
  ];
}
