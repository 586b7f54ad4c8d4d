// Saved views of the list of runs. They are stored in this browser, and each is a link to the URL of its list.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { pathOf } from '../route';
import { Name } from '../ui';
import { type Kept, dropView, keepView, readViews } from '../kept';

const KEY = 'baton.views';

function read(): Kept[] {
  try {
    return readViews(localStorage.getItem(KEY));
  } catch {
    return [];
  }
}
const views = signal(read());
// Another window has saved or removed a view.
addEventListener('storage', () => {
  views.value = read();
});

function write(changed: Kept[]): void {
  views.value = changed;
  try {
    localStorage.setItem(KEY, JSON.stringify(changed));
  } catch {
    /* The browser does not allow storage. The views stay until the page is closed. */
  }
}

/** List for which the user is typing a name. */
const naming = signal<string | undefined>(undefined);
const listOf = (domain: string, query: string): string => `${domain}?${query}`;

/** Button that saves the current list as a view, unless it is saved already. */
export function SaveView({ domain, query }: { domain: string; query: string }): JSX.Element | null {
  if (!query || views.value.some((view) => view.domain === domain && view.query === query)) return null;
  return (
    <button
      type="button"
      class="quiet"
      title="Save this list under a name, in this browser"
      onClick={() => {
        naming.value = listOf(domain, query);
      }}
    >
      Save view
    </button>
  );
}

export function SavedViews({ domain, query }: { domain: string; query: string }): JSX.Element | null {
  const mine = views.value.filter((view) => view.domain === domain);
  const isNaming = naming.value === listOf(domain, query);
  if (mine.length === 0 && !isNaming) return null;
  return (
    <div class="saved" role="group" aria-label="Saved views">
      {mine.map((view) => (
        <span key={view.name} class={`saved-view${view.query === query ? ' here' : ''}`}>
          <a
            href={`${pathOf({ page: 'runs', domain })}?${view.query}`}
            aria-current={view.query === query ? 'true' : undefined}
          >
            <Name>{view.name}</Name>
          </a>
          <button
            type="button"
            aria-label={`Remove the view ${view.name}`}
            onClick={() => write(dropView(read(), view))}
          >
            ×
          </button>
        </span>
      ))}
      {isNaming ? <NameOf domain={domain} query={query} /> : null}
    </div>
  );
}

function NameOf({ domain, query }: { domain: string; query: string }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  // The field gets the focus immediately, because the user types next.
  useLayoutEffect(() => field.current?.focus(), []);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const name = field.current?.value.trim();
        if (name) write(keepView(read(), { name, domain, query }));
        naming.value = undefined;
      }}
    >
      <label class="unseen" for="view-name">
        Name of the view
      </label>
      <input
        id="view-name"
        ref={field}
        size={18}
        maxLength={60}
        autocomplete="off"
        placeholder="name of the view"
        onKeyDown={(event) => {
          if (event.key === 'Escape') naming.value = undefined;
        }}
      />
    </form>
  );
}
