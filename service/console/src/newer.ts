// Whether the service has another console by now than the page that is open: after it was away it may be a newer build.
import { effect, signal } from '@preact/signals';
import { reachable } from './api';

/** Whether what is open is not what the service has. */
export const hasNewer = signal(false);

const etag = (): Promise<string | null> =>
  fetch('/console/console.js', { method: 'HEAD', cache: 'no-store' }).then(
    (answer) => (answer.ok ? answer.headers.get('etag') : null),
    () => null,
  );

/** Looks whenever the service has come back. */
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
