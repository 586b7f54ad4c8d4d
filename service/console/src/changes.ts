// Pages that follow the changes of a domain or of all domains: a stream reports that something has changed, and the
// page then reads its data again.
import { useEffect, useRef } from 'preact/hooks';
import { Problem, stream } from './api';
import { AGAIN_MS, HIDDEN_MS } from './live';
import { domainPath } from './paths';
import { untilSignedIn } from './session';

/**
 * Pause after reading, as a multiple of the time that reading took. Our choice: reading then takes at most a tenth of
 * the time.
 */
const REST_FACTOR = 9;

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/**
 * Calls `refresh` when something in the domain has changed, or without a domain, when something in any readable domain
 * has changed. Calls do not overlap. Nothing is requested while nothing changes or while the page is hidden.
 */
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

/**
 * Follows until `stop`. While the page is hidden, the stream is closed, so that its connection is free for other
 * requests.
 */
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
    // A page in the browser's back/forward cache would otherwise keep its connection.
    addEventListener('pagehide', end);
    stop.addEventListener('abort', end);
    try {
      // Changes before the stream begins are not reported, so `changed` is also called when the stream begins.
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
