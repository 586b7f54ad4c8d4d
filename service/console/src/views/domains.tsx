// Domains: each with how long its runs are kept, and what can be done with it.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Problem, get, problemOf } from '../api';
import type { Schemas } from '../fold';
import { REGISTER_DOMAIN, actionsOfDomain } from '../manage';
import { pathOf } from '../route';
import { duration, millisecondsOf } from '../time';
import { Name, Time, Trouble, useKeys } from '../ui';
import { Actions } from './act';

export function Domains(): JSX.Element {
  const [domains, setDomains] = useState<Schemas['Domain'][]>();
  const [problem, setProblem] = useState<Problem>();
  const [asked, setAsked] = useState(0);
  const refresh = (): void => setAsked((count) => count + 1);
  useKeys({ r: refresh });
  useEffect(() => {
    const stop = new AbortController();
    get<Schemas['Domains']>('/v1/domains', stop.signal).then(
      (answer) => {
        setDomains(answer.domains);
        setProblem(undefined);
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setProblem(problemOf(error));
      },
    );
    return () => stop.abort();
  }, [asked]);
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>Domains</h1>
        <span class="grow" />
        <Actions actions={[REGISTER_DOMAIN]} domain="" label="Register a domain" done={refresh} />
        <button type="button" class="quiet" onClick={refresh} title="Refresh (r)">
          Refresh
        </button>
      </div>
      <Trouble problem={problem} />
      <div class="cards">
        {(domains ?? []).map((one) => (
          <section key={one.name} class="card compact">
            <header>
              <h2>
                <a href={pathOf({ page: 'runs', domain: one.name })}>
                  <Name>{one.name}</Name>
                </a>
              </h2>
              <span class="meta">
                {one.deprecatedAt ? (
                  <span class="warn">
                    deprecated <Time at={one.deprecatedAt} />
                  </span>
                ) : null}
                <span>keeps closed runs for {duration(millisecondsOf(one.retention) ?? 0)}</span>
                <span>
                  made <Time at={one.createdAt} />
                </span>
              </span>
              <span class="grow" />
              <Actions
                actions={actionsOfDomain(one.name, one.deprecatedAt != null)}
                domain={one.name}
                label={`What can be done with ${one.name}`}
                done={refresh}
              />
            </header>
            {one.description ? (
              <p class="reason">
                <Name>{one.description}</Name>
              </p>
            ) : null}
            {Object.keys(one.tags ?? {}).length > 0 ? (
              <p>
                {Object.entries(one.tags ?? {}).map(([key, value]) => (
                  <span key={key} class="tag">
                    <Name>{`${key}: ${value}`}</Name>
                  </span>
                ))}
              </p>
            ) : null}
          </section>
        ))}
      </div>
    </main>
  );
}
