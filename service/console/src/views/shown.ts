// What the four views of a run have in common.
import type { State } from '../fold';
import type { History } from '../history';

/** What the four views have in common. */
export interface Shown {
  run: History;
  /** The event that is selected. */
  selected: number | undefined;
  /** The event as of which the run is shown; its newest one unless the slider says otherwise. */
  asOf: number;
  /** Whether that is an earlier one. */
  isPast: boolean;
  state: State;
  select: (id: number) => void;
}
