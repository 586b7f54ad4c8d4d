// Who is signed in, what they may do, and what becomes of a page when a session is over.
import { signal } from '@preact/signals';
import { Problem, csrfToken, get, letIn, request, turnedAway } from './api';
import type { Schemas } from './fold';

export type Levels = Schemas['CredentialLevels'];

/** Who asks, once that is known. */
export const session = signal<Schemas['SessionInfo'] | undefined>(undefined);
/** Goes up when a page that could show nothing without a session can begin anew. */
export const beginnings = signal(0);

const waiting = new Set<() => void>();

function take(info: Schemas['SessionInfo']): void {
  const isFirst = session.value === undefined && turnedAway.value !== undefined;
  csrfToken.value = info.csrfToken ?? '';
  session.value = info;
  letIn();
  if (isFirst) beginnings.value++;
  for (const goOn of waiting) goOn();
  waiting.clear();
}

/** Asks who is signed in; what is not allowed is not offered from then on. */
export function readSession(): void {
  get<Schemas['SessionInfo']>('/v1/session').then(take, () => undefined);
}

/** Signs in with a secret, which is kept nowhere: the browser has a cookie then that no page can read. */
export async function signIn(secret: string): Promise<void> {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const answer = await request('/v1/session', { method: 'POST', headers });
  take((await answer.json()) as Schemas['SessionInfo']);
}

/** Signs out. What is shown goes with it. */
export async function signOut(): Promise<void> {
  await request('/v1/session', { method: 'DELETE' }).catch((error: unknown) => {
    if (!(error instanceof Problem && error.status === 401)) throw error;
  });
  location.reload();
}

/** Resolves when somebody has signed in again. */
export function untilSignedIn(stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    waiting.add(done);
    stop.addEventListener('abort', () => done(), { once: true });
  });
}

/** Actions for which a level of applications is enough; all others need that of operators. */
const OF_APPLICATIONS = new Set(['signal', 'query', 'update', 'cancel', 'terminate', 'start', 'another']);

/** Says whether these levels allow an action in a domain; without a domain it is one for operators of the service. */
export function allows(may: Levels | undefined, action: string, domain: string): boolean {
  if (!may || may.operator) return true;
  const domains = (OF_APPLICATIONS.has(action) ? may.applications : may.operators) ?? [];
  return domain !== '' && domains.some((one) => one === '*' || one === domain);
}

/** Says whether whoever is signed in may do this. */
export const mayDo = (action: string, domain: string): boolean => allows(session.value?.permissions, action, domain);
