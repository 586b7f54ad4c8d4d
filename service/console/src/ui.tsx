// Components that all pages use. Data of runs is always shown as text, never as markup.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { clock, now, pageKeys } from './state';
import { clockTime, exactTime, lasting, relative } from './time';
import { type Problem, turnedAway } from './api';
import { pretty, rawList } from './raw';
import { visible } from './words';

const SIGNS: Record<string, string> = {
  open: '●',
  paused: '‖',
  blocked: '■',
  stuck: '◆',
  failing: '▲',
  retrying: '↻',
  repeating: '⟳',
  closed: '○',
  success: '✓',
  failed: '✕',
  canceled: '⊘',
  'timed-out': '◷',
  terminated: '■',
  'continued-as-new': '→',
  running: '●',
  stopped: '‖',
  completed: '✓',
};

export function Badge({ status }: { status: string }): JSX.Element {
  return (
    <span class={`badge s-${status}`}>
      <span class="sign" aria-hidden="true">
        {SIGNS[status] ?? '·'}
      </span>
      {status.replace(/-/g, ' ')}
    </span>
  );
}

/** Shows a name or id that comes from outside the console. */
export function Name({ children, class: more = '' }: { children: string; class?: string }): JSX.Element {
  return <bdi class={`name ${more}`}>{visible(children)}</bdi>;
}

export function Time({ at }: { at: string | number | undefined | null }): JSX.Element | null {
  if (at == null) return null;
  const instant = typeof at === 'number' ? at : Date.parse(at);
  return (
    <time dateTime={new Date(instant).toISOString()} title={exactTime(instant)}>
      {clock.value === 'relative' ? relative(instant, now.value) : clockTime(instant, now.value)}
    </time>
  );
}

/** Shows how long something has lasted, or, if the user prefers exact times, since when. */
export function Since({ at }: { at: string }): JSX.Element {
  const instant = Date.parse(at);
  const isRelative = clock.value === 'relative';
  return (
    <time dateTime={at} title={exactTime(instant)}>
      {isRelative ? `for\u00a0${lasting(instant, now.value)}` : `since ${clockTime(instant, now.value)}`}
    </time>
  );
}

export function Trouble({ problem }: { problem: Problem | undefined }): JSX.Element | null {
  // If credentials are missing, the sign-in dialog is shown instead.
  if (!problem || (problem.status === 401 && turnedAway.value)) return null;
  return (
    <div class="trouble" role="alert">
      <b>{visible(problem.detail)}</b>
      <span> · {visible(problem.status === 401 ? 'sign in again' : problem.advice)}</span> <code>{problem.code}</code>
    </div>
  );
}

export function Refresh({ refresh }: { refresh: () => Promise<void> }): JSX.Element {
  return (
    <button type="button" class="quiet" onClick={() => void refresh()} title="Refresh (r)">
      Refresh
    </button>
  );
}

/** Sets keys of the page while a component is mounted. They work as soon as the component is painted. */
export function useKeys(keys: Record<string, () => void>): void {
  const newest = useRef(keys);
  newest.current = keys;
  useLayoutEffect(() => {
    const mine = Object.keys(keys).map((key): [string, () => void] => [key, () => newest.current[key]?.()]);
    for (const [key, does] of mine) pageKeys.set(key, (pageKeys.get(key) ?? new Set()).add(does));
    return () => {
      for (const [key, does] of mine) {
        const all = pageKeys.get(key);
        all?.delete(does);
        if (all?.size === 0) pageKeys.delete(key);
      }
    };
  }, []);
}

// ---- rows that are drawn only where one looks ----------------------------------------------------------------------

interface RowsProps {
  count: number;
  height: number;
  label: string;
  /** Index of the row to keep in view. */
  at?: number | undefined;
  draw: (index: number) => JSX.Element;
  onEnd?: () => void;
  /** Content above the rows, which does not scroll. */
  head?: JSX.Element | null;
  class?: string;
}

/** Number of rows drawn above and below the visible rows. Our choice. */
const ROWS_BEYOND = 12;
/** Height of the content above the rows, as in the stylesheet. */
const HEAD = 30;

