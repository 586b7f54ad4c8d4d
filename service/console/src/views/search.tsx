// The search field of the list of runs, which contains the filter as text.
import type { JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Filter, parseFilter, textOfFilter } from '../filter';
import { searchIsWanted } from '../state';
import { visible } from '../words';

export function Search({ filter, apply }: { filter: Filter; apply: (filter: Filter) => void }): JSX.Element {
  const text = textOfFilter(filter);
  const [typed, setTyped] = useState(text);
  const [problems, setProblems] = useState<string[]>([]);
  const field = useRef<HTMLInputElement>(null);
  // The text is set before the page is painted, so that it does not replace what the user types.
  useLayoutEffect(() => {
    setTyped(text);
    setProblems([]);
  }, [text]);
  useLayoutEffect(() => {
    if (searchIsWanted.peek()) field.current?.focus();
    searchIsWanted.value = false;
  }, []);
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const parsed = parseFilter(typed);
        setProblems(parsed.problems);
        if (parsed.problems.length === 0) {
          apply(parsed.filter);
          (document.activeElement as HTMLElement | null)?.blur();
        }
      }}
    >
      <label class="unseen" for="search">
        Filter runs
      </label>
      <input
        id="search"
        ref={field}
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        placeholder="id prefix, or status:open type:order tag:…"
        aria-describedby="search-problems"
        aria-invalid={problems.length > 0}
      />
      <kbd aria-hidden="true">/</kbd>
      <div id="search-problems" role="status">
        {problems.map((problem) => (
          <p key={problem}>{visible(problem)}</p>
        ))}
      </div>
    </form>
  );
}
