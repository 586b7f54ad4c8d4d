// Detects that the service has a newer console than the open page, for example after a restart with a newer version.
import { effect, signal } from '@preact/signals';
import { reachable } from './api';

/** True if the service has another console than the open page. */
export const hasNewer = signal(false);

const etag = (): Promise<string | null> =>
  fetch('/console/console.js', { method: 'HEAD', cache: 'no-store' }).then(
    (answer) => (answer.ok ? answer.headers.get('etag') : null),
    () => null,
  );

/** Compares the versions each time the service becomes reachable again. */
export function lookForNewer(): void {
  const ours = etag();
  let wasAway = false;
  effect(() => {
    if (!reachable.value) wasAway = true;
    else if (wasAway) {
      wasAway = false;
      void Promise.all([ours, etag()]).then(([before, now]) => {
        if (before !== null && now !== null) hasNewer.value = before !== now;
      });
    }
  });
}
