// The frame of all pages: navigation, theme, help, and the choice of the page for the URL.
import type { JSX } from 'preact';
import { render } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clockAhead, get, reachable, turnedAway } from './api';
import type { Schemas } from './fold';
import { hasNewer, lookForNewer } from './newer';
import { type Route, pathOf } from './route';
import { clock, domain, go, helpIsOpen, route, theme } from './state';
import { beginnings, readSession, session } from './session';
import { duration } from './time';
import { Empty } from './ui';
import { ActDialog, Said } from './views/act';
import { BatchDialog } from './views/batch';
import { Batches } from './views/batches';
import { BulkDialog } from './views/bulk';
import { DropTarget, Recorded } from './views/recorded';
import { RunPage } from './views/run';
import { Runs } from './views/runs';
import { Schedules } from './views/schedules';
import { ListPage } from './views/list';
import { Lists } from './views/lists';
import { Start } from './views/start';
import { Types } from './views/types';
import { AskedPage } from './views/asked';
import { Domains } from './views/domains';
import { Service } from './views/service';
import { SignIn, Who } from './views/signin';

/** Titles of pages. Pages that are not listed here set their titles themselves. */
const TITLES: Partial<Record<Route['page'], string>> = {
  start: 'Overview',
  runs: 'Runs',
  lists: 'Task lists',
  batches: 'Batches',
  schedules: 'Schedules',
  types: 'Types',
  domains: 'Domains',
  service: 'Service',
  unknown: 'Page not found',
};

function Page(): JSX.Element {
  const at = route.value;
  useEffect(() => {
    const title = TITLES[at.page];
    if (title) document.title = `${title} · Baton`;
  }, [at.page]);
  switch (at.page) {
    case 'start':
      return <Start />;
    case 'runs':
      return <Runs domain={at.domain} />;
    case 'run':
      return <RunPage domain={at.domain} workflowId={at.workflowId} runId={at.runId} view={at.view} />;
    case 'lists':
      return <Lists domain={at.domain} />;
    case 'list':
      return <ListPage domain={at.domain} name={at.list} />;
    case 'batches':
      return <Batches domain={at.domain} batchId={at.batchId} />;
    case 'schedules':
      return <Schedules domain={at.domain} scheduleId={at.scheduleId} />;
    case 'recorded':
      return <Recorded view={at.view} />;
    case 'types':
      return <Types domain={at.domain} kind={at.kind} />;
    case 'domains':
      return <Domains />;
    case 'service':
      return <Service />;
    case 'asked':
      return <AskedPage {...at} />;
    case 'unknown':
      return (
        <main class="page" id="main">
          <Empty>
            Page not found. <a href={pathOf({ page: 'start' })}>Go to the overview</a>
          </Empty>
        </main>
      );
  }
}

