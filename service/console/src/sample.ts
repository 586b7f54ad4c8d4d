// A sample workflow for which no other program is needed. The page starts the run and is its decider, with the same
// calls as any decider. The run waits for a timer or a signal, answers a query with a page, and ends.
import { newKey, send, request } from './api';
import type { Event } from './fold';
import { domainPath } from './paths';

/** Task list and workflow type of samples. */
const SAMPLE = 'sample';
/** Time for which the sample waits for its signal. Our choice. */
const WAITS = '1m';
/**
 * Duration of a poll in seconds, which is the maximum that the service allows, and number of empty polls after which
 * the page stops polling. Our choice.
 */
const POLL_S = 60;
const POLLS_MAX = 10;

export interface SampleTask {
  token: string;
  workflowId: string;
  runId: string;
  previousStartedEventId?: number | null;
  events?: Event[] | null;
  queryOnly?: boolean;
  queries?: { id: string; name: string }[];
}

const PAGE = `# Say hello

The decider of this run, which is the console itself, wrote this page. It waits one minute for the signal hello.

[Say hello](<signal:hello?{"by": "you"}>)
`;

/** Returns the answer of the sample's decider to a task. Pure. */
export function decide(task: SampleTask): Record<string, unknown> {
  const queryResults = (task.queries ?? []).map(({ id, name }) =>
    name === 'page' ? { id, result: { markdown: PAGE } } : { id, error: { reason: 'unknown-query', known: ['page'] } },
  );
  if (task.queryOnly) return { queryResults };
  const news = (task.events ?? []).filter(({ id }) => id > (task.previousStartedEventId ?? 0));
  const hello = news.find((event) => event.type === 'Signal');
  if (hello || news.some(({ type }) => type === 'TimerExpired')) {
    const said = hello?.type === 'Signal' ? (hello.input ?? null) : null;
    const result = { hello: said ?? 'no signal' };
    return { decisions: [{ type: 'SucceedWorkflow', result }], context: { step: 'done' }, queryResults };
  }
  if (news.some(({ type }) => type === 'WorkflowCancelRequested'))
    return { decisions: [{ type: 'CancelWorkflow' }], queryResults };
  const first = news.some(({ type }) => type === 'WorkflowStarted');
  return {
    decisions: first
      ? [
          { type: 'RecordMarker', name: 'sample', details: 'decided by the console' },
          { type: 'StartTimer', timerId: 'patience', after: WAITS },
        ]
      : [],
    awaiting: ['hello'],
    context: { step: 'waiting for hello' },
    queryResults,
  };
}

/** Starts a sample and decides for it until the run ends or the page is closed. */
export async function startSample(domain: string): Promise<{ workflowId: string; runId: string }> {
  const workflowId = `${SAMPLE}-${newKey().slice(0, 6)}`;
  const body = { workflowId, workflowType: SAMPLE, taskList: SAMPLE, tags: [SAMPLE], input: { hello: '?' } };
  const started = await send<{ runId: string }>(`${domainPath(domain)}/workflows`, JSON.stringify(body), newKey());
  const runId = started?.runId ?? '';
  void decideFor(domain, runId).catch(() => undefined);
  return { workflowId, runId };
}

async function decideFor(domain: string, runId: string): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  for (let polls = 0; polls < POLLS_MAX; polls++) {
    const polled = await request(`${domainPath(domain)}/task-lists/${SAMPLE}/decider/poll`, {
      method: 'POST',
      headers: { ...headers, prefer: `wait=${POLL_S}` },
      body: JSON.stringify({ identity: 'the console', queries: true }),
    });
    if (polled.status === 204) continue;
    const task = (await polled.json()) as SampleTask;
    const answer = decide(task);
    const init = { method: 'POST', headers, body: JSON.stringify(answer) };
    await request(`/v1/decider-tasks/${task.token}/complete`, init);
    const ended = (answer['decisions'] as { type: string }[] | undefined)?.some(({ type }) =>
      /^(Succeed|Cancel)Workflow$/.test(type),
    );
    if (ended && task.runId === runId) return;
  }
}
