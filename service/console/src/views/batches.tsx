// The page of batches of a domain, and of a single batch: progress, refusals, and actions.
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { get } from '../api';
import { type Batch, actionsOfBatch, progressOf, runs, selectionOf, wordsOfOperation } from '../batches';
import { useChanges } from '../changes';
import type { Schemas } from '../fold';
import { rawOf } from '../raw';
import { domainPath } from '../paths';
import { useReading } from '../reading';
import { pathOf } from '../route';
import { mayDo } from '../session';
import { go } from '../state';
import { Badge, Empty, Name, Payload, Refresh, Time, Trouble } from '../ui';
import { visible } from '../words';
import { Actions } from './act';
import { batching } from './batch';

/** Number of batches per request. Our choice: each is read separately. */
const PAGE = 20;
/**
 * Interval of reading while a batch is running, in milliseconds. The changes of a domain are those of its runs, so they
 * do not tell when a batch has ended. Our choice.
 */
const RUNNING_MS = 2000;

interface Read {
  batches: Batch[];
  next: string | undefined;
}

export function Batches({ domain, batchId }: { domain: string; batchId: string | undefined }): JSX.Element {
  // Completed batches do not change, so each is read once.
  const completed = useRef(new Map<string, Batch>());
  const describe = async (id: string, signal?: AbortSignal): Promise<Batch> => {
    const known = completed.current.get(id);
    if (known) return known;
    const batch = await get<Batch>(`${domainPath(domain)}/batches/${encodeURIComponent(id)}`, signal);
    if (batch.status === 'completed') completed.current.set(id, batch);
    return batch;
  };
  const list = async (page: string | undefined, signal?: AbortSignal): Promise<Read> => {
    const asked = new URLSearchParams({ limit: String(PAGE), ...(page ? { page } : {}) });
    const found = await get<Schemas['Batches']>(`${domainPath(domain)}/batches?${asked}`, signal);
    // A batch may be deleted in the meantime.
    const each = found.batches.map((one) => describe(one.batchId, signal).catch(() => undefined));
    const batches = (await Promise.all(each)).filter((one) => one !== undefined);
    return { batches, next: found.nextPage ?? undefined };
  };
  const { value, problem, refresh, add } = useReading(`${domain} ${batchId ?? ''}`, async (signal) =>
    batchId === undefined ? list(undefined, signal) : { batches: [await describe(batchId, signal)], next: undefined },
  );
  const batches = value?.batches ?? [];
  // If the user has loaded further pages, the data is not refreshed, because that would remove them.
  const follow = async (): Promise<void> => {
    if (batches.length <= PAGE) await refresh();
  };
  useChanges(domain, follow);
  const isRunning = batches.some(({ status }) => status === 'running');
  const newest = useRef(follow);
  newest.current = follow;
  useEffect(() => {
    if (!isRunning) return undefined;
    // The next read begins after the last one, because it would cancel a read in progress.
    const stop = new AbortController();
    const read = async (): Promise<void> => {
      if (stop.signal.aborted) return;
      if (!document.hidden) await newest.current();
      if (!stop.signal.aborted) setTimeout(() => void read(), RUNNING_MS);
    };
    const first = setTimeout(() => void read(), RUNNING_MS);
    return () => {
      clearTimeout(first);
      stop.abort();
    };
  }, [isRunning]);
  const isOne = batchId !== undefined;
  const done = async (): Promise<void> => {
    await refresh();
  };
  return (
    <main class="page" id="main">
      <div class="bar">
        <h1>
          {isOne ? (
            <>
              <a class="quieter" href={pathOf({ page: 'batches', domain })}>
                Batches
              </a>{' '}
              <span class="quieter" aria-hidden="true">
                /
              </span>{' '}
              <Name>{batchId}</Name>
            </>
          ) : (
            'Batches'
          )}
        </h1>
        <span class="grow" />
        {!isOne && mayDo('batch', domain) ? (
          <button
            type="button"
            class="act"
            onClick={() => {
              batching.value = { domain, filter: { status: 'blocked' }, done: () => undefined };
            }}
          >
            Create batch
          </button>
        ) : null}
        <Refresh refresh={refresh} />
      </div>
      <Trouble problem={problem} />
      {value && batches.length === 0 ? (
        <Empty>
          No batches. A batch performs one operation on many runs. Select runs in the{' '}
          <a class="underlined" href={pathOf({ page: 'runs', domain })}>
            list of runs
          </a>{' '}
          to create one.
        </Empty>
      ) : null}
      <div class="cards">
        {batches.map((batch) => (
          <BatchCard
            key={batch.batchId}
            batch={batch}
            domain={domain}
            isOne={isOne}
            done={(isDeleted) => {
              completed.current.delete(batch.batchId);
              if (isOne && isDeleted) go({ page: 'batches', domain });
              else void done();
            }}
          />
        ))}
      </div>
      {value?.next ? (
        <p>
          <button
            type="button"
            class="act"
            onClick={() =>
              void add(async (old) => {
                const more = await list(old.next);
                return { ...more, batches: [...old.batches, ...more.batches] };
              })
            }
          >
            Show more
          </button>
        </p>
      ) : null}
    </main>
  );
}