export function Rows({ count, height, label, at, draw, onEnd, head, class: more = '' }: RowsProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, last: 60 });
  const measure = (): void => {
    const { current } = box;
    if (!current) return;
    const first = Math.max(0, Math.floor(current.scrollTop / height) - ROWS_BEYOND);
    const last = Math.min(count, Math.ceil((current.scrollTop + current.clientHeight) / height) + ROWS_BEYOND);
    setRange((old) => (old.first === first && old.last === last ? old : { first, last }));
    if (onEnd && last >= count) onEnd();
  };
  useLayoutEffect(measure, [count, height]);
  useEffect(() => {
    const { current } = box;
    if (!current) return undefined;
    const watch = new ResizeObserver(measure);
    watch.observe(current);
    return () => watch.disconnect();
  });
  useLayoutEffect(() => {
    const { current } = box;
    if (!current || at === undefined || at < 0) return;
    const top = at * height;
    const above = head ? HEAD : 0;
    if (top < current.scrollTop) current.scrollTop = top;
    else if (top + above + height > current.scrollTop + current.clientHeight)
      current.scrollTop = top + above + height - current.clientHeight;
  }, [at, height]);
  const drawn: JSX.Element[] = [];
  for (let index = range.first; index < Math.min(range.last, count); index++) drawn.push(draw(index));
  return (
    <div
      ref={box}
      class={`rows ${more}`}
      onScroll={measure}
      role="table"
      aria-label={label}
      aria-rowcount={count}
      tabIndex={0}
    >
      {head}
      <div style={{ height: `${count * height}px` }} role="rowgroup">
        <div style={{ transform: `translateY(${range.first * height}px)` }} role="presentation">
          {drawn}
        </div>
      </div>
    </div>
  );
}

/** Returns whether the window is at most this wide. The widths are those of the stylesheet. */
export function useNarrow(pixels: 700 | 1000 = 700): boolean {
  const query = `(max-width: ${pixels}px)`;
  const [narrow, setNarrow] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = (): void => setNarrow(media.matches);
    media.addEventListener('change', changed);
    return () => media.removeEventListener('change', changed);
  }, []);
  return narrow;
}

// ---- payloads ------------------------------------------------------------------------------------------------------

/**
 * Maximum number of characters of a text, and of members of an object, that are shown before the user asks for more.
 * Our choice.
 */
const TEXT_SHOWN_MAX = 400;
const MEMBERS_SHOWN_MAX = 40;
/** Number of levels of objects and arrays that are expanded initially. Our choice. */
const LEVELS_OPEN_MAX = 2;

function Text({ text }: { text: string }): JSX.Element {
  const [whole, setWhole] = useState(false);
  if (text.length <= TEXT_SHOWN_MAX || whole) return <span class="text">"{visible(text)}"</span>;
  return (
    <span class="text">
      "{visible(text.slice(0, TEXT_SHOWN_MAX))}…
      <button type="button" class="more" onClick={() => setWhole(true)}>
        show all {text.length.toLocaleString('en')} characters
      </button>
    </span>
  );
}

function Tree({ json, name, level }: { json: string; name?: string; level: number }): JSX.Element {
  const isList = json.startsWith('[');
  const isTree = isList || json.startsWith('{');
  const members = useMemo(() => (isTree ? rawList(json) : []), [json]);
  const [open, setOpen] = useState(level < LEVELS_OPEN_MAX && members.length <= MEMBERS_SHOWN_MAX);
  const [shown, setShown] = useState(MEMBERS_SHOWN_MAX);
  const label = name === undefined ? null : <span class="key">{visible(name)}: </span>;
  if (!isTree) {
    // A number is shown as it was recorded, because the browser may convert it to another number.
    const isText = json.startsWith('"');
    const kind = isText ? 'string' : json === 'null' ? 'object' : /^[tf]/.test(json) ? 'boolean' : 'number';
    return (
      <div class="leaf">
        {label}
        {isText ? <Text text={JSON.parse(json) as string} /> : <span class={`v-${kind}`}>{json}</span>}
      </div>
    );
  }
  const size = isList ? `[ ${members.length} ]` : `{ ${members.length} }`;
  if (members.length === 0)
    return (
      <div class="leaf">
        {label}
        <span class="size">{isList ? '[ ]' : '{ }'}</span>
      </div>
    );
  return (
    <div class="node">
      <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden="true">{open ? '▾' : '▸'}</span> {label}
        <span class="size">{size}</span>
      </button>
      {open ? (
        <div class="members">
          {members.slice(0, shown).map(([key, member], index) => (
            <Tree key={index} name={key} json={member} level={level + 1} />
          ))}
          {members.length > shown ? (
            <button type="button" class="more" onClick={() => setShown(shown + 500)}>
              show {Math.min(500, members.length - shown)} more of {members.length}
            </button>
          ) : null}
        </div>
      ) : null}
    </div>
  );
}

/** JSON as it was recorded: with the original numbers, duplicate members and order. */
export function Payload({ json, name }: { json: string; name?: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(pretty(json)).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1200);
    });
  };
  return (
    <section class="payload">
      {name === undefined ? null : (
        <h3>
          {name}
          <button type="button" class="quiet" onClick={copy}>
            {copied ? 'copied' : 'copy'}
          </button>
        </h3>
      )}
      <div class="tree">
        <Tree json={json.trim()} level={0} />
      </div>
    </section>
  );
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}
