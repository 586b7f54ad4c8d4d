// Saved views of the list of runs: in this browser alone, each a link to the URL that it is.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
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
// Another window has kept one.
addEventListener('storage', () => {
  views.value = read();
});

function write(changed: Kept[]): void {
  views.value = changed;
  try {
    localStorage.setItem(KEY, JSON.stringify(changed));
  } catch {
    /* a browser that keeps nothing; they stay as long as the page */
  }
}

export function SavedViews({ domain, query }: { domain: string; query: string }): JSX.Element | null {
  const [naming, setNaming] = useState(false);
  const mine = views.value.filter((view) => view.domain === domain);
  const isSaved = mine.some((view) => view.query === query);
  if (mine.length === 0 && !query) return null;
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
      {naming ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const name = String(new FormData(event.currentTarget).get('name')).trim();
            if (name) write(keepView(read(), { name, domain, query }));
            setNaming(false);
          }}
        >
          <label class="unseen" for="view-name">
            Name of the view
          </label>
          <input
            id="view-name"
            name="name"
            size={18}
            maxLength={60}
            autocomplete="off"
            placeholder="name of the view"
            ref={(field) => field?.focus()}
            onKeyDown={(event) => {
              if (event.key === 'Escape') setNaming(false);
            }}
          />
        </form>
      ) : query && !isSaved ? (
        <button type="button" class="quiet" onClick={() => setNaming(true)}>
          save this view
        </button>
      ) : null}
    </div>
  );
}