function BatchCard({
  batch,
  domain,
  isOne,
  done,
}: {
  batch: Batch;
  domain: string;
  isOne: boolean;
  done: (isDeleted: boolean) => void;
}): JSX.Element {
  const { came, total, words } = progressOf(batch);
  const title = wordsOfOperation(batch.operation);
  const { identity, by } = batch;
  const [remove, others] = [true, false].map((isDelete) =>
    actionsOfBatch(domain, batch).filter(({ name }) => (name === 'delete') === isDelete),
  );
  return (
    <section class="card batch" data-row tabIndex={-1}>
      <header>
        <h2>{isOne ? title : <a href={pathOf({ page: 'batches', domain, batchId: batch.batchId })}>{title}</a>}</h2>
        <Badge status={batch.status} />
        <span class="meta">
          {batch.completedAt ? (
            <span>
              completed <Time at={batch.completedAt} />
            </span>
          ) : (
            <span>{runs(batch.pace)} per second</span>
          )}
        </span>
        <div class="batch-actions">
          <Actions actions={others ?? []} domain={domain} label={`Actions for ${title}`} done={() => done(false)} />
          <Actions actions={remove ?? []} domain={domain} label={`Delete ${title}`} done={() => done(true)} />
        </div>
      </header>
      <p class="batch-runs">
        <Name class="mono">{selectionOf(batch.filter) || 'all runs that the operation accepts'}</Name>
      </p>
      {batch.status === 'completed' ? null : (
        <progress max={Math.max(1, total)} value={came} aria-label={`Progress of ${title}`} />
      )}
      <p role={isOne ? 'status' : undefined}>
        {words}
        {batch.refused > 0 ? <RefusedBy batch={batch} /> : null}
      </p>
      <p class="quieter">
        created <Time at={batch.createdAt} />
        {identity ? (
          <>
            {' '}
            by <Name>{identity}</Name>
          </>
        ) : null}
        {by ? (
          <>
            {' '}
            (credential <Name>{by}</Name>)
          </>
        ) : null}
        {batch.reason ? (
          <>
            : <Name>{batch.reason}</Name>
          </>
        ) : null}
      </p>
      {isOne ? <Refusals batch={batch} domain={domain} /> : null}
      {isOne && batch.operation.input !== undefined ? (
        <Payload name="input" json={rawOf(batch.operation, 'input')} />
      ) : null}
    </section>
  );
}

/** Shows the numbers of refused runs by error code. */
function RefusedBy({ batch }: { batch: Batch }): JSX.Element {
  return (
    <span class="quieter">
      {' '}
      ·{' '}
      {Object.entries(batch.refusedByCode).map(([code, count], index) => (
        <span key={code}>
          {index > 0 ? ', ' : ''}
          {count.toLocaleString('en')} <code>{code}</code>
        </span>
      ))}
    </span>
  );
}

function Refusals({ batch, domain }: { batch: Batch; domain: string }): JSX.Element | null {
  if (batch.refused === 0) return null;
  const more = batch.refused - batch.refusals.length;
  return (
    <section class="refusals">
      <h3>refused</h3>
      <ul>
        {batch.refusals.map(({ workflowId, runId, code, reason }) => (
          <li key={`${workflowId} ${runId ?? ''}`}>
            <a
              class="link"
              href={pathOf({ page: 'run', domain, workflowId, ...(runId ? { runId } : {}), view: 'turns' })}
            >
              <Name>{workflowId}</Name>
            </a>{' '}
            <span>{visible(reason)}</span> <code>{code}</code>
          </li>
        ))}
      </ul>
      {more > 0 ? <p class="quieter">and {more.toLocaleString('en')} more</p> : null}
    </section>
  );
}
