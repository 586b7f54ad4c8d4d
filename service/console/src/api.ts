// Calls of the REST API under the same origin, and the stream of a history. What the service refuses is a Problem.
import { parse } from './raw';
import { signal } from '@preact/signals';

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly advice: string,
    /** What belongs to the code, such as `field` or `before`. */
    readonly members: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

/** Returns what went wrong as a problem, whatever it was. */
export const problemOf = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, 'broken', String(error), '');

/** A key of a request that nobody else makes. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** How far the service's clock is ahead of the browser's, in milliseconds; 0 where that is not worth a word. */
export const clockAhead = signal(0);
/** Whether the last request reached the service. */
export const reachable = signal(true);

/** What a session's page sends with whatever changes something. */
export const csrfToken = signal('');
/** Why nobody is let in who shows nothing; a page asks to sign in then. */
export const turnedAway = signal<Problem | undefined>(undefined);
/** How often somebody was let in. */
let timesLetIn = 0;

export function letIn(): void {
  timesLetIn++;
  turnedAway.value = undefined;
}

/** Ours: a difference of clocks below this is not worth a word; the header has whole seconds. */
const CLOCK_DIFFERENCE_MS = 5000;

/** Returns how far the service's clock is ahead, by the `Date` of an answer that was made between two instants of this device's: it says nothing of how long the answer took. */
export function aheadBy(date: number, asked: number, answered: number): number {
  if (date > answered + CLOCK_DIFFERENCE_MS) return date - answered;
  return date < asked - CLOCK_DIFFERENCE_MS ? date - asked : 0;
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const asked = Date.now();
  const letInBefore = timesLetIn;
  let response: Response;
  try {
    const headers = new Headers(init.headers);
    if (csrfToken.value && (init.method ?? 'GET') !== 'GET') headers.set('baton-csrf', csrfToken.value);
    response = await fetch(path, { cache: 'no-store', ...init, headers });
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error;
    reachable.value = false;
    throw new Problem(0, 'unreachable', 'the service does not respond', 'the page retries automatically');
  }
  const date = Date.parse(response.headers.get('date') ?? '');
  if (!Number.isNaN(date)) {
    clockAhead.value = aheadBy(date, asked, Date.now());
  }
  reachable.value = response.status !== 502;
  // Nothing new is an answer, too.
  if (response.ok || response.status === 304) return response;
  const body = (await response.json().catch(() => ({}))) as Partial<Problem>;
  const problem = new Problem(
    response.status,
    body.code ?? (response.status === 502 ? 'unreachable' : 'unknown'),
    body.detail ??
      (response.status === 502 ? 'the service does not respond' : `unexpected response status ${response.status}`),
    body.advice ?? '',
    body as Record<string, unknown>,
  );
  // Whoever tries a secret hears what comes of it there.
  if (response.status === 401 && !new Headers(init.headers).has('authorization')) {
    // It was asked before somebody signed in, and nothing was done: now it is asked by them.
    if (letInBefore !== timesLetIn) return request(path, init);
    turnedAway.value = problem;
  }
  throw problem;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, { headers: { accept: 'application/json' }, ...(signal ? { signal } : {}) });
  return parse<T>(await response.text());
}

/** Asks for a change. The key has a request that is repeated be recorded once. */
export async function post<T>(path: string, body: string, key: string): Promise<T | undefined> {
  const response = await request(path, {
    method: 'POST',
    headers: { accept: 'application/json', 'content-type': 'application/json', 'idempotency-key': key },
    body,
  });
  const text = await response.text();
  return text ? parse<T>(text) : undefined;
}

/** Reads a stream of server-sent events; calls `begins` when it is there, and `take` with the data of each message. Ends when the service ends it. */
export async function stream(
  path: string,
  take: (data: string) => void,
  signal: AbortSignal,
  begins: () => void = () => undefined,
): Promise<void> {
  const response = await request(path, { headers: { accept: 'text/event-stream' }, signal });
  if (response.status === 204) throw new Problem(204, 'nothing', 'there is nothing to follow', '');
  begins();
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = '';
  let data: string[] = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '' || line === '\r') {
        if (data.length > 0) take(data.join('\n'));
        data = [];
      } else if (line.startsWith('data:')) {
        data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
  }
}
