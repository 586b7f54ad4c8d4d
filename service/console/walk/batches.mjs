// Tests of batches: from the failures of the start page, from the list of runs, and the page of batches.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';

/** Number of runs whose activity fails. It is higher than that of the other failures, so that they come first. */
const BLOCKED = 7;

/** Starts runs whose only activity has failed and waits for an operator. */
export async function blockedMails(service, count = BLOCKED) {
  for (let n = 1; n <= count; n++) {
    await service.call('POST', '/workflows', {
      workflowId: `mail-${n}`,
      workflowType: 'mailing',
      taskList: 'mailings',
    });
    const { token } = await service.call('POST', '/task-lists/mailings/decider/poll', {}, { prefer: 'wait=20' });
    const decision = {
      type: 'ScheduleActivity',
      activityId: 'send',
      activityType: 'send-mail',
      taskList: 'mails',
      timeouts: { startToClose: '1h', scheduleToClose: '2d' },
      retry: { initialInterval: '1s', maximumAttempts: 1, whenExhausted: 'pause' },
    };
    await service.call('POST', `/v1/decider-tasks/${token}/complete`, { decisions: [decision] });
    const task = await service.call('POST', '/task-lists/mails/activity/poll', {}, { prefer: 'wait=20' });
    const failure = { reason: 'smtp-refused', details: { host: 'mail.example.org' } };
    await service.call('POST', `/v1/activity-tasks/${task.token}/failure`, failure);
  }
}

