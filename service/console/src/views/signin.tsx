// The sign-in dialog. It opens above the page, whose content and input are kept.
import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemOf, turnedAway } from '../api';
import { session, signIn, signOut } from '../session';
import { pressPageKey } from '../state';
import { Name } from '../ui';
import { visible } from '../words';

export function SignIn(): JSX.Element | null {
  return turnedAway.value ? <Dialog why={turnedAway.value} /> : null;
}

/** Codes with which the service refuses an unknown secret. */
const UNKNOWN = ['unauthorized', 'token-refused'];

function Dialog({ why }: { why: Problem }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState<Problem>();
  const [isUnderWay, setUnderWay] = useState(false);
  const again = session.value !== undefined;
  useLayoutEffect(() => {
    dialog.current?.showModal();
    field.current?.focus();
  }, []);
  const submit = async (): Promise<void> => {
    const secret = field.current?.value.trim() ?? '';
    if (secret === '' || isUnderWay) return;
    setUnderWay(true);
    setProblem(undefined);
    try {
      await signIn(secret);
      // The page reads its data again, and keeps its state.
      if (again) pressPageKey('r');
    } catch (error) {
      setProblem(problemOf(error));
      setUnderWay(false);
      field.current?.select();
    }
  };
  return (
    <dialog
      ref={dialog}
      class="act-dialog sign-in"
      aria-labelledby="sign-in-title"
      onCancel={(event) => event.preventDefault()}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <div class="dialog-body">
          <h2 id="sign-in-title">{again ? 'Sign in again' : 'Sign in'}</h2>
          <p>
            {again
              ? `${why.code === 'session-expired' ? 'Your session has expired.' : 'Your credential is no longer accepted.'} This page keeps its contents.`
              : 'Enter the secret of a credential, or a token of your identity provider.'}
          </p>
          <div class="field">
            <label for="secret">secret or token</label>
            <input id="secret" ref={field} type="password" autocomplete="current-password" spellcheck={false} />
          </div>
          {problem ? (
            <div class="trouble" role="alert">
              <b>{UNKNOWN.includes(problem.code) ? 'Unknown secret or token.' : visible(problem.detail)}</b>{' '}
              <code>{problem.code}</code>
            </div>
          ) : null}
        </div>
        <div class="dialog-buttons">
          <button type="submit" class="main" disabled={isUnderWay}>
            Sign in
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Shows the signed-in user, and a button to sign out. */
export function Who(): JSX.Element | null {
  const may = session.value?.permissions;
  if (!may?.name) return null;
  return (
    <span class="whoami">
      <span class="wide">
        <Name>{may.name}</Name>
      </span>
      {session.value?.csrfToken ? (
        <button type="button" class="quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      ) : null}
    </span>
  );
}
