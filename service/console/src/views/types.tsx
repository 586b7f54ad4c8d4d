// The page of workflow types and activity types: the registered types, their properties, and the actions for them.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { type Problem, get, problemOf } from '../api';
import type { Schemas } from '../fold';
import { type KindOfType, actionsOfType, registerType } from '../manage';
import { domainPath } from '../paths';
import { useReading } from '../reading';
import { pathOf } from '../route';
import { rawOf } from '../raw';
import { Empty, Name, Payload, Refresh, Time, Trouble } from '../ui';
import { Actions } from './act';

type Listed = Schemas['ListedType'];
type Described = Schemas['RegisteredTypeWithWorkflowDefaults'] | Schemas['RegisteredTypeWithActivityDefaults'];
const PAGE = 200;
const KINDS: [KindOfType, string][] = [
  ['workflow', 'Workflows'],
  ['activity', 'Activities'],
];

export function Types({ domain, kind }: { domain: string; kind: KindOfType }): JSX.Element {
  const list = (after?: string, signal?: AbortSignal): Promise<Schemas['Types']> => {
    const query = new URLSearchParams({ limit: String(PAGE), ...(after === undefined ? {} : { after }) });
    return get<Schemas['Types']>(`${domainPath(domain)}/${kind}-types?${query}`, signal);
  };
  const { value, problem, refresh, add } = useReading(`${kind} ${domain}`, (signal) => list(undefined, signal));
  const { types, next } = value ?? {};
  const more = (): Promise<void> =>
    add(async (old) => {
      const page = await list(old.next ?? undefined);
      return { ...page, types: [...old.types, ...page.types] };
    });
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>Types</h1>
        <span class="grow" />
        <Actions actions={[registerType(domain, kind)]} domain={domain} label="Register type" done={refresh} />
        <Refresh refresh={refresh} />
      </div>
      <nav class="tabs kinds" aria-label="Kinds of types">
        {KINDS.map(([one, label]) => (
          <a
            key={one}
            href={pathOf({ page: 'types', domain, kind: one })}
            aria-current={one === kind ? 'page' : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <Trouble problem={problem} />
      {types?.length === 0 ? (
        <Empty>No types registered. Registration is optional: it sets defaults for a type.</Empty>
      ) : null}
      <div class="cards">
        {(types ?? []).map((one) => (
          <Type key={`${kind}${one.type}`} domain={domain} kind={kind} one={one} done={refresh} />
        ))}
      </div>
      {next == null ? null : (
        <button type="button" class="newer" onClick={() => void more()}>
          show more
        </button>
      )}
    </main>
  );
}

function Type({
  domain,
  kind,
  one,
  done,
}: {
  domain: string;
  kind: KindOfType;
  one: Listed;
  done: () => void;
}): JSX.Element {
  const [described, setDescribed] = useState<Described>();
  const [problem, setProblem] = useState<Problem>();
  const read = (): void => {
    get<Described>(`${domainPath(domain)}/${kind}-types/${encodeURIComponent(one.type)}`).then(
      setDescribed,
      (error: unknown) => setProblem(problemOf(error)),
    );
  };
  return (
    <section class="card compact" data-row tabIndex={-1}>
      <header>
        <h2>
          <Name>{one.name}</Name>
          {one.version == null ? null : (
            <span class="quieter">
              {' '}
              / <Name>{one.version}</Name>
            </span>
          )}
        </h2>
        <span class="meta">
          {one.deprecated ? <span class="warn">deprecated</span> : null}
          {kind === 'workflow' ? (
            <a
              class="link"
              href={`${pathOf({ page: 'runs', domain })}?${new URLSearchParams({ type: one.type }).toString()}`}
            >
              runs
            </a>
          ) : null}
        </span>
        <span class="grow" />
        <Actions
          actions={actionsOfType(domain, kind, one.type, one.deprecated)}
          domain={domain}
          label={`Actions for ${one.type}`}
          done={done}
        />
      </header>
      <details
        onToggle={(event) => {
          if (event.currentTarget.open && !described) read();
        }}
      >
        <summary class="quieter">details</summary>
        <Trouble problem={problem} />
        {described ? (
          <>
            <p class="quieter">
              {described.description ? (
                <>
                  <Name>{described.description}</Name> ·{' '}
                </>
              ) : null}
              registered <Time at={described.createdAt} />
              {described.deprecatedAt ? (
                <>
                  , deprecated <Time at={described.deprecatedAt} />
                </>
              ) : null}
            </p>
            <Payload name="defaults" json={rawOf(described, 'defaults')} />
          </>
        ) : null}
      </details>
    </section>
  );
}
