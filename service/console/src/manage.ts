// Actions on schedules, types and domains. Pure functions.
import type { Action } from './actions';
import { ACTIVITY_TIMEOUTS, DURATION, type Field, REASON } from './fields';
import { domainPath } from './paths';

const OVERLAPS: [string, string][] = [
  ['', 'as defined in the schedule'],
  ['skip', 'start nothing'],
  ['buffer-one', 'buffer one start'],
  ['buffer-all', 'buffer all starts'],
  ['cancel-other', 'request cancel of the open run'],
  ['terminate-other', 'terminate the open run'],
  ['allow-all', 'run in parallel'],
];
const OVERLAP: Field = { name: 'overlap', label: 'if a run is still open', kind: 'choice', choices: OVERLAPS };

/** Returns the actions for a schedule. */
export function actionsOfSchedule(domain: string, id: string, isPaused: boolean): Action[] {
  const path = (what: string): Action['path'] => {
    return () => `${domainPath(domain)}/schedules/${encodeURIComponent(id)}/${what}`;
  };
  return [
    {
      name: 'trigger',
      label: 'Trigger',
      title: `Trigger ${id}`,
      says: `Starts a run now, in addition to the scheduled ones${isPaused ? ', although the schedule is paused' : ''}.`,
      does: 'Trigger',
      fields: [OVERLAP],
      path: path('trigger'),
    },
    {
      name: 'backfill',
      label: 'Backfill',
      title: `Backfill ${id}`,
      says: 'Starts a run for each scheduled time in this period, both ends included, at most 1,000. Times that already had a run get another one.',
      does: 'Backfill',
      fields: [
        { name: 'from', label: 'from', kind: 'line', isRequired: true, hint: 'for example 2026-11-22T10:00:00Z' },
        { name: 'to', label: 'to', kind: 'line', isRequired: true, hint: 'for example 2026-11-22T18:00:00Z' },
        OVERLAP,
      ],
      path: path('backfill'),
    },
    isPaused
      ? {
          name: 'resume',
          label: 'Resume',
          title: `Resume ${id}`,
          says: 'Starts runs at the scheduled times again.',
          does: 'Resume',
          fields: [],
          path: path('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${id}`,
          says: 'Starts no runs until the schedule is resumed. Runs that it has started continue.',
          does: 'Pause',
          fields: [{ ...REASON, hint: 'shown with the schedule' }],
          path: path('pause'),
        },
  ];
}

/** Kinds of types: of workflows, and of activities. */
export type KindOfType = 'workflow' | 'activity';

/** Returns the action that registers a type. */
export function registerType(domain: string, kind: KindOfType): Action {
  const wait = (name: string, label: string): Field => ({ name, label, kind: 'line', hint: DURATION });
  return {
    name: 'register',
    label: 'Register type',
    title: kind === 'workflow' ? 'Register workflow type' : 'Register activity type',
    says: `Sets the defaults of this type, for ${
      kind === 'workflow' ? 'starts' : 'decisions'
    } that omit a value. A type with a version is named name/version.`,
    does: 'Register',
    fields: [
      { name: 'name', label: 'name', kind: 'line', isRequired: true },
      { name: 'version', label: 'version', kind: 'line' },
      { name: 'description', label: 'description', kind: 'line' },
      { name: 'defaults.taskList', label: 'task list', kind: 'line' },
      ...(kind === 'workflow'
        ? [
            wait('defaults.executionTimeout', 'execution timeout'),
            wait('defaults.deciderStartToClose', 'turn timeout'),
            {
              name: 'defaults.childPolicy',
              label: 'children that are open when the run closes',
              kind: 'choice' as const,
              choices: [
                ['', 'no default'],
                ['terminate', 'terminate'],
                ['request-cancel', 'request cancel'],
                ['abandon', 'abandon (they continue)'],
              ] as [string, string][],
            },
          ]
        : ACTIVITY_TIMEOUTS.map(([name, label]) => wait(`defaults.timeouts.${name}`, label))),
    ],
    path: () => `${domainPath(domain)}/${kind}-types`,
  };
}

/** Returns the actions for a type. */
export function actionsOfType(domain: string, kind: KindOfType, type: string, isDeprecated: boolean): Action[] {
  const path = (what: string): Action['path'] => {
    return () => `${domainPath(domain)}/${kind}-types/${encodeURIComponent(type)}/${what}`;
  };
  return [
    isDeprecated
      ? {
          name: 'undeprecate',
          label: 'Undeprecate',
          title: `Undeprecate ${type}`,
          says: `Allows new ${kind === 'workflow' ? 'runs' : 'activities'} of this type again.`,
          does: 'Undeprecate',
          fields: [],
          path: path('undeprecate'),
        }
      : {
          name: 'deprecate',
          label: 'Deprecate',
          title: `Deprecate ${type}`,
          says: `Prevents new ${kind === 'workflow' ? 'runs' : 'activities'} of this type. Existing ones continue.`,
          does: 'Deprecate',
          isGrave: true,
          fields: [],
          path: path('deprecate'),
        },
  ];
}

/** Action that registers a domain. */
export const REGISTER_DOMAIN: Action = {
  name: 'register',
  label: 'Register domain',
  title: 'Register domain',
  says: 'A domain has separate runs, types, schedules and task lists.',
  does: 'Register',
  fields: [
    { name: 'name', label: 'name', kind: 'line', isRequired: true },
    { name: 'description', label: 'description', kind: 'line' },
    { name: 'retention', label: 'retention of closed runs', kind: 'line', hint: DURATION },
  ],
  path: () => '/v1/domains',
};

/** Returns the actions for a domain. */
export function actionsOfDomain(domain: string, isDeprecated: boolean): Action[] {
  return [
    isDeprecated
      ? {
          name: 'undeprecate',
          label: 'Undeprecate',
          title: `Undeprecate ${domain}`,
          says: 'Allows starting runs and registering types in this domain again.',
          does: 'Undeprecate',
          fields: [],
          path: () => `${domainPath(domain)}/undeprecate`,
        }
      : {
          name: 'deprecate',
          label: 'Deprecate',
          title: `Deprecate ${domain}`,
          says: 'Prevents starting runs and registering types in this domain. Open runs continue.',
          does: 'Deprecate',
          isGrave: true,
          fields: [],
          path: () => `${domainPath(domain)}/deprecate`,
        },
  ];
}
