// Calls of the REST API of the service that serves the page, and the stream of a history. A refusal becomes a
// `Problem`.
import { parse } from './raw';
import { signal } from '@preact/signals';

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly advice: string,
    /** Fields that only some codes have, such as `field` or `before`. */
    readonly members: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

/** Converts any error to a problem. */
export const problemOf = (error: unknown): Problem =>
  error instanceof Problem ? error : new Problem(0, 'broken', String(error), '');

/** Creates a unique idempotency key. */
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Time by which the service's clock is ahead of the browser's, in milliseconds. 0 if the difference is small. */
export const clockAhead = signal(0);
/** True if the last request reached the service. */
export const reachable = signal(true);

/** Token that a session sends with every changing request. */
export const csrfToken = signal('');
/** Refusal of a request without valid credentials. While it is set, the page asks the user to sign in. */
export const turnedAway = signal<Problem | undefined>(undefined);
/** Number of sign-ins, and of reads of a valid session. */
let timesLetIn = 0;

export function letIn(): void {
  timesLetIn++;
  turnedAway.value = undefined;
}

/** Smaller differences between the clocks are ignored. Our choice: the `Date` header has a resolution of a second. */
const CLOCK_DIFFERENCE_MS = 5000;

/**
 * Returns the time by which the service's clock is ahead. `date` is from the `Date` header. `asked` and `answered` are
 * the times of the request and the response by the browser's clock, so the duration of the request is not counted as a
 * difference.
 */
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
  // A response with status 304 (not modified) is a success, too.
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
  // A request with a secret is a sign-in. Its caller handles the refusal.
  if (response.status === 401 && !new Headers(init.headers).has('authorization')) {
    // The user has signed in after this request was sent, so the request is sent again.
    if (letInBefore !== timesLetIn) return request(path, init);
    turnedAway.value = problem;
  }
  throw problem;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, { headers: { accept: 'application/json' }, ...(signal ? { signal } : {}) });
  return parse<T>(await response.text());
}

/** Sends a changing request. With the same key, a repeated `POST` is recorded only once. */
export async function send<T>(
  path: string,
  body: string,
  key: string,
  method: 'POST' | 'PUT' | 'DELETE' = 'POST',
): Promise<T | undefined> {
  const response = await request(path, {
    method,
    headers: {
      accept: 'application/json',
      ...(method === 'DELETE' ? {} : { 'content-type': 'application/json' }),
      // Other methods have no idempotency key: a repeated request has the same effect anyway.
      ...(method === 'POST' ? { 'idempotency-key': key } : {}),
    },
    ...(method === 'DELETE' ? {} : { body }),
  });
  const text = await response.text();
  return text ? parse<T>(text) : undefined;
}

/**
 * Reads a stream of server-sent events until the service ends it. Calls `begins` when the stream is open, and `take`
 * with the data of each message.
 */
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
