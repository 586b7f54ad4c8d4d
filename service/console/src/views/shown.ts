// Properties that the four views of a run share.
import type { State } from '../fold';
import type { History } from '../history';

/** Properties that the four views of a run share. */
export interface Shown {
  run: History;
  /** Id of the selected event. */
  selected: number | undefined;
  /** Id of the event as of which the run is shown: the event that the slider selects, otherwise the newest one. */
  asOf: number;
  /** True if `asOf` is not the newest event, or if the history is recorded. */
  isPast: boolean;
  state: State;
  select: (id: number) => void;
}
