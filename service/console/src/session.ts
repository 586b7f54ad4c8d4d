// The signed-in user, the user's permissions, and the end of a session.
import { signal } from '@preact/signals';
import { Problem, csrfToken, get, letIn, request, turnedAway } from './api';
import type { Schemas } from './fold';

export type Levels = Schemas['CredentialLevels'];

/** Session of the user, if known. */
export const session = signal<Schemas['SessionInfo'] | undefined>(undefined);
/**
 * Number of sign-ins on pages that could show nothing without a session. When it increases, the page loads its data.
 */
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

/** Reads the session. Actions that it does not permit are not offered. */
export function readSession(): void {
  get<Schemas['SessionInfo']>('/v1/session').then(take, () => undefined);
}

/** Signs in with a secret. The secret is not stored: the browser keeps a cookie that scripts cannot read. */
export async function signIn(secret: string): Promise<void> {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const answer = await request('/v1/session', { method: 'POST', headers });
  take((await answer.json()) as Schemas['SessionInfo']);
}

/** Signs out, and reloads the page to remove the data that it shows. */
export async function signOut(): Promise<void> {
  await request('/v1/session', { method: 'DELETE' }).catch((error: unknown) => {
    if (!(error instanceof Problem && error.status === 401)) throw error;
  });
  location.reload();
}

/** Resolves when the user has signed in again. */
export function untilSignedIn(stop: AbortSignal): Promise<void> {
  return new Promise((done) => {
    waiting.add(done);
    stop.addEventListener('abort', () => done(), { once: true });
  });
}

/** Actions for which a credential with the level `applications` suffices. All others need the level `operators`. */
const OF_APPLICATIONS = new Set(['signal', 'query', 'update', 'cancel', 'terminate', 'start', 'another']);

/**
 * Returns whether these levels permit an action in a domain. Without a domain, the action is one for operators of the
 * service.
 */
export function allows(may: Levels | undefined, action: string, domain: string): boolean {
  if (!may || may.operator) return true;
  const domains = (OF_APPLICATIONS.has(action) ? may.applications : may.operators) ?? [];
  return domain !== '' && domains.some((one) => one === '*' || one === domain);
}

/** Returns whether the signed-in user may perform an action. */
export const mayDo = (action: string, domain: string): boolean => allows(session.value?.permissions, action, domain);
