// Tests of recorded histories, types, domains, times of schedules, and Markdown written by deciders.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';

/** Answer of an approval's decider to the query `page`. */
const PAGE = `# Budget 2027

Ann asks for **12,900 EUR**, *for the first half of the year*.

| for | EUR |
|---|--:|
| travel | 2,900 |
| tools | 10,000 |

> The last one was approved in two days.

[Approve](signal:approve) [Approve half](<signal:approve?{"share": 0.5}>) [Set a limit](update:limit?9000)

See [what was asked](query:asked), [the runs](/console/default/workflows) or [the rules](https://example.org/).
`;
/** Markdown with hostile content. */
const HOSTILE = `
> <img src=x onerror=alert(1)> [nothing](javascript:alert(1)) ![alt](https://example.org/x.png)

\`\`\`
<script>alert(1)</script>
\`\`\`
`;

/** Answers the next task of a list, if one arrives in time, with these answers to queries and these decisions. */
async function answerNext(service, list, answers, decisions = [], seconds = 20) {
  const poll = { queries: true, identity: 'decider@walk' };
  const task = await service.call('POST', `/task-lists/${list}/decider/poll`, poll, { prefer: `wait=${seconds}` });
  if (!task) return;
  const queryResults = (task.queries ?? []).map(({ id, name }) =>
    name in answers
      ? { id, result: answers[name] }
      : { id, error: { reason: 'unknown-query', known: Object.keys(answers) } },
  );
  const body = task.queryOnly ? { queryResults } : { decisions, queryResults };
  await service.call('POST', `/v1/decider-tasks/${task.token}/complete`, body);
}

/** Answers one task after the other until the page shows these words. */
async function answerUntil({ browser, service }, selector, words, list, answers) {
  const seen = `(selector, words) => [...document.querySelectorAll(selector)]
    .some((one) => one.innerText.includes(words))`;
  await until(`${selector} says: ${words}, as its decider has it`, async () => {
    if (await browser.run(seen, selector, words)) return true;
    await answerNext(service, list, answers, [], 1);
    return false;
  });
}

/** Opens the page of an approval whose decider is this test, and answers its query. */
export async function askApproval({ browser, service, address }, more = '') {
  const workflowId = 'approve-budget-page';
  const taskList = 'approvals-page';
  const wait = [{ type: 'StartTimer', timerId: 'long', after: '9d' }];
  await service.call('POST', '/workflows', {
    workflowId,
    workflowType: 'approval-page',
    taskList,
    conflictPolicy: 'use-existing',
  });
  if ((await service.history(workflowId)).length === 2) await answerNext(service, taskList, {}, wait);
  const [{ runId }] = await service.history(workflowId);
  await browser.go(address(`default/workflows/${workflowId}/${runId}/query/page`));
  await answerUntil({ browser, service }, '.asked', 'Budget 2027', taskList, { page: { markdown: PAGE + more } });
  return { workflowId, taskList, runId };
}

