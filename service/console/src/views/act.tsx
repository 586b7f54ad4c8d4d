// What is done by hand: the buttons, and the dialog that says what will happen, keeps what was typed, and shows what came of it.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Action, type Field, type Values, bodyOf, initialOf, lackOf } from '../actions';
import { Problem, post } from '../api';
import { go } from '../state';
import { NoSignIn, Payload } from '../ui';
import { visible } from '../words';

interface Acting {
  action: Action;
  domain: string;
  /** Called when it was done. */
  done?: () => void;
}
/** The action whose dialog is open. */
export const acting = signal<Acting | undefined>(undefined);
/** What was done last, for a while. */
export const said = signal('');

/** Ours: long enough to read a line, in milliseconds. */
const SAID_MS = 6000;
const WHO_KEY = 'baton.identity';

export function say(text: string): void {
  said.value = text;
  setTimeout(() => {
    if (said.value === text) said.value = '';
  }, SAID_MS);
}

function who(): string {
  try {
    return localStorage.getItem(WHO_KEY) ?? '';
  } catch {
    return '';
  }
}

function keep(identity: string): void {
  try {
    localStorage.setItem(WHO_KEY, identity);
  } catch {
    /* a browser that keeps nothing */
  }
}

/** A key of a request that nobody else makes. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Buttons of actions, in a row. */
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
}): JSX.Element {
  return (
    <div class="actions" role="group" aria-label={label}>
      {actions.map((action) => (
        <button
          key={action.name}
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

/** What was done last, said where a screen reader hears it. */
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

function Dialog({ action, domain, done }: Acting): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [values, setValues] = useState<Values>(() => ({
    ...initialOf(action.fields),
    ...(action.fields.some(({ name }) => name === 'identity') ? { identity: who() } : {}),
  }));
  const [lack, setLack] = useState<Values>({});
  const [problem, setProblem] = useState<Problem>();
  const [answer, setAnswer] = useState<{ value: unknown }>();
  const [isUnderWay, setUnderWay] = useState(false);
  // One key as long as the same is asked: a request that is repeated is recorded once.
  const key = useRef(newKey());
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const change = (name: string, value: string): void => {
    key.current = newKey();
    setValues((old) => ({ ...old, [name]: value }));
    setLack(({ [name]: _, ...rest }) => rest);
  };
  const act = async (): Promise<void> => {
    const found = lackOf(action.fields, values);
    setLack(found);
    if (Object.keys(found).length > 0 || isUnderWay) return;
    setUnderWay(true);
    setProblem(undefined);
    setAnswer(undefined);
    try {
      const given = await post<Record<string, unknown>>(
        action.path(values),
        bodyOf(action.fields, values),
        key.current,
      );
      if (values['identity']) keep(values['identity']);
      done?.();
      if (action.isAnswered) {
        setAnswer({ value: given?.['result'] });
        // Asked once more it is another request.
        key.current = newKey();
        return;
      }
      say(`${action.title}: done.`);
      close();
      const { workflowId, runId } = given ?? {};
      if (action.leadsOn && typeof workflowId === 'string' && typeof runId === 'string')
        go({ page: 'run', domain, workflowId, runId, view: 'turns' });
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, 'broken', String(error), ''));
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
        <h2 id="act-title">{visible(action.title)}</h2>
        <p id="act-says">{visible(action.says)}</p>
        {action.fields.map((field) => (
          <Input
            key={field.name}
            field={field}
            value={values[field.name] ?? ''}
            lack={lack[field.name]}
            change={(value) => change(field.name, value)}
          />
        ))}
        <Refused problem={problem} change={change} />
        {answer ? (
          <div class="answer" role="status">
            {answer.value === undefined ? 'It answered with nothing.' : <Payload name="answer" value={answer.value} />}
          </div>
        ) : null}
        <div class="dialog-buttons">
          <button type="submit" class={action.isGrave ? 'main grave' : 'main'} disabled={isUnderWay}>
            {isUnderWay ? 'waiting for the answer…' : action.does}
          </button>
          <button type="button" onClick={close}>
            {answer ? 'Close' : 'Leave it'}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Why it was refused, and what to do. */
function Refused({
  problem,
  change,
}: {
  problem: Problem | undefined;
  change: (name: string, value: string) => void;
}): JSX.Element | null {
  if (!problem) return null;
  const events = [problem.members['before'], problem.members['after']].filter((id) => typeof id === 'number');
  return (
    <div class="trouble" role="alert">
      <b>{visible(problem.detail)}</b>
      {problem.status === 401 ? (
        <p>
          <NoSignIn />
        </p>
      ) : problem.advice ? (
        <p>{visible(problem.advice)}</p>
      ) : null}
      {problem.code === 'not-a-reset-point' && events.length > 0 ? (
        <p>
          {events.map((id) => (
            <button key={id} type="button" class="link" onClick={() => change('eventId', String(id))}>
              from event {id}
            </button>
          ))}
        </p>
      ) : null}
      <code>{problem.code}</code>
    </div>
  );
}

function Input({
  field,
  value,
  lack,
  change,
}: {
  field: Field;
  value: string;
  lack: string | undefined;
  change: (value: string) => void;
}): JSX.Element {
  const { name, label, kind, hint, choices, offers, isRequired } = field;
  const id = `act-${name.replace(/\W/g, '-')}`;
  const more = {
    id,
    'aria-invalid': lack !== undefined,
    'aria-describedby': `${id}-more`,
    'aria-required': isRequired,
  };
  const typed = (event: { currentTarget: { value: string } }): void => change(event.currentTarget.value);
  return (
    <div class={`field f-${kind}`}>
      {kind === 'flag' ? (
        <input
          {...more}
          type="checkbox"
          checked={value !== ''}
          onChange={(event) => change(event.currentTarget.checked ? 'yes' : '')}
        />
      ) : null}
      <label for={id}>
        {label}
        {hint ? <span class="quieter"> {hint}</span> : null}
      </label>
      {kind === 'line' ? (
        <input {...more} value={value} list={offers ? `${id}-offers` : undefined} onInput={typed} autocomplete="off" />
      ) : kind === 'json' ? (
        <textarea {...more} class="mono" rows={3} spellcheck={false} value={value} onInput={typed} />
      ) : kind === 'choice' ? (
        <select {...more} value={value} onChange={typed}>
          {(choices ?? []).map(([one, words]) => (
            <option key={one} value={one}>
              {words}
            </option>
          ))}
        </select>
      ) : null}
      {offers ? (
        <datalist id={`${id}-offers`}>
          {offers.map((offer) => (
            <option key={offer} value={offer} />
          ))}
        </datalist>
      ) : null}
      <p id={`${id}-more`} class="lack" role={lack ? 'alert' : undefined}>
        {lack ?? ''}
      </p>
    </div>
  );
}
