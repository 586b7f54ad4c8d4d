// The page of a query: the decider's answer, with buttons for the signals and updates that it links to. While the run
// is open, the answer is kept up to date.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { actionsOfRun } from '../actions';
import { Problem, get, problemOf, request } from '../api';
import { markdownOf } from '../markdown';
import { workflowPath } from '../paths';
import { pathOf } from '../route';
import { place } from '../state';
import { parse, rawOf } from '../raw';
import { Badge, Name, Payload, Time, Trouble, useKeys } from '../ui';
import { type Described, standingOf, visible } from '../words';
import { acting } from './act';
import { type DrawLink, Markdown } from './markdown';

/**
 * Time for which the service holds a query until its answer changes, in seconds. The maximum of the service is 60. Our
 * choice.
 */
const WAIT_S = 55;

interface Props {
  domain: string;
  workflowId: string;
  runId: string;
  query: string;
}

export function AskedPage({ domain, workflowId, runId, query }: Props): JSX.Element {
  const [run, setRun] = useState<Described>();
  const [answer, setAnswer] = useState<{ result: unknown; json: string | undefined; at: number }>();
  const [problem, setProblem] = useState<Problem>();
  const [isAsking, setAsking] = useState(true);
  const [asked, setAsked] = useState(0);
  const ask = (): void => setAsked((count) => count + 1);
  const input = place.value.query.get('input') ?? '';
  useKeys({ r: ask });
  useEffect(() => {
    document.title = `${query} of ${workflowId} · Baton`;
  }, [query, workflowId]);
  useEffect(() => {
    setAnswer(undefined);
  }, [domain, workflowId, runId, query, input]);
  useEffect(() => {
    const stop = new AbortController();
    const path = workflowPath(domain, workflowId);
    const of = `runId=${encodeURIComponent(runId)}`;
    const describe = async (): Promise<boolean> => {
      const described = await get<Described>(`${path}?${of}`, stop.signal);
      setRun(described);
      return described.status === 'open';
    };
    const fetched = (etag: string | undefined): Promise<Response> =>
      request(`${path}/queries/${encodeURIComponent(query)}?${of}${etag ? '&watch=result' : ''}`, {
        method: 'POST',
        headers: {
          accept: 'application/json',
          'content-type': 'application/json',
          ...(etag ? { 'if-none-match': etag, prefer: `wait=${WAIT_S}` } : {}),
        },
        body: input.trim() === '' ? '{}' : `{"input":${input}}`,
        signal: stop.signal,
      });
    const follow = async (): Promise<void> => {
      setAsking(true);
      setProblem(undefined);
      if (!isJson(input))
        throw new Problem(400, 'bad-json', 'the input in the address is not JSON', 'correct the address');
      let isOpen = await describe();
      let etag: string | undefined;
      do {
        const response = await fetched(etag);
        etag = response.headers.get('etag') ?? etag;
        if (response.status !== 304) {
          const given = parse<{ result?: unknown }>(await response.text());
          const json = given.result === undefined ? undefined : rawOf(given, 'result');
          setAnswer({ result: given.result, json, at: Date.now() });
          setAsking(false);
          isOpen = await describe();
        }
        // A hidden page sends no queries. When it becomes visible, it starts again.
      } while (isOpen && etag && !document.hidden);
    };
    follow().catch((error: unknown) => {
      if (stop.signal.aborted) return;
      setAsking(false);
      setProblem(problemOf(error));
    });
    const seen = (): void => {
      if (!document.hidden) ask();
    };
    document.addEventListener('visibilitychange', seen);
    return () => {
      stop.abort();
      document.removeEventListener('visibilitychange', seen);
    };
  }, [domain, workflowId, runId, query, input, asked]);

  const markdown = markdownOf(answer?.result);
  const known = problem?.members['known'];
  const pageOf = (name: string): string => pathOf({ page: 'asked', domain, workflowId, runId, query: name });
  return (
    <main class="page asked-page" id="main">
      <header class="run-head">
        <div class="title">
          {run ? <Badge status={standingOf(run)} /> : null}
          <h1>
            <a href={pathOf({ page: 'run', domain, workflowId, runId, view: 'turns' })}>
              <Name>{workflowId}</Name>
            </a>
          </h1>
          <span class="quieter">
            query <Name>{query}</Name>
          </span>
          <span class="grow" />
          <span class="quieter" role="status">
            {isAsking ? (
              'asking the decider…'
            ) : answer ? (
              <>
                as of <Time at={answer.at} />
              </>
            ) : null}
          </span>
          <button type="button" class="quiet" onClick={ask} title="Key r">
            Refresh
          </button>
        </div>
      </header>
      <Trouble problem={problem} />
      {Array.isArray(known) && known.length > 0 ? (
        <p>
          Known queries:{' '}
          {known.map(String).map((name) => (
            <a key={name} class="tag" href={pageOf(name)}>
              <Name>{name}</Name>
            </a>
          ))}
        </p>
      ) : null}
      {answer === undefined ? null : markdown !== undefined ? (
        <article class="asked">
          <Markdown text={markdown} drawLink={linksOf(domain, run, ask, pageOf)} />
        </article>
      ) : answer.json === undefined ? (
        <p class="quieter">Empty answer.</p>
      ) : (
        <Payload name="answer" json={answer.json} />
      )}
    </main>
  );
}

/** Returns whether a text is JSON or empty. */
function isJson(text: string): boolean {
  try {
    if (text.trim() !== '') JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * Draws a signal or an update as a button that opens its dialog with the input filled in, and a query as a link to its
 * page.
 */
function linksOf(
  domain: string,
  run: Described | undefined,
  done: () => void,
  pageOf: (query: string) => string,
): DrawLink {
  return function draw({ to, name, input }, label: ComponentChildren): JSX.Element {
    if (to === 'query') {
      const query = input ? `?${new URLSearchParams({ input }).toString()}` : '';
      return (
        <a class="link" href={`${pageOf(name)}${query}`}>
          {label}
        </a>
      );
    }
    const action = run && actionsOfRun(domain, run).find((one) => one.name === to);
    return (
      <button
        type="button"
        class="act"
        disabled={!action}
        title={action ? visible(`${action.label} ${name}`) : 'the run has closed'}
        onClick={() => {
          if (action) acting.value = { action, domain, done, filled: { '/name': name, input } };
        }}
      >
        {label}
      </button>
    );
  };
}