/** `at` returns the browser, the service, and a function that opens a run. It is called only in tests. */
export function morePages(at) {
  const fill = (field, text) => at().browser.type(`#act-${field}`, text);
  const submit = () => at().browser.click('dialog[open] .main');
  const isClosed = () =>
    until('the dialog is gone', () => at().browser.run('() => !document.querySelector("dialog[open]")'));
  const drop = (name, text) =>
    at().browser.run(
      `(name, text) => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(new File([text], name));
        for (const type of ['dragover', 'drop'])
          document.body.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
      }`,
      name,
      text,
    );
  const count = (selector) => at().browser.run(`() => document.querySelectorAll(${JSON.stringify(selector)}).length`);

  test('a history that the command line has printed is dropped on a page, and read like a run', async () => {
    const { browser, service, address } = at();
    const events = await service.history('order-1008');
    await browser.go(address('default/task-lists'));
    await browser.shows('h1', 'Task lists');
    await drop('order.json', service.command('history', 'order-1008', '--json'));
    await browser.shows('.run-head h1', 'order-1008');
    await browser.shows('.run-head', 'recorded, read-only');
    await browser.shows('.run-head .badge', 'failed');
    assert.equal(await browser.path(), '/console/recorded/turns');
    await browser.click('.card .event', 'refund · refund-card');
    await browser.shows('.panel h2', 'ActivityScheduled');
    await browser.press('4');
    await browser.shows('.event-rows', 'WorkflowFailed');
    await browser.press('[');
    await browser.shows('.scrub output', String(events.length - 1));
    await browser.press('3');
    await browser.shows('.view', 'Scheduled deadlines');
    await browser.press('2');
    await browser.shows('.view svg');
    assert.equal(await count('.act'), 0, 'nothing can be done with it');
    // Drops a file with one event per line, recorded while the run was open.
    const open = (await service.history('site-north')).map((event) => JSON.stringify(event)).join('\n');
    await drop('lines.jsonl', open);
    await browser.shows('.run-head h1', 'site-north');
    await browser.shows('.run-head .reason', 'Open when it was recorded.');
    await browser.press('3');
    await browser.shows('.view', 'escalate');
  });

  test('a file that is no history says so', async () => {
    const { browser, address } = at();
    await browser.go(address('recorded/turns'));
    await browser.shows('.choose');
    for (const [text, words] of [
      ['<html>', 'It is not JSON.'],
      ['{"a": 1}', 'It has no list of events.'],
      ['[{"id": 1}]', 'Item 1 is not an event'],
    ]) {
      await drop('some.json', text);
      await browser.shows('.trouble', 'Cannot read some.json as a history.');
      await browser.shows('.trouble', words);
    }
  });

  test('a task list says what waits, who polls it and since when nobody does, and so does the future of a run', async () => {
    const { browser, service, address, open } = at();
    const stop = new AbortController();
    const poll = fetch(`${service.url}/v1/domains/default/task-lists/walked-by/activity/poll`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', prefer: 'wait=60' },
      body: JSON.stringify({ identity: 'runner@walk' }),
      signal: stop.signal,
    }).catch(() => undefined);
    const row = (name) => `() => [...document.querySelectorAll('.lists tbody tr')]
      .map((row) => row.innerText.replace(/\\s+/g, ' ')).find((text) => text.startsWith('${name}'))`;
    await browser.go(address('default/task-lists'));
    await until('the poller is there', async () => {
      await browser.press('r');
      return /walked-by runners .*1 poller/.test(await browser.run(row('walked-by')));
    });
    await browser.click('.pollers summary', '1 poller');
    await browser.shows('.pollers[open] li', 'runner@walk');
    assert.match(await browser.run(row('nobody-here')), /runners 1 .* ago 0 0 no pollers for /);
    stop.abort();
    await poll;
    await until('it has hung up', async () => {
      await browser.press('r');
      return /none now; 1 in the last five minutes/.test(await browser.run(row('walked-by')));
    });
    await browser.go(address(''));
    await browser.shows('.banner', 'nobody-here: 1 activity waits for a runner');
    await open('site-north', 'future');
    await browser.shows('.who .warn', 'no pollers for');
  });

  test('a list of runs and its counts follow what happens, and rows stay where they are', async () => {
    const { browser, service, address } = at();
    await browser.go(address('default/workflows'));
    await browser.shows('.row.run');
    const number = () => browser.run('() => Number(document.querySelector(".tally-count").innerText.replace(",", ""))');
    const rows = () =>
      browser.run(
        '() => [...document.querySelectorAll(".row.run")].slice(0, 9).map((row) => row.querySelector("bdi").innerText)',
      );
    const { count: before } = await service.call('GET', '/workflow-count');
    await until('it is counted', async () => (await number()) === before);
    const shown = await rows();
    const start = { workflowId: 'followed', workflowType: 'followed', taskList: 'followed' };
    await service.call('POST', '/workflows', start);
    await browser.shows('.newer', 'Show 1 newer');
    await until('the count has followed', async () => (await number()) === before + 1);
    assert.deepEqual(await rows(), shown);
    await service.call('POST', '/workflows/followed/terminate', {});
    await browser.click('.newer');
    await browser.shows('.row.run', 'followed');
    await browser.go(address('default/task-lists'));
    await browser.shows('.lists');
    await service.call('POST', '/workflows', { ...start, workflowId: 'followed-2', taskList: 'followed-list' });
    await browser.shows('.lists', 'followed-list');
    await service.call('POST', '/workflows/followed-2/terminate', {});
  });

  test('the whole history is downloaded, not only what is on the page', async () => {
    const { browser, open, service } = at();
    await open('order-1005', 'events');
    await browser.shows('.event-rows .row');
    // The test reads the data that the link would save. The data consists of many pages.
    await browser.run(`() => {
      window.saved = [];
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => {
        window.saved.push(blob.text());
        return make.call(URL, blob);
      };
      HTMLAnchorElement.prototype.click = () => undefined;
      const ask = window.fetch;
      window.fetch = (path, init) => ask(path.replace('limit=1000', 'limit=7'), init);
    }`);
    const path = '/workflows/order-1005/history?limit=1000';
    await browser.click('.events .tools button', 'download JSON');
    await until('it is saved', () => browser.run('() => window.saved.length > 0'));
    const saved = JSON.parse(await browser.run('() => window.saved[0]'));
    assert.deepEqual(saved.events, (await service.call('GET', path)).events);
  });

  test('a type is registered, deprecated and taken back', async () => {
    const { browser, address, service } = at();
    await browser.go(address('default/types'));
    await browser.shows('.card.compact', 'deprecated');
    await browser.click('.bar .act', 'Register');
    await fill('name', 'walked');
    await fill('version', '7');
    await fill('defaults-taskList', 'walkers');
    await submit();
    await isClosed();
    await browser.shows('.card.compact', 'walked / 7');
    const path = '/workflow-types/walked%2F7';
    assert.equal((await service.call('GET', path)).defaults.taskList, 'walkers');
    const group = '[aria-label="Actions for walked/7"] .act';
    await browser.click(group, 'Deprecate');
    await submit();
    await isClosed();
    await browser.shows(group, 'Undeprecate');
    assert.ok((await service.call('GET', path)).deprecatedAt);
    await browser.click(group, 'Undeprecate');
    await submit();
    await isClosed();
    await until('it is in use', async () => !(await service.call('GET', path)).deprecatedAt);
    await browser.click('.tabs a', 'Activities');
    await browser.shows('.card.compact h2', 'charge-card');
    await browser.click('.card.compact summary');
    await browser.shows('.card.compact .payload', 'payments');
  });

  test('a domain is registered, deprecated and taken back; what is refused is said in the service’s words', async () => {
    const { browser, address } = at();
    await browser.go(address('domains'));
    await browser.click('.bar .act', 'Register');
    await fill('name', 'walk');
    await fill('description', 'for a walk');
    await fill('retention', '2d');
    await submit();
    await isClosed();
    await browser.shows('.card.compact', 'retention 2\u00a0d');
    await browser.click('.bar .act', 'Register');
    await fill('name', 'walk');
    await submit();
    await browser.shows('.act-dialog .trouble', 'domain-exists');
    await browser.press('Escape');
    await isClosed();
    const group = '[aria-label="Actions for walk"] .act';
    await browser.click(group, 'Deprecate');
    await submit();
    await isClosed();
    await browser.shows('.card.compact .warn', 'deprecated');
    await browser.click(group, 'Undeprecate');
    await submit();
    await isClosed();
    await browser.shows(group, 'Deprecate');
    await browser.complaints();
  });

  test('a schedule shows its next ten times and its last runs, and is backfilled', async () => {
    const { browser, address } = at();
    await browser.go(address('default/schedules'));
    const card = '[aria-label="Actions for hourly-sync"]';
    await browser.shows(card);
    const times = `() => document.querySelector('${card}').closest('.schedule').querySelectorAll('li.time').length`;
    await until('ten times are shown, although it is paused', async () => (await browser.run(times)) === 10);
    await browser.click(`${card} .act`, 'Backfill');
    const day = new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 10);
    await fill('from', `${day}T10:00:00Z`);
    await fill('to', `${day}T21:00:00Z`);
    await browser.choose('#act-overlap', 'run in parallel');
    await submit();
    await isClosed();
    const text = `() => document.querySelector('${card}').closest('.schedule').innerText`;
    await until('its runs are there', async () => {
      await browser.press('r');
      return (await browser.run(text)).includes('12 started');
    });
    const shown = await browser.run(text);
    assert.ok(shown.includes(`backfill sync-hourly-${day}T21`), shown);
    assert.ok(!shown.includes(`sync-hourly-${day}T10`), 'the newest ten are shown');
  });

  test('a query that answers in Markdown is a page, whose buttons open dialogs filled in', async () => {
    const { browser, service, address } = at();
    const { workflowId, taskList } = await askApproval({ browser, service, address }, HOSTILE);
    await browser.shows('.asked h2', 'Budget 2027');
    await browser.shows('.asked td', '10,000');
    // Markup is shown as text, and no link leads to a script.
    await browser.shows('.asked blockquote', '<img src=x onerror=alert(1)> nothing [alt]');
    await browser.shows('.asked pre', '<script>alert(1)</script>');
    assert.equal(await count('.asked img, .asked script, .asked a[href^="javascript"]'), 0);
    assert.equal(await count('.asked a'), 3);
    await browser.click('.asked .act', 'Approve half');
    await browser.shows('.act-dialog h2', `Signal ${workflowId}`);
    const value = (field) => browser.run(`() => document.querySelector('#act-${field}').value`);
    assert.deepEqual([await value('-name'), await value('input')], ['approve', '{"share": 0.5}']);
    await submit();
    await isClosed();
    // The page repeats the query, and the decider returns another answer.
    const [signal] = (await service.history(workflowId)).filter(({ type }) => type === 'Signal');
    assert.deepEqual([signal.name, signal.input], ['approve', { share: 0.5 }]);
    const answers = { page: { markdown: 'It **is** approved.' }, asked: { euros: 12900 } };
    await answerUntil(at(), '.asked strong', 'is', taskList, answers);
    assert.equal(await count('.asked .act'), 0);
  });

  test('the query dialog leads to the page, and a query that is not known names those that are', async () => {
    const { browser, service, open } = at();
    await open('approve-budget-page');
    await browser.click('.run-head .act', 'Query');
    await fill('-name', 'nothing');
    await submit();
    const answers = { page: { markdown: 'Hello *there*.' } };
    await answerUntil(at(), '.act-dialog .trouble', 'unknown-query', 'approvals-page', answers);
    await browser.click('.act-dialog .trouble .link', 'page');
    await submit();
    await answerUntil(at(), '.asked em', 'there', 'approvals-page', answers);
    const path = await browser.path();
    assert.match(path, /\/query\/page$/);
    await isClosed();
    await browser.go(`${service.url}${path}?input=1,`);
    await browser.shows('.trouble', 'the input in the address is not JSON');
    await browser.complaints();
  });

  test('the retry policy of an activity is changed from the page, and names that the history knows are offered', async () => {
    const { browser, service, open } = at();
    await open('sync-prices');
    await browser.click('.by-hand summary');
    await browser.click('.by-hand .act', 'Change options');
    await browser.click('.part summary', 'Retry policy');
    assert.equal(await browser.run('() => document.querySelector("#act-retry-maximumAttempts").value'), '50');
    await browser.replace('#act-retry-maximumAttempts', '7');
    await submit();
    await isClosed();
    const changed = () => service.history('sync-prices').then((all) => all.find(({ type }) => /Options/.test(type)));
    const { retry, taskList } = await until('it is recorded', changed);
    assert.deepEqual([retry.maximumAttempts, retry.initialInterval, taskList], [7, 'PT20M', 'feeds']);
    await open('chatty');
    await browser.click('.run-head .act', 'Signal');
    const offers = '() => [...document.querySelectorAll("datalist option")].map((one) => one.value)';
    assert.deepEqual(await browser.run(offers), ['order-paid']);
    // The dialog is not closed with Escape, because Escape may close the list of suggestions first.
    await browser.click('.act-dialog .dialog-buttons button', 'Cancel');
    await isClosed();
  });
}
