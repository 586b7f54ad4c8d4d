// The nodes over the store, and the credentials: who may do what, and nothing of what they are known by. For operators.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Problem, get, problemOf } from '../api';
import type { Schemas } from '../fold';
import type { Levels } from '../session';
import { Empty, Name, Trouble, useKeys } from '../ui';

export function Service(): JSX.Element {
  const [nodes, setNodes] = useState<Schemas['ListedNode'][]>();
  const [credentials, setCredentials] = useState<Levels[]>();
  const [problem, setProblem] = useState<Problem>();
  const [asked, setAsked] = useState(0);
  const refresh = (): void => setAsked((count) => count + 1);
  useKeys({ r: refresh });
  useEffect(() => {
    const stop = new AbortController();
    Promise.all([
      get<Schemas['NodeList']>('/v1/nodes', stop.signal),
      get<Schemas['CredentialList']>('/v1/credentials', stop.signal),
    ]).then(
      ([found, known]) => {
        setNodes(found.nodes);
        setCredentials(known.credentials);
        setProblem(undefined);
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setProblem(problemOf(error));
      },
    );
    return () => stop.abort();
  }, [asked]);
  return (
    <main class="page service-page" id="main">
      <div class="bar">
        <h1>Service</h1>
        <span class="grow" />
        <button type="button" class="quiet" onClick={refresh} title="Refresh (r)">
          Refresh
        </button>
      </div>
      <Trouble problem={problem} />
      <h2>Nodes</h2>
      {nodes?.length === 0 ? <Empty>This one alone: its store is shared with no other.</Empty> : null}
      {nodes?.length ? (
        <ul class="plain nodes">
          {nodes.map(({ address, answers }) => (
            <li key={address}>
              <Name class="strong">{address}</Name>
              {answers ? <span class="quieter"> · the one that answers here</span> : null}
            </li>
          ))}
        </ul>
      ) : null}
      <h2>Credentials</h2>
      {credentials?.length === 0 ? <Empty>There are none: whoever reaches the service may do everything.</Empty> : null}
      {credentials?.length ? (
        <table class="grid">
          <thead>
            <tr>
              <th>name</th>
              <th>may</th>
            </tr>
          </thead>
          <tbody>
            {credentials.map((one) => (
              <tr key={one.name ?? ''}>
                <td class="strong">
                  <Name>{one.name ?? ''}</Name>
                </td>
                <td>
                  <May levels={one} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </main>
  );
}

const KINDS = [
  ['operators', 'operate'],
  ['applications', 'use runs of'],
  ['readers', 'read'],
  ['readersWithoutPayloads', 'read, without payloads,'],
  ['deciders', 'decide on'],
  ['runners', 'run activities of'],
] as const;

function May({ levels }: { levels: Levels }): JSX.Element {
  if (levels.operator) return <span>do everything</span>;
  return (
    <ul class="plain">
      {levels.metrics ? <li>read the metrics</li> : null}
      {KINDS.filter(([kind]) => (levels[kind] ?? []).length > 0).map(([kind, words]) => (
        <li key={kind}>
          {words}{' '}
          {(levels[kind] ?? []).map((name) => (
            <span key={name} class="tag">
              <Name>{name === '*' ? 'all domains' : name}</Name>
            </span>
          ))}
        </li>
      ))}
    </ul>
  );
}