function DomainChoice(): JSX.Element | null {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => {
    get<Schemas['Domains']>('/v1/domains').then(
      ({ domains }) => setNames(domains.map(({ name }) => name)),
      () => undefined,
    );
  }, [beginnings.value]);
  if (names.length < 2) return null;
  return (
    <select
      aria-label="Domain"
      value={domain.value}
      onChange={(event) => go({ page: 'runs', domain: event.currentTarget.value })}
    >
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

function Top(): JSX.Element {
  const at = route.value;
  const here = at.page === 'run' || at.page === 'asked' ? 'runs' : at.page === 'list' ? 'lists' : at.page;
  const link = (to: Route, label: string): JSX.Element => (
    <a href={pathOf(to)} aria-current={here === to.page ? 'page' : undefined}>
      {label}
    </a>
  );
  // On a phone, the navigation is a row that is wider than the window.
  useEffect(() => {
    document.querySelector('.top nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [at.page]);
  const themes = { auto: 'light', light: 'dark', dark: 'auto' } as const;
  const signs = { auto: '◐', light: '☀', dark: '☾' } as const;
  return (
    <header class="top">
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>('#main')?.focus();
        }}
      >
        Skip to content
      </a>
      <a class="brand" href={pathOf({ page: 'start' })} aria-label="Baton, overview">
        <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden="true">
          <path d="M4 18 18 4" />
          <circle cx="6.2" cy="15.8" r="3.2" />
        </svg>
        Baton
      </a>
      <nav aria-label="Pages">
        {link({ page: 'start' }, 'Overview')}
        {link({ page: 'runs', domain: domain.value }, 'Runs')}
        {link({ page: 'lists', domain: domain.value }, 'Task lists')}
        {link({ page: 'batches', domain: domain.value }, 'Batches')}
        {link({ page: 'schedules', domain: domain.value }, 'Schedules')}
        {link({ page: 'types', domain: domain.value, kind: 'workflow' }, 'Types')}
        {link({ page: 'domains' }, 'Domains')}
        {session.value?.permissions.operator ? link({ page: 'service' }, 'Service') : null}
        <a href="/docs/">Docs</a>
      </nav>
      <span class="grow" />
      <DomainChoice />
      <Who />
      <button
        type="button"
        class="quiet wide"
        title="Switch between relative and exact times (t)"
        onClick={() => {
          clock.value = clock.value === 'relative' ? 'exact' : 'relative';
        }}
      >
        Times: {clock.value}
      </button>
      <button
        type="button"
        class="quiet"
        title={`Colors: ${theme.value}`}
        aria-label={`Colors: ${theme.value}`}
        onClick={() => {
          theme.value = themes[theme.value];
        }}
      >
        {signs[theme.value]}
      </button>
      <button
        type="button"
        class="quiet wide"
        title="Keyboard shortcuts (?)"
        aria-label="Keyboard shortcuts"
        onClick={() => {
          helpIsOpen.value = true;
        }}
      >
        ?
      </button>
    </header>
  );
}

const KEYS: [string, string][] = [
  ['/', 'filter runs'],
  ['j  k', 'next, previous'],
  ['Enter', 'open'],
  ['x  X', 'select the run, all matching runs'],
  ['g s', 'overview'],
  ['g r', 'runs'],
  ['g l', 'task lists'],
  ['g b', 'batches'],
  ['g c', 'schedules'],
  ['g t', 'types'],
  ['g d', 'domains'],
  ['g n', 'nodes and credentials'],
  ['g h', 'a recorded history'],
  ['1 – 4', 'views: turns, timeline, future, events'],
  ['[  ]', 'show the run as of the previous, the next event'],
  ['Esc', 'close the event, clear the selection'],
  ['r', 'refresh'],
  ['t', 'switch between relative and exact times'],
  ['?', 'show the keyboard shortcuts'],
];

function Help(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = helpIsOpen.value;
  useLayoutEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="keys"
      onClose={() => {
        helpIsOpen.value = false;
      }}
      onClick={(event) => {
        if (event.target === dialog.current) helpIsOpen.value = false;
      }}
    >
      <h2 id="keys">Keyboard shortcuts</h2>
      <dl>
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              {key.split('  ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <button
        type="button"
        onClick={() => {
          helpIsOpen.value = false;
        }}
      >
        Close
      </button>
    </dialog>
  );
}

function Notices(): JSX.Element | null {
  if (!reachable.value)
    return (
      <div class="notice" role="status">
        The service does not respond. This page may be out of date.
      </div>
    );
  if (hasNewer.value)
    return (
      <div class="notice" role="status">
        The service has a newer version of the console.{' '}
        <button type="button" class="link" onClick={() => location.reload()}>
          Reload
        </button>
      </div>
    );
  if (clockAhead.value !== 0)
    return (
      <div class="notice" role="status">
        This device’s clock is {duration(Math.abs(clockAhead.value))} {clockAhead.value > 0 ? 'behind' : 'ahead of'} the
        service’s. Times on this page follow the service’s clock.
      </div>
    );
  return null;
}

function Console(): JSX.Element {
  // Without a session, only the sign-in dialog is shown.
  if (turnedAway.value && session.value === undefined)
    return (
      <>
        <header class="top">
          <span class="brand">Baton</span>
        </header>
        <main class="page" id="main" />
        <SignIn />
      </>
    );
  return (
    <>
      <Top />
      <Notices />
      <Page key={beginnings.value} />
      <Help />
      <ActDialog />
      <BulkDialog />
      <BatchDialog />
      <DropTarget />
      <Said />
      <SignIn />
    </>
  );
}

readSession();
lookForNewer();
render(<Console />, document.body);
