// The page of the service, for operators: the nodes that share the store, and the credentials with their levels.
// Secrets are not shown.
import type { JSX } from 'preact';
import { get } from '../api';
import type { Schemas } from '../fold';
import { useReading } from '../reading';
import type { Levels } from '../session';
import { Empty, Name, Refresh, Trouble } from '../ui';

export function Service(): JSX.Element {
  const { value, problem, refresh } = useReading('service', async (signal) => {
    const [{ nodes, dueShards }, { credentials }] = await Promise.all([
      get<Schemas['NodeList']>('/v1/nodes', signal),
      get<Schemas['CredentialList']>('/v1/credentials', signal),
    ]);
    return { nodes, dueShards, credentials };
  });
  const { nodes, dueShards, credentials } = value ?? {};
  return (
    <main class="page service-page" id="main">
      <div class="bar">
        <h1>Service</h1>
        <span class="grow" />
        <Refresh refresh={refresh} />
      </div>
      <Trouble problem={problem} />
      <h2>Nodes</h2>
      {nodes?.length === 0 ? <Empty>Single node (store not shared).</Empty> : null}
      {nodes?.length ? (
        <table class="grid nodes">
          <thead>
            <tr>
              <th>node</th>
              <th>share of timers</th>
            </tr>
          </thead>
          <tbody>
            {nodes.map((node) => (
              <tr key={node.address} data-row tabIndex={-1}>
                <td>
                  <Name class="strong">{node.address}</Name>
                  {node.responding ? <span class="quieter"> · this node</span> : null}
                </td>
                <td>
                  {node.dueShards} of {dueShards} shards
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      <h2>Credentials</h2>
      {credentials?.length === 0 ? (
        <Empty>No credentials: anyone who can reach the service has full access.</Empty>
      ) : null}
      {credentials?.length ? (
        <table class="grid">
          <thead>
            <tr>
              <th>name</th>
              <th>permissions</th>
            </tr>
          </thead>
          <tbody>
            {credentials.map((one) => (
              <tr key={one.name ?? ''} data-row tabIndex={-1}>
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
  ['operators', 'operator of'],
  ['applications', 'application of'],
  ['readers', 'reader of'],
  ['readersWithoutPayloads', 'reader, without payloads, of'],
  ['deciders', 'decider of'],
  ['runners', 'runner of'],
] as const;

function May({ levels }: { levels: Levels }): JSX.Element {
  if (levels.operator) return <span>full access</span>;
  return (
    <ul class="plain">
      {levels.metrics ? <li>metrics</li> : null}
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
