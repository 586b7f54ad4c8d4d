// Fields of a dialog. Errors are shown next to the fields. The user's name is kept for later dialogs.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { type Field, type Values, initialOf } from '../fields';

const WHO_KEY = 'baton.identity';

function who(): string {
  try {
    return localStorage.getItem(WHO_KEY) ?? '';
  } catch {
    return '';
  }
}

/** Stores the user's name for the next dialog. */
export function keepWho(identity: string | undefined): void {
  if (!identity) return;
  try {
    localStorage.setItem(WHO_KEY, identity);
  } catch {
    /* The browser does not allow storage. */
  }
}

/** Values of fields, and their errors. */
export interface Form {
  fields: readonly Field[];
  values: Values;
  lack: Values;
  change: (name: string, value: string) => void;
  setLack: (lack: Values) => void;
}

/**
 * Creates the form of these fields. `filled` contains initial values. `changed` is called when the user changes a
 * field.
 */
export function useForm(fields: readonly Field[], filled: Values = {}, changed: () => void = () => undefined): Form {
  const [values, setValues] = useState<Values>(() => ({
    ...initialOf(fields),
    ...(fields.some(({ name }) => name === 'identity') ? { identity: who() } : {}),
    ...filled,
  }));
  const [lack, setLack] = useState<Values>({});
  const change = (name: string, value: string): void => {
    changed();
    setValues((old) => ({ ...old, [name]: value }));
    setLack(({ [name]: _, ...rest }) => rest);
  };
  return { fields, values, lack, change, setLack };
}

export function Fields({ form }: { form: Form }): JSX.Element {
  const { fields, values, lack, change } = form;
  const parts = [...new Set(fields.map(({ part }) => part))];
  return (
    <>
      {parts.map((part) => {
        const of = fields.filter((field) => field.part === part);
        const inputs = of.map((field) => (
          <Input
            key={field.name}
            field={field}
            value={values[field.name] ?? ''}
            lack={lack[field.name]}
            change={(value) => change(field.name, value)}
          />
        ));
        if (part === undefined) return inputs;
        const filled = of.filter(({ name, kind }) => kind !== 'choice' && values[name]).length;
        return (
          <details key={part} class="part" open={of.some(({ name }) => lack[name]) || undefined}>
            <summary>
              {part}
              {filled > 0 ? <span class="quieter"> · {filled} given</span> : null}
            </summary>
            {inputs}
          </details>
        );
      })}
    </>
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
      {kind === 'line' || kind === 'number' ? (
        <input
          {...more}
          value={value}
          inputMode={kind === 'number' ? 'decimal' : undefined}
          list={offers ? `${id}-offers` : undefined}
          onInput={typed}
          autocomplete="off"
        />
      ) : kind === 'json' || kind === 'lines' ? (
        <textarea
          {...more}
          class={kind === 'json' ? 'mono' : ''}
          rows={kind === 'json' ? 3 : 2}
          spellcheck={false}
          value={value}
          onInput={typed}
        />
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
