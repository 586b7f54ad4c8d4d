// Groups of failed runs: their filter, and the batch that is proposed for them. Pure functions.
import type { Kind } from './batches';
import type { Values } from './fields';
import type { Filter } from './filter';
import type { Schemas } from './fold';

export type Failure = Schemas['GroupedFailures'];

/**
 * Returns the filter that selects the runs of a group. Lists of runs have no filter for the failures of open
 * activities, so that of blocked runs selects all blocked runs of the type.
 */
export function filterOfFailure({ status, workflowType, reason }: Failure): Filter {
  return { status, type: workflowType, ...(status === 'failed' && reason ? { reason } : {}) };
}

/** A batch that is proposed for a group of failures. */
export interface Proposed {
  label: string;
  operation: Kind;
  filled: Values;
}

/** Returns the batch that is proposed: blocked runs are retried, and closed runs are reset. */
export function proposedForFailure({ status, reason }: Failure): Proposed {
  return status === 'blocked'
    ? {
        label: 'Retry activities…',
        operation: 'retry-activities',
        filled: reason ? { 'operation.failureReason': reason } : {},
      }
    : { label: 'Reset…', operation: 'reset', filled: {} };
}
