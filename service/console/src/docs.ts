// The documentation's pages: search in titles and headings, and the colors chosen in the console. The service renders
// the pages as HTML, which is readable without this script.
import { type Found, type IndexRow, search } from './find';

const field = document.querySelector<HTMLInputElement>('#docs-search');
const found = document.querySelector<HTMLElement>('#docs-found');
const box = document.querySelector<HTMLElement>('.find');

// ---- search --------------------------------------------------------------------------------------------------------

let index: Promise<IndexRow[]> | undefined;
/** Reads the index at the first call. */
function readIndex(): Promise<IndexRow[]> {
  index ??= fetch('/docs/search.json').then((response) => {
    if (!response.ok) throw new Error(`the response was ${response.status}`);
    return response.json() as Promise<IndexRow[]>;
  });
  return index;
}

function line({ path, title, heading }: Found): HTMLElement {
  const link = document.createElement('a');
  link.href = path;
  const name = document.createElement('b');
  name.textContent = heading ?? title;
  link.append(name);
  if (heading !== undefined) {
    const of = document.createElement('span');
    of.textContent = title;
    link.append(of);
  }
  const item = document.createElement('li');
  item.append(link);
  return item;
}

function message(text: string): HTMLElement {
  const said = document.createElement('p');
  said.textContent = text;
  return said;
}

async function show(): Promise<void> {
  if (!field || !found) return;
  const { value } = field;
  if (value.trim() === '') return found.replaceChildren();
  try {
    const results = search(await readIndex(), value);
    // The text in the field has changed in the meantime.
    if (field.value !== value) return;
    const list = document.createElement('ul');
    list.append(...results.map(line));
    found.replaceChildren(results.length > 0 ? list : message('No matching titles or headings.'));
  } catch {
    index = undefined;
    found.replaceChildren(message('The search is not available: the service does not respond.'));
  }
}

/** Moves the focus among the results. The search field is above the first result. */
function move(by: number): void {
  const links = [...document.querySelectorAll<HTMLElement>('#docs-found a')];
  const at = links.findIndex((link) => link === document.activeElement) + by;
  if (at < 0) field?.focus();
  else links[Math.min(at, links.length - 1)]?.focus();
}

function close(): void {
  found?.replaceChildren();
}

if (box && field && found) {
  box.hidden = false;
  field.addEventListener('input', () => void show());
  field.addEventListener('focus', () => void readIndex().catch(() => undefined));
  box.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      move(event.key === 'ArrowDown' ? 1 : -1);
    } else if (event.key === 'Escape') {
      close();
      field.blur();
    } else if (event.key === 'Enter' && event.target === field) {
      document.querySelector<HTMLElement>('#docs-found a')?.click();
    }
  });
  // A result on the same page does not load another page, so the list must be closed.
  found.addEventListener('click', close);
  document.addEventListener('click', (event) => {
    if (!box.contains(event.target as Node)) close();
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.target === field) return;
    event.preventDefault();
    field.select();
  });
}

// ---- colors --------------------------------------------------------------------------------------------------------

const THEMES = ['auto', 'light', 'dark'] as const;
const SIGNS = { auto: '◐', light: '☀', dark: '☾' } as const;
const button = document.querySelector<HTMLButtonElement>('#docs-theme');

function stored(): (typeof THEMES)[number] {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem('baton.theme')) ?? 'auto';
  } catch {
    return 'auto';
  }
}

function apply(theme: (typeof THEMES)[number]): void {
  document.documentElement.dataset['theme'] = theme;
  if (!button) return;
  button.hidden = false;
  button.textContent = SIGNS[theme];
  button.title = `Colors: ${theme}`;
  button.setAttribute('aria-label', `Colors: ${theme}`);
}
let theme = stored();
apply(theme);
button?.addEventListener('click', () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'auto';
  apply(theme);
  try {
    localStorage.setItem('baton.theme', theme);
  } catch {
    /* The browser does not allow storage. */
  }
});

// On a narrow screen, the list of pages is above the page and closed.
const pages = document.querySelector<HTMLDetailsElement>('#docs-pages');
if (pages && matchMedia('(max-width: 900px)').matches) pages.open = false;
document.querySelector('.pages [aria-current]')?.scrollIntoView({ block: 'nearest' });
