// A sample that needs no program beside it: the page starts a run and is its decider, by the calls that any decider makes. It waits
// for a timer or for a signal, answers a query with a page, and ends.
import { newKey, post, request } from './api';
import type { Event } from './fold';
import { domainPath } from './paths';

/** The task list and the type of samples. */
const SAMPLE = 'sample';
/** Ours: how long the sample waits for its signal. */
const WAITS = '1m';
/** Ours: seconds of one poll, as long as the service lets one wait; and polls in vain until the page gives up. */
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

/** Returns what the sample's decider answers to a task. Pure. */
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

/** Starts a sample and decides for it until it ends, or the page goes away. */
export async function startSample(domain: string): Promise<{ workflowId: string; runId: string }> {
  const workflowId = `${SAMPLE}-${newKey().slice(0, 6)}`;
  const body = { workflowId, workflowType: SAMPLE, taskList: SAMPLE, tags: [SAMPLE], input: { hello: '?' } };
  const started = await post<{ runId: string }>(`${domainPath(domain)}/workflows`, JSON.stringify(body), newKey());
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