/** `at` returns the browser, the service and addresses. `findings` returns the findings of axe on the current page. */
export function batchesByHand(at, findings) {
  const fill = (field, text) => at().browser.type(`#act-${field}`, text);
  const refill = (field, text) => at().browser.replace(`#act-${field}`, text);
  const value = (field) => at().browser.run(`() => document.querySelector('#act-${field}').value`);
  const submit = (words = '') => at().browser.click('dialog[open] .main', words);
  const isClosed = () =>
    until('the dialog is gone', () => at().browser.run('() => !document.querySelector("dialog[open]")'));
  const count = async (query) => (await at().service.call('GET', `/workflow-count?${query}`)).count;
  const rows = (selector) => at().browser.run(`() => document.querySelectorAll(${JSON.stringify(selector)}).length`);
  const start = (workflowId, workflowType) =>
    at().service.call('POST', '/workflows', { workflowId, workflowType, taskList: 'nobody-decides' });
  const many = async (count, type) => {
    const ids = Array.from({ length: count }, (_, n) => `${type}-${n + 1}`);
    for (let n = 0; n < count; n += 40) await Promise.all(ids.slice(n, n + 40).map((id) => start(id, type)));
  };
  const list = async (query) => {
    const { browser, address } = at();
    await browser.go(address(`default/workflows?${query}`));
    await browser.shows('.row.run');
  };

  test('failures lead to their runs, and are retried with a batch', async () => {
    const { browser, service, address } = at();
    await blockedMails(service);
    const row = `() => [...document.querySelectorAll('.failures tbody tr')]
      .map((row) => row.innerText.replace(/\\s+/g, ' ')).find((text) => text.includes('smtp-refused'))`;
    await browser.go(address(''));
    await browser.shows('.failures', 'smtp-refused');
    assert.deepEqual(await findings(), []);
    assert.match(await browser.run(row), /blocked mailing smtp-refused 7 /);
    await browser.click('.failures .list-name', 'smtp-refused');
    await browser.shows('.row.run', 'mail-7');
    assert.equal(await browser.path(), '/console/default/workflows?status=blocked&type=mailing');
    await browser.go(address(''));
    await browser.shows('.failures', 'smtp-refused');
    await browser.run(`() => [...document.querySelectorAll('.failures tbody tr')]
      .find((row) => row.innerText.includes('smtp-refused')).querySelector('.act').click()`);
    await browser.shows('dialog h2', 'Create batch');
    await browser.shows('.planned', '7 runs match.');
    assert.deepEqual(
      [await value('-filter'), await value('operation-type'), await value('operation-failureReason')],
      ['status:blocked type:mailing', 'retry-activities', 'smtp-refused'],
    );
    assert.equal(await count('type=mailing&status=blocked'), BLOCKED, 'until now nothing was done');
    await fill('reason', 'the mail server is back');
    await refill('identity', 'kim');
    await submit('Retry activities of 7 runs');
    await isClosed();
    await browser.shows('.batch .badge', 'completed');
    await browser.shows('.batch', 'Retry activities that failed with smtp-refused');
    await browser.shows('.batch', '7 runs done');
    await browser.shows('.batch', 'by kim: the mail server is back');
    assert.match(await browser.path(), /^\/console\/default\/batches\/[^/]+$/);
    assert.equal(await count('type=mailing&status=blocked'), 0);
  });

  test('all matching runs are terminated by a batch that was stopped', async () => {
    const { browser, service } = at();
    await many(230, 'all-of-them');
    await start('another-type', 'another-type');
    await list('type=all-of-them');
    await browser.press('j', 'x');
    await browser.click('.bulk .link', 'select all 230 matching');
    await browser.shows('.bulk', 'all 230 matching');
    assert.equal(await rows('.bulk .act'), 1, 'all of them are changed by a batch only');
    await browser.click('.bulk .act', 'Create batch');
    await browser.choose('#act-operation-type', 'terminate');
    await browser.shows('.planned', '230 runs match.');
    await browser.shows('.planned', 'and 222 more');
    assert.equal(await count('type=all-of-them&status=open'), 230, 'until now nothing was done');
    await refill('-filter', 'type:all-of-them side:ways');
    await browser.shows('.lack', 'Unknown field');
    await refill('-filter', 'type:all-of-them');
    await fill('reason', 'the shop has closed');
    await fill('pace', '1');
    await browser.shows('.planned', '230 runs match.');
    await submit('Terminate 230 runs');
    await isClosed();
    await browser.shows('.batch .badge', 'running');
    await browser.shows('.batch', 'of about 230 runs done');
    assert.deepEqual(await findings(), []);
    await browser.click('.batch .act', 'Stop');
    await submit('Stop');
    await isClosed();
    await browser.shows('.batch .badge', 'stopped');
    const left = await count('type=all-of-them&status=open');
    assert.ok(left > 0, `${left} are left`);
    await browser.click('.batch .act', 'Change pace');
    assert.equal(await value('pace'), '1');
    await refill('pace', '0');
    await submit('Change pace');
    await browser.shows('.act-dialog .trouble', 'invalid-field');
    await refill('pace', '1000');
    await submit('Change pace');
    await isClosed();
    await browser.shows('.batch', '1,000 runs per second');
    // The page is followed: it is not refreshed again.
    await browser.click('.batch .act', 'Resume');
    await submit('Resume');
    await isClosed();
    await browser.shows('.batch .badge', 'completed');
    await browser.shows('.batch', '230 runs done');
    assert.equal(await count('type=all-of-them&status=open'), 0);
    assert.equal(await count('type=another-type&status=open'), 1);
    const [{ type, reason }] = (await service.history('all-of-them-7')).slice(-1);
    assert.deepEqual([type, reason], ['WorkflowTerminated', 'the shop has closed']);
    await browser.complaints();
  });

  test('refusals are listed, and a completed batch is deleted', async () => {
    const { browser, address } = at();
    await many(3, 'refusing');
    await list('type=refusing');
    await browser.press('j', 'x', 'j', 'x');
    await browser.click('.bulk .act', 'Create batch');
    await browser.shows('dialog', 'Runs of the 2 selected workflow ids');
    await browser.choose('#act-operation-type', 'retry activities');
    await browser.shows('.planned', '2 runs match.');
    await submit('Retry activities of 2 runs');
    await isClosed();
    await browser.shows('.batch .badge', 'completed');
    await browser.shows('.batch', '0 runs done, 2 refused');
    await browser.shows('.refusals li', 'refusing-');
    await browser.shows('.refusals li', 'activity-not-retryable');
    assert.equal(await rows('.refusals li'), 2);
    assert.deepEqual(await findings(), []);
    const [id] = (await browser.path()).split('/').slice(-1);
    await browser.click('.bar h1 a', 'Batches');
    await browser.shows('.batch', 'activity-not-retryable');
    const link = `.batch a[href$="${id}"]`;
    await browser.click(link);
    await browser.shows('.refusals');
    await browser.click('.batch .act', 'Delete');
    await submit('Delete');
    await isClosed();
    await until('the list without it', async () => (await browser.path()) === '/console/default/batches');
    await browser.shows('.batch');
    assert.equal(await rows(link), 0);
    await browser.go(address(`default/batches/${id}`));
    await browser.shows('.trouble', 'unknown-batch');
    await browser.complaints();
  });

  test('a dry run refuses an operation that does not fit', async () => {
    const { browser } = at();
    await list('status=failed');
    await browser.press('X');
    await browser.click('.bulk .act', 'Create batch');
    await browser.shows('.planned', 'match');
    assert.equal(await value('operation-type'), 'reset');
    await browser.choose('#act-operation-type', 'signal');
    await browser.shows('.act-dialog .trouble', 'selects closed runs');
    assert.equal(await rows('dialog .main:disabled'), 1);
    await browser.choose('#act-operation-type', 'delete');
    await browser.shows('.planned', 'match');
    assert.equal(await rows('.act-dialog .trouble'), 0);
    await browser.press('Escape');
    await isClosed();
    await browser.complaints();
  });
}
