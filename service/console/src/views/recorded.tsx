// A recorded history, shown like a run. A file is dropped on any page or chosen on this page. It is not sent anywhere.
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useErrorBoundary, useLayoutEffect } from 'preact/hooks';
import { type Row, stateAsOf } from '../fold';
import { History } from '../history';
import { NoHistory, readHistory } from '../recorded';
import { type View, pathOf } from '../route';
import { go, route } from '../state';
import { Badge, Time } from '../ui';
import { closedReason, visible } from '../words';
import { Facts } from './head';
import { RunOf } from './run';

/** Maximum size of a file that is read. Our choice: a history of the maximum length is smaller. */
const BYTES_MAX = 256 * 1024 * 1024;

interface Opened {
  name: string;
  history?: History;
  /** Reason why the file is not a history. */
  problem?: string;
}
const opened = signal<Opened | undefined>(undefined);
const isOver = signal(false);

function historyOf(row: Row): History {
  const first = row.events[0];
  const started = first?.type === 'WorkflowStarted' ? first : undefined;
  const history = new History('', started?.workflowId ?? 'a recorded history', started?.runId);
  history.row.value = row;
  history.lastId.value = row.last;
  history.connection.value = 'closed';
  return history;
}

/** Reads a file, and shows its history or the reason why it is not one. */
export async function openFile(file: File): Promise<void> {
  try {
    if (file.size > BYTES_MAX) throw new NoHistory('The file is larger than any history.');
    opened.value = { name: file.name, history: historyOf(readHistory(await file.text())) };
  } catch (error) {
    const problem = error instanceof NoHistory ? error.message : `The file could not be read: ${String(error)}`;
    opened.value = { name: file.name, problem };
  }
  const at = route.value;
  go({ page: 'recorded', view: at.page === 'recorded' ? at.view : 'turns' });
}

/** Accepts a file that is dropped on any page. */
export function DropTarget(): JSX.Element | null {
  // The listeners are added before the page is painted, so that a visible page always accepts files.
  useLayoutEffect(() => {
    const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;
    const over = (event: DragEvent): void => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isOver.value = true;
    };
    const leave = (event: DragEvent): void => {
      if (event.relatedTarget === null) isOver.value = false;
    };
    const drop = (event: DragEvent): void => {
      isOver.value = false;
      const file = event.dataTransfer?.files[0];
      if (!file) return;
      event.preventDefault();
      void openFile(file);
    };
    addEventListener('dragover', over);
    addEventListener('dragleave', leave);
    addEventListener('drop', drop);
    return () => {
      removeEventListener('dragover', over);
      removeEventListener('dragleave', leave);
      removeEventListener('drop', drop);
    };
  }, []);
  return isOver.value ? <div class="drop">Drop a recorded history here</div> : null;
}

export function Recorded({ view }: { view: View }): JSX.Element {
  const { history, name, problem } = opened.value ?? {};
  useEffect(() => {
    document.title = `${name ?? 'A recorded history'} · Baton`;
  }, [name]);
  if (history && name !== undefined) return <Shown key={name} name={name} history={history} view={view} />;
  return (
    <main class="page" id="main">
      <h1>A recorded history</h1>
      {problem ? (
        <div class="trouble" role="alert">
          <b>Cannot read {visible(name ?? '')} as a history.</b> <span>{visible(problem)}</span>
        </div>
      ) : null}
      <section class="drop-here">
        <p>Drop a file here or on any page.</p>
        <Choose />
        <p class="quieter">
          Accepted: the output of <code>baton history ID --json</code>, a history from the REST API, or a download from
          the events view. The file stays in this browser.
        </p>
      </section>
    </main>
  );
}

function Choose(): JSX.Element {
  return (
    <label class="choose">
      Choose a file
      <input
        type="file"
        accept=".json,.jsonl,application/json"
        onChange={(event) => {
          const file = event.currentTarget.files?.[0];
          event.currentTarget.value = '';
          if (file) void openFile(file);
        }}
      />
    </label>
  );
}

interface Recording {
  name: string;
  history: History;
  view: View;
}

/** Shows an error if the history cannot be drawn. A file written by another program may have an unknown structure. */
function Shown(recording: Recording): JSX.Element {
  const [broken] = useErrorBoundary();
  if (!broken) return <Told {...recording} />;
  return (
    <main class="page" id="main">
      <div class="trouble" role="alert">
        <b>Cannot show {visible(recording.name)}.</b> <span>Its events do not have Baton’s format.</span>
      </div>
      <Choose />
    </main>
  );
}

function Told({ name, history, view }: Recording): JSX.Element {
  const row = history.row.value;
  const { started, closed } = stateAsOf(row, row.last);
  const head = (
    <header class="run-head">
      <div class="title">
        <Badge status={closed ? statusOf(closed.type) : 'open'} />
        <h1>
          <bdi class="name">{visible(history.workflowId)}</bdi>
        </h1>
        <span class="connection">recorded, read-only</span>
        <span class="grow" />
        <Choose />
      </div>
      <p class="reason">
        {closed && started
          ? closedReason({ startedAt: started.timestamp, closedAt: closed.timestamp }, closed)
          : 'Open when it was recorded.'}{' '}
        <span class="quieter">
          From {visible(name)}, up to event {row.last} (<Time at={row.at(row.last)?.timestamp} />
          ).
        </span>
      </p>
      {started ? (
        <Facts
          workflowType={started.workflowType}
          taskList={started.taskList}
          startedAt={started.timestamp}
          endedAt={closed ? Date.parse(closed.timestamp) : undefined}
          events={row.events.length}
          runId={started.runId}
          tags={started.tags ?? []}
        />
      ) : null}
    </header>
  );
  return <RunOf run={history} view={view} head={head} hrefOf={(to) => pathOf({ page: 'recorded', view: to })} />;
}

/** Converts the type of a closing event to a status: `WorkflowTimedOut` becomes `timed-out`. */
const statusOf = (type: string): string =>
  type
    .replace('Workflow', '')
    .replace(/(?<!^)([A-Z])/g, '-$1')
    .toLowerCase();
