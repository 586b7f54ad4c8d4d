// Creates runs in all states with the REST API, and answers their turns and activities like a decider and a runner.
//
//   node dev/fixture.mjs [SERVICE] [--serve]      default: http://127.0.0.1:7420
//
// With --serve, the program then continues as decider and runner of the order lists, so that pages can be watched while
// runs make progress.
const base = (process.argv[2]?.startsWith('http') ? process.argv[2] : 'http://127.0.0.1:7420') + '/v1';
const goesOn = process.argv.includes('--serve');
const domain = `${base}/domains/default`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
/**
 * Waits for a condition. Fails with its description after a time that suffices for a machine ten times slower than a
 * desktop.
 */
async function until(what, isSo, patience = 300_000) {
  const end = Date.now() + patience;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await sleep(50);
  }
}

async function call(method, url, body, headers = {}, signal = null) {
  const response = await fetch(url, {
    method,
    signal,
    headers: { 'content-type': 'application/json', ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${url}: ${response.status} ${text.slice(0, 400)}`);
  return text ? JSON.parse(text) : null;
}
const post = (url, body = {}, headers, signal) => call('POST', url, body, headers, signal);
const workflow = (id) => `${domain}/workflows/${encodeURIComponent(id)}`;
const start = (workflowId, workflowType, more = {}) =>
  post(`${domain}/workflows`, { workflowId, workflowType, identity: 'fixture', ...more });

// ---- deciders: for each workflow type, a function that returns the answer to a task; null fails the turn ------------

const has = (task, type) => task.events.some((event) => event.type === type && event.id > 0);
const news = (task) => task.events.filter((event) => event.id > task.previousStartedEventId);
const last = (task, type) => news(task).findLast((event) => event.type === type);
const activity = (activityId, activityType, taskList, more = {}) => ({
  type: 'ScheduleActivity',
  activityId,
  activityType,
  taskList,
  timeouts: { scheduleToStart: '10m', startToClose: '1m', scheduleToClose: '1h' },
  ...more,
});

function decideOrder(task) {
  const state = { ...(task.context ?? { step: 'new' }) };
  const decisions = [];
  let awaiting = [];
  const started = last(task, 'WorkflowStarted');
  if (started) {
    Object.assign(state, { step: 'reserving', total: started.input?.total ?? 0 });
    decisions.push(
      { type: 'RecordMarker', name: 'priced', details: { total: state.total, currency: 'EUR' } },
      activity('reserve', 'reserve-stock', 'warehouse', { input: started.input }),
      { type: 'StartTimer', timerId: 'payment-due', after: '2h' },
    );
  }
  for (const event of news(task)) {
    if (event.type === 'ActivitySuccess' && state.step === 'reserving') {
      state.step = 'charging';
      decisions.push(
        activity('charge', 'charge-card', 'payments', {
          input: { total: state.total, card: '•••• 4242' },
          retry: {
            initialInterval: '0.4s',
            backoffCoefficient: 1.5,
            maximumAttempts: 4,
            nonRetryableReasons: ['card-declined'],
          },
        }),
      );
    } else if (event.type === 'ActivitySuccess' && state.step === 'charging') {
      state.step = 'shipping';
      decisions.push(
        { type: 'CancelTimer', timerId: 'payment-due' },
        {
          type: 'StartChild',
          workflowId: `shipment-${task.workflowId}`,
          workflowType: 'shipment',
          taskList: 'shipments',
          input: { order: task.workflowId },
        },
        { type: 'StartTimer', timerId: 'ask-for-review', after: '1.5s' },
      );
    } else if (event.type === 'ActivityFailed' && state.step === 'charging') {
      state.step = 'refunding';
      decisions.push(
        { type: 'RecordMarker', name: 'declined', details: { reason: event.reason } },
        activity('release', 'release-stock', 'warehouse', { input: { order: task.workflowId } }),
        activity('refund', 'refund-card', 'payments', { input: { total: state.total } }),
      );
    } else if (event.type === 'ActivitySuccess' && state.step === 'refunding') {
      state.refunds = (state.refunds ?? 0) + 1;
    } else if (event.type === 'ChildSuccess') {
      state.shipped = event.result ?? true;
    } else if (event.type === 'TimerExpired' && event.timerId === 'ask-for-review') {
      state.asked = true;
      decisions.push({
        type: 'SignalExternal',
        workflowId: 'ledger',
        name: 'order-paid',
        input: { order: task.workflowId, total: state.total },
      });
    } else if (event.type === 'WorkflowCancelRequested') {
      state.step = 'canceled';
    } else if (event.type === 'Signal' && event.name === 'change-address') {
      decisions.push({ type: 'RecordMarker', name: 'address-changed', details: event.input });
    }
  }
  // The end is decided from the state in every turn, because it is refused if an event has arrived during the turn.
  if (state.step === 'canceled') {
    decisions.push({ type: 'CancelWorkflow', details: { by: 'customer' } });
  } else if (state.step === 'refunding' && state.refunds === 2) {
    decisions.push({
      type: 'FailWorkflow',
      reason: 'card-declined',
      details: { total: state.total, refunded: true },
    });
  } else if (state.shipped && state.asked) {
    state.step = 'done';
    decisions.push({
      type: 'SucceedWorkflow',
      result: { order: task.workflowId, shipped: state.shipped, total: state.total },
    });
  }
  if (state.step === 'shipping') awaiting = ['change-address', 'baton.cancel'];
  return { decisions, context: state, awaiting };
}

const deciders = {
  order: decideOrder,
  shipment: (task) =>
    has(task, 'TimerExpired')
      ? { decisions: [{ type: 'SucceedWorkflow', result: { parcel: 'PX-2291' } }] }
      : { decisions: [{ type: 'StartTimer', timerId: 'carrier', after: '0.8s' }] },
  ledger: (task) => ({
    decisions: [],
    awaiting: ['order-paid'],
    context: { entries: (task.context?.entries ?? 0) + news(task).filter((e) => e.type === 'Signal').length },
  }),
  approval: (task) =>
    has(task, 'Signal') && news(task).some((e) => e.type === 'Signal')
      ? { decisions: [{ type: 'SucceedWorkflow', result: { approved: last(task, 'Signal').input } }] }
      : {
          decisions: [
            { type: 'StartTimer', timerId: 'reminder', after: '1d' },
            { type: 'StartTimer', timerId: 'give-up', after: '7d' },
          ],
          awaiting: ['approve', 'reject'],
        },
  forgetful: () => ({ decisions: [] }),
  broken: () => null,
  import: () => ({
    decisions: [
      activity('copy', 'copy-rows', 'imports', {
        retry: { initialInterval: '0.2s', maximumAttempts: 2, whenExhausted: 'pause' },
      }),
    ],
  }),
  sync: () => ({
    decisions: [
      activity('pull', 'pull-feed', 'feeds', {
        retry: { initialInterval: '20m', maximumAttempts: 50 },
        timeouts: { scheduleToClose: '20d', startToClose: '5m' },
      }),
    ],
  }),
  report: (task) => ({
    decisions: [
      {
        type: 'FailWorkflow',
        reason: 'template-missing',
        details: { template: task.workflowId, stack: 'at render (report.ts:41)\nat main (main.ts:7)' },
      },
    ],
  }),
  poller: (task) => (
    task.context ?? 0,
    { decisions: [{ type: 'ContinueAsNew', input: { round: 2 }, workflowType: 'poller-idle' }] }
  ),
  'poller-idle': () => ({ decisions: [{ type: 'StartTimer', timerId: 'next-round', after: '6h' }] }),
  lookout: () => ({
    decisions: [
      activity('inspect', 'inspect-site', 'nobody-here', { timeouts: { scheduleToStart: '4h', startToClose: '1m' } }),
      { type: 'StartTimer', timerId: 'escalate', after: '45m' },
    ],
    awaiting: ['stand-down'],
  }),
  archive: (task) => ({
    decisions: [{ type: 'SucceedWorkflow', result: last(task, 'WorkflowStarted')?.input ?? null }],
  }),
};

const failures = new Map();
function run(task) {
  const tries = (failures.get(task.activityId + task.runId) ?? 0) + 1;
  failures.set(task.activityId + task.runId, tries);
  switch (task.activityType) {
    case 'charge-card':
      if (task.workflowId.endsWith('3') || task.workflowId.endsWith('8'))
        return { reason: 'card-declined', details: { code: 51, text: 'insufficient funds' } };
      if (task.workflowId.endsWith('5') && tries < 3)
        return { reason: 'gateway-timeout', details: { after: '2s', tries } };
      return { result: { authorization: `A-${task.workflowId}` } };
    case 'copy-rows':
      return { reason: 'disk-full', details: { free: 0, path: '/srv/import' } };
    case 'pull-feed':
      return { reason: 'http-503', details: 'Service Unavailable' };
    default:
      return { result: { ok: true } };
  }
}

const over = new AbortController();
/**
 * Polls for a task with the maximum wait, because a task that arrives as a wait ends is lost, and its decider then sees
 * the failed delivery.
 */
const poll = (taskList, side, identity) =>
  post(`${domain}/task-lists/${taskList}/${side}/poll`, { identity }, { prefer: 'wait=60' }, over.signal).catch(
    () => null,
  );
async function decider(taskList, identity) {
  while (!over.signal.aborted) {
    const task = await poll(taskList, 'decider', identity);
    if (!task) continue;
    await sleep(20 + Math.random() * 60);
    const answer = deciders[task.workflowType]?.(task);
    const url = `${base}/decider-tasks/${task.token}`;
    await (
      answer
        ? post(`${url}/complete`, answer)
        : post(`${url}/fail`, {
            reason: 'TypeError',
            details: { message: "cannot read properties of undefined (reading 'lines')", at: 'decide (broken.ts:12)' },
          })
    ).catch((error) => console.error(String(error)));
  }
}
async function runner(taskList, identity) {
  while (!over.signal.aborted) {
    const task = await poll(taskList, 'activity', identity);
    if (!task) continue;
    await sleep(80 + Math.random() * 500);
    const answer = run(task);
    const url = `${base}/activity-tasks/${task.token}`;
    await post(`${url}/${answer.reason ? 'failure' : 'success'}`, answer).catch((error) =>
      console.error(String(error)),
    );
  }
}

// ---- the runs ------------------------------------------------------------------------------------------------------

const workers = [
  decider('orders', 'order-decider@a1'),
  decider('orders', 'order-decider@b2'),
  decider('shipments', 'shipment-decider@a1'),
  decider('default', 'decider@a1'),
  ...[7, 8, 9].map((n) => runner('warehouse', `warehouse-${n}`)),
  ...[1, 2, 3, 4].map((n) => runner('payments', `payments-${n}`)),
  runner('imports', 'imports-1'),
  runner('feeds', 'feeds-1'),
];

await start('ledger', 'ledger', { tags: ['finance'] });
const customers = ['ann', 'bo', 'cleo', 'dan'];
for (let n = 1; n <= 24; n++) {
  await start(`order-${1000 + n}`, 'order', {
    taskList: 'orders',
    executionTimeout: '30d',
    tags: [`customer:${customers[n % 4]}`, n % 10 === 3 || n % 10 === 8 ? 'declined' : 'web'],
    input: {
      total: 1290 + n * 137,
      lines: [
        { sku: 'B-7', count: 1 },
        { sku: 'C-12', count: n },
      ],
    },
  });
  if (n === 6)
    await post(`${workflow(`order-${1000 + n}`)}/signals/change-address`, {
      input: { street: 'Hauptstraße 9', city: 'Bern' },
      identity: 'shop',
    });
}
for (const id of ['approve-budget-2027', 'approve-hire-ann', 'approve-travel'])
  await start(id, 'approval', { tags: ['hr'], input: { asked: id } });
await start('forgetful-1', 'forgetful');
await start('forgetful-2', 'forgetful');
await start('broken-1', 'broken');
await start('broken-2', 'broken', { tags: ['urgent'] });
for (let n = 1; n <= 3; n++) await start(`import-2026-11-2${n}`, 'import', { tags: ['nightly'] });
await start('sync-prices', 'sync', { tags: ['nightly'] });
await start('sync-stock', 'sync', { tags: ['nightly'] });
for (let n = 1; n <= 3; n++) await start(`report-${n}`, 'report');
await start('poller-tokyo', 'poller');
await start('site-north', 'lookout', { tags: ['field'] });
await start('lonely', 'unknown-program', { taskList: 'a-list-without-a-decider', deciderScheduleToStart: '2d' });
await start('later', 'approval', { startAfter: '3h' });
await start('short', 'lonely-type', { taskList: 'a-list-without-a-decider', executionTimeout: '1s' });
let deep = 'bottom';
for (let level = 0; level < 60; level++) deep = level % 2 ? [deep] : { level: 60 - level, deep };
await start('<img src=x onerror=alert(1)> & co', 'archive', {
  tags: ['<b>bold</b>', 'hostile'],
  input: '<script>alert(1)</script> \u001b[31mred',
});
await start('large-payload', 'archive', {
  tags: ['hostile'],
  input: { text: 'All work and no play makes Baton a dull service. '.repeat(4100), lines: 'a\nb\tc\u0007' },
});
await start('deep-payload', 'archive', { tags: ['hostile'], input: deep });
await start('chatty', 'ledger', { tags: ['long'] });
for (let n = 0; n < 600; n += 50)
  await Promise.all(
    Array.from({ length: 50 }, (_, k) =>
      post(`${workflow('chatty')}/signals/order-paid`, { input: { n: n + k }, identity: `till-${k % 7}` }),
    ),
  );
await start('pause-me', 'approval', { tags: ['hr'] });
await start('terminate-me', 'approval', { tags: ['hr'] });
await start('cancel-me', 'order', { taskList: 'orders', tags: ['customer:ann'], input: { total: 1 } });
await post(`${workflow('cancel-me')}/cancel`, { reason: 'bought twice', identity: 'ann' });
for (const id of ['pause-me', 'terminate-me', 'approve-travel'])
  await until(`a first turn of ${id}`, async () => (await call('GET', workflow(id))).historyLength >= 4);
await post(`${workflow('pause-me')}/pause`, { reason: 'audit until Friday', identity: 'kim', stopClocks: true });
await post(`${workflow('terminate-me')}/terminate`, { reason: 'not needed any more', identity: 'kim' });
await post(`${workflow('approve-travel')}/signals/approve`, { input: { by: 'lee', budget: 1200 }, identity: 'lee' });
await post(`${domain}/schedules`, {
  scheduleId: 'nightly-archive',
  schedule: {
    spec: { cron: ['30 2 * * *'], timeZone: 'Europe/Zurich' },
    overlap: 'skip',
    action: { workflowId: 'archive-nightly', workflowType: 'archive' },
    note: 'moves closed orders',
  },
}).catch((error) => console.error(String(error)));
await post(`${domain}/schedules`, {
  scheduleId: 'hourly-sync',
  paused: true,
  schedule: { spec: { intervals: [{ every: '1h' }] }, action: { workflowId: 'sync-hourly', workflowType: 'archive' } },
}).catch((error) => console.error(String(error)));
for (const [kind, type] of [
  ['workflow', { name: 'order', version: '2', description: 'an order of the shop', defaults: { taskList: 'orders' } }],
  ['workflow', { name: 'order', version: '1' }],
  ['workflow', { name: 'approval' }],
  ['activity', { name: 'charge-card', defaults: { taskList: 'payments', timeouts: { startToClose: '30s' } } }],
])
  await post(`${domain}/${kind}-types`, type).catch((error) => console.error(String(error)));
await post(`${domain}/workflow-types/order%2F1/deprecate`).catch((error) => console.error(String(error)));
await post(`${base}/domains`, {
  name: 'archive',
  description: 'what the shop was before 2024',
  retention: '365d',
  tags: { team: 'finance' },
}).catch((error) => console.error(String(error)));
// Waits until all runs are in their final states.
const many = async (query) => (await call('GET', `${domain}/workflow-count?${query}`)).count;
for (const [query, count] of [
  ['type=order&status=open', 0],
  ['type=shipment&status=open', 0],
  ['status=blocked', 3],
  ['status=stuck', 2],
  ['status=failing', 2],
  ['status=retrying', 2],
  ['status=timed-out', 1],
])
  await until(`${count} runs with ${query}`, async () => (await many(query)) === count);
if (goesOn) {
  for (let n = 1; ; n++) {
    await start(`order-${2000 + n}`, 'order', {
      taskList: 'orders',
      tags: [`customer:${customers[n % 4]}`],
      input: { total: 100 * n },
    }).catch(() => {});
    await sleep(3000);
  }
}
over.abort();
await Promise.all(workers);
const { count } = await call('GET', `${domain}/workflow-count`);
console.log(`${count} runs`);
process.exit(0);
