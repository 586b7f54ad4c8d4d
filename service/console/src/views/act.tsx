// Buttons of actions, and the dialog of an action: it describes the effect, keeps the user's input, and shows the
// result.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Action } from '../actions';
import { type Problem, newKey, send, problemOf } from '../api';
import { type Values, bodyOf, lackOf } from '../fields';
import { markdownOf } from '../markdown';
import { mayDo } from '../session';
import { go } from '../state';
import { rawOf } from '../raw';
import { Payload } from '../ui';
import { visible } from '../words';
import { Fields, keepWho, useForm } from './fields';

interface Acting {
  action: Action;
  domain: string;
  /** Called when the action has succeeded. */
  done?: () => void;
  /** Initial values of the fields, by name. */
  filled?: Values;
}
/** Action whose dialog is open. */
export const acting = signal<Acting | undefined>(undefined);
/** Message about the last action, shown for some seconds. */
export const said = signal('');

/** Time for which the message is shown, in milliseconds. Our choice: long enough to read a line. */
const SAID_MS = 6000;

export function say(text: string): void {
  said.value = text;
  setTimeout(() => {
    if (said.value === text) said.value = '';
  }, SAID_MS);
}

/** Shows a row of buttons for the actions that the signed-in user may perform. */
export function Actions({
  actions,
  domain,
  label,
  done,
}: {
  actions: Action[];
  domain: string;
  label: string;
  done?: () => void;
}): JSX.Element | null {
  const allowed = actions.filter(({ name }) => mayDo(name, domain));
  if (allowed.length === 0) return null;
  return (
    <div class="actions" role="group" aria-label={label}>
      {allowed.map((action) => (
        <button
          key={action.label}
          type="button"
          class={action.isGrave ? 'act grave' : 'act'}
          onClick={() => {
            acting.value = { action, domain, ...(done ? { done } : {}) };
          }}
        >
          {action.label}
        </button>
      ))}
    </div>
  );
}

/** Shows the message about the last action. Screen readers announce it. */
export function Said(): JSX.Element {
  return (
    <div class={`said${said.value ? '' : ' none'}`} role="status">
      {said.value}
    </div>
  );
}

export function ActDialog(): JSX.Element | null {
  const now = acting.value;
  return now ? <Dialog key={now.action.title} {...now} /> : null;
}

function close(): void {
  acting.value = undefined;
}

function Dialog({ action, domain, done, filled }: Acting): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  // The key stays the same until a field changes, so that a repeated request is recorded only once.
  const key = useRef(newKey());
  const form = useForm(action.fields, filled, () => {
    key.current = newKey();
  });
  const { values, change, setLack } = form;
  const [problem, setProblem] = useState<Problem>();
  const [answer, setAnswer] = useState<{ json: string | undefined }>();
  const [isUnderWay, setUnderWay] = useState(false);
  useLayoutEffect(() => {
    dialog.current?.showModal();
  }, []);
  const act = async (): Promise<void> => {
    const found = lackOf(action.fields, values);
    setLack(found);
    if (Object.keys(found).length > 0 || isUnderWay) return;
    setUnderWay(true);
    setProblem(undefined);
    setAnswer(undefined);
    try {
      const given = await send<Record<string, unknown>>(
        action.path(values),
        bodyOf(action.fields, values),
        key.current,
        action.method,
      );
      keepWho(values['identity']);
      done?.();
      if (action.isAnswered) {
        if (action.pageOf && markdownOf(given?.['result']) !== undefined) {
          close();
          go(action.pageOf(values));
          return;
        }
        setAnswer({ json: given?.['result'] === undefined ? undefined : rawOf(given, 'result') });
        // The next request is a new one, so it gets another key.
        key.current = newKey();
        return;
      }
      say(`${action.title}: done.`);
      close();
      const { workflowId, runId } = given ?? {};
      if (action.leadsOn && typeof workflowId === 'string' && typeof runId === 'string')
        go({ page: 'run', domain, workflowId, runId, view: 'turns' });
    } catch (error) {
      setProblem(problemOf(error));
    } finally {
      setUnderWay(false);
    }
  };
  return (
    <dialog ref={dialog} class="act-dialog" aria-labelledby="act-title" aria-describedby="act-says" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void act();
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void act();
        }}
      >
        <div class="dialog-body">
          <h2 id="act-title">{visible(action.title)}</h2>
          <p id="act-says">{visible(action.says)}</p>
          <Fields form={form} />
          <Refused problem={problem} change={change} />
          {answer ? (
            <div class="answer" role="status">
              {answer.json === undefined ? 'Empty answer.' : <Payload name="answer" json={answer.json} />}
            </div>
          ) : null}
        </div>
        <div class="dialog-buttons">
          <button type="submit" class={action.isGrave ? 'main grave' : 'main'} disabled={isUnderWay}>
            {isUnderWay ? 'waiting for the response…' : action.does}
          </button>
          <button type="button" onClick={close}>
            {answer ? 'Close' : 'Cancel'}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Shows why the request was refused, and what to do. */
function Refused({
  problem,
  change,
}: {
  problem: Problem | undefined;
  change: (name: string, value: string) => void;
}): JSX.Element | null {
  if (!problem) return null;
  const events = [problem.members['before'], problem.members['after']].filter((id) => typeof id === 'number');
  const known = problem.code === 'unknown-query' ? problem.members['known'] : undefined;
  return (
    <div class="trouble" role="alert">
      <b>{visible(problem.detail)}</b>
      {problem.status === 401 ? (
        <p>Sign in and try again. Your input is kept.</p>
      ) : problem.advice ? (
        <p>{visible(problem.advice)}</p>
      ) : null}
      {problem.code === 'invalid-reset-point' && events.length > 0 ? (
        <p>
          {events.map((id) => (
            <button key={id} type="button" class="link" onClick={() => change('eventId', String(id))}>
              from event {id}
            </button>
          ))}
        </p>
      ) : null}
      {Array.isArray(known) && known.length > 0 ? (
        <p>
          {known.map(String).map((name) => (
            <button key={name} type="button" class="link" onClick={() => change('/name', name)}>
              {visible(name)}
            </button>
          ))}
        </p>
      ) : null}
      <code>{problem.code}</code>
    </div>
  );
}
