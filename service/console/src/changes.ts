// A page that follows a domain, or all of them: one stream says that something has changed, and the page reads what it shows anew.
import { useEffect, useRef } from 'preact/hooks';
import { Problem, stream } from './api';
import { AGAIN_MS, HIDDEN_MS } from './live';
import { domainPath } from './paths';
import { untilSignedIn } from './session';

/** Ours: reading anew takes a tenth of the time at most. */
const REST_FACTOR = 9;

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Calls `refresh` when something in the domain has changed, or without one in any that may be read, one call after the other; nobody is asked while nothing happens, nor
    while nobody sees the page. */
export function useChanges(domain: string | undefined, refresh: () => Promise<void>): void {
  const newest = useRef(refresh);
  newest.current = refresh;
  useEffect(() => {
    const stop = new AbortController();
    let isNew = false;
    let isReading = false;
    const read = async (): Promise<void> => {
      isNew = true;
      if (isReading) return;
      isReading = true;
      while (isNew && !stop.signal.aborted) {
        isNew = false;
        const began = performance.now();
        await newest.current();
        await pause((performance.now() - began) * REST_FACTOR);
      }
      isReading = false;
    };
    void follow(domain, () => void read(), stop.signal);
    return () => stop.abort();
  }, [domain]);
}

/** Follows until it is stopped; while nobody sees the page, the browser has its connection for others. */
async function follow(domain: string | undefined, changed: () => void, stop: AbortSignal): Promise<void> {
  for (let tries = 0; !stop.aborted; tries++) {
    const following = new AbortController();
    const end = (): void => following.abort();
    let leaves: ReturnType<typeof setTimeout> | undefined;
    const looked = (): void => {
      clearTimeout(leaves);
      if (document.hidden) leaves = setTimeout(end, HIDDEN_MS);
    };
    looked();
    document.addEventListener('visibilitychange', looked);
    // A page that the browser keeps for the way back would keep its connection, too.
    addEventListener('pagehide', end);
    stop.addEventListener('abort', end);
    try {
      // What happened before it begins, while the page was reading or nobody followed, is told to nobody: it is read once more.
      const path = `${domain === undefined ? '/v1' : domainPath(domain)}/changes`;
      await stream(path, changed, following.signal, changed);
      tries = 0;
    } catch (error) {
      if (error instanceof Problem && error.status === 401) await untilSignedIn(stop);
      else if (error instanceof Problem && [204, 403, 404].includes(error.status)) return;
    } finally {
      clearTimeout(leaves);
      document.removeEventListener('visibilitychange', looked);
      removeEventListener('pagehide', end);
      stop.removeEventListener('abort', end);
    }
    if (document.hidden) await untilSeen(stop);
    else if (!stop.aborted) await pause(AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)] ?? 1000);
  }
}

function untilSeen(stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const seen = (): void => {
      if (document.hidden && !stop.aborted) return;
      document.removeEventListener('visibilitychange', seen);
      done();
    };
    document.addEventListener('visibilitychange', seen);
    stop.addEventListener('abort', seen, { once: true });
  });
}
