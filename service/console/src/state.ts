// State that all pages share: the current address, the time, and the user's display options.
import { computed, effect, signal } from '@preact/signals';
import { clockAhead } from './api';
import { pathOf, routeOf, type Route } from './route';

export const place = signal({ path: location.pathname, query: new URLSearchParams(location.search) });
export const route = computed(() => routeOf(place.value.path));
/** Domain to which the navigation leads. */
export const domain = signal('default');

effect(() => {
  const at = route.value;
  if ('domain' in at) domain.value = at.domain;
});

export function go(to: Route | string, query?: URLSearchParams, replace = false): void {
  const [path, search] = typeof to === 'string' ? [to.split('?')[0] ?? '', to.split('?')[1] ?? ''] : [pathOf(to), ''];
  const text = (query ?? new URLSearchParams(search)).toString();
  history[replace ? 'replaceState' : 'pushState'](null, '', text ? `${path}?${text}` : path);
  read();
}

/** Changes parameters of the URL. `undefined` removes a parameter. */
export function setQuery(changes: Record<string, string | undefined>, replace = true): void {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) query.delete(name);
    else query.set(name, value);
  }
  go(place.value.path, query, replace);
}

function read(): void {
  place.value = { path: location.pathname, query: new URLSearchParams(location.search) };
}
addEventListener('popstate', read);

/** Time of the service as known by this browser, updated every second. It is not updated while the page is hidden. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now() + clockAhead.peek();
}, 1000);
effect(() => {
  now.value = Date.now() + clockAhead.value;
});

function kept<T extends string>(name: string, values: readonly T[]): ReturnType<typeof signal<T>> & { value: T } {
  const first = values[0] as T;
  let stored: string | null = null;
  try {
    stored = localStorage.getItem(`baton.${name}`);
  } catch {
    /* The browser does not allow storage. */
  }
  const one = signal<T>(values.find((value) => value === stored) ?? first);
  effect(() => {
    try {
      localStorage.setItem(`baton.${name}`, one.value);
    } catch {
      /* The browser does not allow storage. */
    }
  });
  return one;
}
export const theme = kept('theme', ['auto', 'light', 'dark']);
export const clock = kept('clock', ['relative', 'exact']);
effect(() => {
  document.documentElement.dataset['theme'] = theme.value;
});

// ---- keys ----------------------------------------------------------------------------------------------------------

/** Keys of the shown page, by `KeyboardEvent.key`. If a page and a part of it have the same key, both are called. */
export const pageKeys = new Map<string, Set<() => void>>();
/** Calls the functions of a key of the page. Returns whether the key has any. */
export function pressPageKey(key: string): boolean {
  const all = pageKeys.get(key);
  all?.forEach((does) => does());
  return all !== undefined;
}
/** True if the search field must get the focus as soon as it exists. */
export const searchIsWanted = signal(false);
export const helpIsOpen = signal(false);

/** Rows of pages that define no keys for their rows. The row with the focus is the current one. */
const rows = (): HTMLElement[] => [...document.querySelectorAll<HTMLElement>('#main [data-row]')];
const isHere = (row: HTMLElement): boolean => row.contains(document.activeElement);
function step(by: number): void {
  const all = rows();
  const at = all.findIndex(isHere);
  all[Math.max(0, Math.min(all.length - 1, at + by))]?.focus();
}
const ROW_KEYS: Record<string, () => void> = {
  j: () => step(1),
  k: () => step(-1),
  // Clicks the first link, summary or button of the row.
  Enter: () => rows().find(isHere)?.querySelector<HTMLElement>('a, summary, button')?.click(),
};

/** Maximum time between the two keys of a sequence, in milliseconds. Our choice. */
const CHORD_MS = 1500;
/**
 * Time of the first key of a sequence, by the clock of keyboard events. With this clock, a delay of the page does not
 * count.
 */
let chordAt: number | undefined;
addEventListener('keydown', (event) => {
  const target = event.target as HTMLElement;
  if (event.key === 'Escape' && helpIsOpen.value) {
    helpIsOpen.value = false;
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  // While a dialog is open, the page behind it handles no keys.
  if (document.querySelector('dialog[open]')) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
    // Sliders and checkboxes do not use letters.
    const takesText = !/^(range|checkbox)$/.test((target as HTMLInputElement).type);
    if (event.key === 'Escape') target.blur();
    if (takesText) return;
  }
  const isSecond = chordAt !== undefined && event.timeStamp - chordAt <= CHORD_MS;
  chordAt = undefined;
  if (isSecond) {
    const to = (
      {
        s: { page: 'start' },
        r: { page: 'runs', domain: domain.value },
        l: { page: 'lists', domain: domain.value },
        b: { page: 'batches', domain: domain.value },
        c: { page: 'schedules', domain: domain.value },
        t: { page: 'types', domain: domain.value, kind: 'workflow' },
        d: { page: 'domains' },
        n: { page: 'service' },
        h: { page: 'recorded', view: 'turns' },
      } as Record<string, Route>
    )[event.key];
    if (to) {
      event.preventDefault();
      go(to);
    }
    return;
  }
  if (event.key === 'Enter' && /^(A|BUTTON|SUMMARY)$/.test(target.tagName)) return;
  switch (event.key) {
    case 'g':
      chordAt = event.timeStamp;
      return;
    case '?':
      helpIsOpen.value = true;
      return;
    case 't':
      clock.value = clock.value === 'relative' ? 'exact' : 'relative';
      return;
    case '/': {
      event.preventDefault();
      const field = document.querySelector<HTMLInputElement>('#search');
      if (field) field.select();
      else {
        searchIsWanted.value = true;
        go({ page: 'runs', domain: domain.value });
      }
      return;
    }
    default: {
      const isOfPage = pressPageKey(event.key);
      const does = isOfPage ? undefined : ROW_KEYS[event.key];
      if (isOfPage || does) event.preventDefault();
      does?.();
    }
  }
});

// Links within the console change the URL without reloading the page.
addEventListener('click', (event) => {
  const link = (event.target as Element).closest?.('a');
  if (
    !link ||
    event.defaultPrevented ||
    event.button !== 0 ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    link.target
  )
    return;
  const url = new URL(link.href);
  if (url.origin === location.origin && url.pathname.startsWith('/console') && !link.hasAttribute('download')) {
    event.preventDefault();
    go(url.pathname, url.searchParams);
  }
});
