// What can be done by hand with what is no run: schedules, types, domains. Pure.
import type { Action } from './actions';
import { DURATION, type Field, REASON } from './fields';
import { domainPath } from './paths';

const OVERLAPS: [string, string][] = [
  ['', 'as the schedule says'],
  ['skip', 'nothing is started'],
  ['buffer-one', 'one waits'],
  ['buffer-all', 'all wait'],
  ['cancel-other', 'the open run is asked to cancel'],
  ['terminate-other', 'the open run is terminated'],
  ['allow-all', 'they run beside each other'],
];
const OVERLAP: Field = { name: 'overlap', label: 'while a run of it is open', kind: 'choice', choices: OVERLAPS };

/** Returns what can be done with a schedule. */
export function actionsOfSchedule(domain: string, id: string, isPaused: boolean): Action[] {
  const path = (what: string): Action['path'] => {
    return () => `${domainPath(domain)}/schedules/${encodeURIComponent(id)}/${what}`;
  };
  return [
    {
      name: 'trigger',
      label: 'Trigger',
      title: `Trigger ${id}`,
      says: `It starts a run now, beside those at its times${isPaused ? ', although it is paused' : ''}.`,
      does: 'Trigger',
      fields: [OVERLAP],
      path: path('trigger'),
    },
    {
      name: 'backfill',
      label: 'Backfill',
      title: `Backfill ${id}`,
      says: 'It starts a run for each of its times in this span, both ends included, 1,000 at most; also for those that had one.',
      does: 'Backfill',
      fields: [
        { name: 'from', label: 'from', kind: 'line', isRequired: true, hint: 'such as 2026-11-22T10:00:00Z' },
        { name: 'to', label: 'to', kind: 'line', isRequired: true, hint: 'such as 2026-11-22T18:00:00Z' },
        OVERLAP,
      ],
      path: path('backfill'),
    },
    isPaused
      ? {
          name: 'resume',
          label: 'Resume',
          title: `Resume ${id}`,
          says: 'It starts runs at its times again.',
          does: 'Resume',
          fields: [],
          path: path('resume'),
        }
      : {
          name: 'pause',
          label: 'Pause',
          title: `Pause ${id}`,
          says: 'It starts nothing until it is resumed. Runs that it has started go on.',
          does: 'Pause',
          fields: [{ ...REASON, hint: 'is shown with the schedule' }],
          path: path('pause'),
        },
  ];
}

/** Types of workflows, and of activities. */
export type KindOfType = 'workflow' | 'activity';

/** Registers a type. */
export function registerType(domain: string, kind: KindOfType): Action {
  const wait = (name: string, label: string): Field => ({ name, label, kind: 'line', hint: DURATION });
  return {
    name: 'register',
    label: 'Register a type',
    title: `Register a type of ${kind === 'workflow' ? 'workflows' : 'activities'}`,
    says: `What ${
      kind === 'workflow' ? 'a start' : 'a decision'
    } of this type leaves out is as it is said here. A type with a version is named name/version.`,
    does: 'Register',
    fields: [
      { name: 'name', label: 'name', kind: 'line', isRequired: true },
      { name: 'version', label: 'version', kind: 'line' },
      { name: 'description', label: 'description', kind: 'line' },
      { name: 'defaults.taskList', label: 'task list', kind: 'line' },
      ...(kind === 'workflow'
        ? [
            wait('defaults.executionTimeout', 'execution timeout'),
            wait('defaults.deciderStartToClose', 'time of a turn'),
            {
              name: 'defaults.childPolicy',
              label: 'children that are open when it closes',
              kind: 'choice' as const,
              choices: [
                ['', 'not said'],
                ['terminate', 'are terminated'],
                ['request-cancel', 'are asked to cancel'],
                ['abandon', 'go on'],
              ] as [string, string][],
            },
          ]
        : ['scheduleToStart', 'startToClose', 'scheduleToClose', 'heartbeat'].map((name) =>
            wait(`defaults.timeouts.${name}`, name),
          )),
    ],
    path: () => `${domainPath(domain)}/${kind}-types`,
  };
}

/** Returns what can be done with a type. */
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
          says: 'It can be started again.',
          does: 'Undeprecate',
          fields: [],
          path: path('undeprecate'),
        }
      : {
          name: 'deprecate',
          label: 'Deprecate',
          title: `Deprecate ${type}`,
          says: 'Nothing new of this type begins. What has begun goes on.',
          does: 'Deprecate',
          isGrave: true,
          fields: [],
          path: path('deprecate'),
        },
  ];
}

/** Makes a domain. */
export const REGISTER_DOMAIN: Action = {
  name: 'register',
  label: 'Register a domain',
  title: 'Register a domain',
  says: 'Runs, types and schedules of a domain are its own.',
  does: 'Register',
  fields: [
    { name: 'name', label: 'name', kind: 'line', isRequired: true },
    { name: 'description', label: 'description', kind: 'line' },
    { name: 'retention', label: 'how long closed runs are kept', kind: 'line', hint: DURATION },
  ],
  path: () => '/v1/domains',
};

/** Returns what can be done with a domain. */
export function actionsOfDomain(domain: string, isDeprecated: boolean): Action[] {
  return [
    isDeprecated
      ? {
          name: 'undeprecate',
          label: 'Undeprecate',
          title: `Undeprecate ${domain}`,
          says: 'Runs can be started in it again, and types registered.',
          does: 'Undeprecate',
          fields: [],
          path: () => `${domainPath(domain)}/undeprecate`,
        }
      : {
          name: 'deprecate',
          label: 'Deprecate',
          title: `Deprecate ${domain}`,
          says: 'Nothing can be started or registered in it. What is open goes on.',
          does: 'Deprecate',
          isGrave: true,
          fields: [],
          path: () => `${domainPath(domain)}/deprecate`,
        },
  ];
}
