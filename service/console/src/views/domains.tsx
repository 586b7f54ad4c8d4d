// The page of domains: the retention period of each domain, and the actions for it.
import type { JSX } from 'preact';
import { get } from '../api';
import type { Schemas } from '../fold';
import { REGISTER_DOMAIN, actionsOfDomain } from '../manage';
import { useReading } from '../reading';
import { pathOf } from '../route';
import { duration, millisecondsOf } from '../time';
import { Name, Refresh, Time, Trouble } from '../ui';
import { Actions } from './act';

export function Domains(): JSX.Element {
  const { value, problem, refresh } = useReading('domains', (signal) => get<Schemas['Domains']>('/v1/domains', signal));
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>Domains</h1>
        <span class="grow" />
        <Actions actions={[REGISTER_DOMAIN]} domain="" label="Register domain" done={refresh} />
        <Refresh refresh={refresh} />
      </div>
      <Trouble problem={problem} />
      <div class="cards">
        {(value?.domains ?? []).map((one) => (
          <section key={one.name} class="card compact" data-row tabIndex={-1}>
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
                <span>retention {duration(millisecondsOf(one.retention) ?? 0)}</span>
                <span>
                  created <Time at={one.createdAt} />
                </span>
              </span>
              <span class="grow" />
              <Actions
                actions={actionsOfDomain(one.name, one.deprecatedAt != null)}
                domain={one.name}
                label={`Actions for ${one.name}`}
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
