// Tests of actions on the pages: their dialogs, their effects on the history, and refusals.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';

/** `at` returns the browser, the service, and a function that opens a run. It is called only in tests. */
export function actionsByHand(at) {
  const act = (name) => at().browser.click('.run-head .act', name);
  const fill = async (field, text) => {
    await at().browser.type(`#act-${field}`, text);
  };
  const submit = () => at().browser.click('.act-dialog .main');
  const isClosed = () =>
    until('the dialog is gone', () => at().browser.run('() => !document.querySelector("dialog[open]")'));
  const events = async (id, type) => (await at().service.history(id)).filter((event) => event.type === type);

  test('a signal is sent from the page and seen in another window; what is no JSON is said, and stays', async () => {
    const { browser, open } = at();
    await open('approve-hire-ann');
    const watching = browser.tab;
    await browser.turnTo(await browser.newTab());
    await open('approve-hire-ann');
    await act('Signal');
    await browser.shows('.act-dialog', 'The decider sees it in its next turn');
    await submit();
    await browser.shows('.lack', 'Required.');
    await fill('-name', 'remark');
    await fill('input', '{"n": 1.0');
    await fill('identity', 'kim');
    await submit();
    await browser.shows('.lack', 'Not valid JSON.');
    await fill('input', ', "of": [1]}');
    await submit();
    // The message is shown for some seconds after the dialog has closed.
    const isSaid = `() => !document.querySelector('dialog[open]') && document.querySelector('.said').innerText.includes('done')`;
    await until('the dialog is gone, and it is said that it is done', () => browser.run(isSaid));
    await browser.shows('.card .event', 'remark · kim');
    await browser.tab.close();
    await browser.turnTo(watching);
    await browser.shows('.card .event', 'remark · kim');
    const [signal] = (await events('approve-hire-ann', 'Signal')).filter(({ identity }) => identity === 'kim');
    assert.deepEqual(signal.input, { n: 1, of: [1] });
    assert.match(signal.requestKey, /^[0-9a-f]{16}$/, 'it has a key, so that it is recorded once');
  });

  test('a refusal is said in words, and what was typed is still there', async () => {
    const { browser, service, open } = at();
    await open('later');
    await act('Request cancel');
    await fill('reason', 'bought twice');
    await service.call('POST', '/workflows/later/terminate', {});
    await submit();
    await browser.shows('.act-dialog .trouble', 'run-closed');
    assert.equal(await browser.run('() => document.querySelector("#act-reason").value'), 'bought twice');
    await browser.press('Escape');
    await isClosed();
    await browser.complaints();
  });

  test('a blocked activity is tried again by hand, with a reason, and goes on', async () => {
    const { browser, open } = at();
    await open('import-2026-11-21');
    await browser.shows('.by-hand', 'failed: disk-full');
    await browser.click('.by-hand .act', 'Retry now');
    await fill('reason', 'there is room again');
    await submit();
    await isClosed();
    await browser.shows('.run-head .badge', 'retrying');
    await browser.shows('.run-head .reason', 'Attempt 3 of activity copy waits for a runner of imports');
    const [retried] = await events('import-2026-11-21', 'ActivityRetried');
    assert.equal(retried.reason, 'there is room again');
    await browser.click('.by-hand summary');
    await browser.click('.by-hand .act', 'Change options');
    await fill('taskList', '-2');
    await fill('timeouts-startToClose', '2m');
    await submit();
    await isClosed();
    await browser.shows('.side', 'imports-2');
    await browser.click('.by-hand .act', 'Complete');
    await fill('result', '{"rows": 0}');
    await submit();
    await isClosed();
    await browser.shows('.card .event', 'ActivitySuccess');
    const [success] = await events('import-2026-11-21', 'ActivitySuccess');
    assert.deepEqual(success.result, { rows: 0 });
  });

  test('a run is paused, resumed and terminated', async () => {
    const { browser, open } = at();
    await open('sync-stock');
    await act('Pause');
    await browser.click('#act-stopClocks');
    await fill('reason', 'stocktaking');
    await submit();
    await isClosed();
    await browser.shows('.run-head .badge', 'paused');
    await browser.shows('.run-head .reason', 'stocktaking. Its timers and timeouts are stopped.');
    await act('Resume');
    await submit();
    await isClosed();
    await browser.shows('.run-head .badge', 'retrying');
    await act('Terminate');
    await browser.shows('.act-dialog', 'Ends the run immediately');
    await submit();
    await isClosed();
    await browser.shows('.run-head .badge', 'terminated');
    assert.equal(
      (await events('sync-stock', 'WorkflowPaused'))[0].identity,
      'kim',
      'who was there before is offered again',
    );
  });

  test('a run is reset from the event that is selected; one that will not do names those that will', async () => {
    const { browser, service, open } = at();
    const [started] = (await events('order-1003', 'DeciderStarted')).slice(1);
    await open('order-1003');
    await act('Reset');
    // Without a selected event, the event before the last decision is proposed.
    const scheduled = (await events('order-1003', 'DeciderScheduled')).at(-1);
    await browser.shows('.act-dialog label', 'proposed: the decider makes its last decision again');
    assert.equal(await browser.run('() => document.querySelector("#act-eventId").value'), String(scheduled.id));
    await browser.press('Escape');
    await isClosed();
    const before = await browser.path();
    await browser.go(`${service.url}${before}?event=${started.id}`);
    await browser.shows('.panel h2', `${started.id} DeciderStarted`);
    await act('Reset');
    assert.equal(await browser.run('() => document.querySelector("#act-eventId").value'), String(started.id));
    await fill('reason', 'try the new card');
    await submit();
    await browser.shows('.act-dialog .trouble', 'invalid-reset-point');
    await browser.click('.act-dialog .trouble .link', 'from event');
    await submit();
    await isClosed();
    await until('the page is the new run', async () => {
      const path = await browser.path();
      return path.includes('order-1003') && !path.startsWith(before.split('?')[0]);
    });
    await browser.shows('.family', 'reset from');
    await browser.shows('.card .event', 'try the new card');
    await browser.complaints();
  });

  test('a query shows what the decider answers', async () => {
    const { browser, service, open } = at();
    const poll = () => service.call('POST', '/task-lists/asked/decider/poll', { queries: true });
    const answer = ({ token }, body) => service.call('POST', `/v1/decider-tasks/${token}/complete`, body);
    await service.call('POST', '/workflows', { workflowId: 'asked', workflowType: 'asked', taskList: 'asked' });
    await answer(await poll(), { decisions: [{ type: 'StartTimer', timerId: 'long', after: '9d' }] });
    await open('asked');
    await act('Query');
    await fill('-name', 'total');
    await submit();
    const task = await poll();
    await answer(task, { queryResults: [{ id: task.queries[0].id, result: { total: 1290 } }] });
    await browser.shows('.act-dialog .answer', 'total: 1290');
    await browser.click('.act-dialog .dialog-buttons button', 'Close');
    await isClosed();
  });

  test('an update is asked for from the page, and its answer is shown', async () => {
    const { browser, service, open } = at();
    const poll = () => service.call('POST', '/task-lists/limits/decider/poll', { updates: 4 });
    const answer = ({ token }, body) => service.call('POST', `/v1/decider-tasks/${token}/complete`, body);
    await service.call('POST', '/workflows', { workflowId: 'limits', workflowType: 'limits', taskList: 'limits' });
    await answer(await poll(), { decisions: [{ type: 'StartTimer', timerId: 'long', after: '9d' }] });
    await open('limits');
    await act('Update');
    await fill('-name', 'limit');
    await fill('input', '9000');
    await fill('identity', 'kim');
    await submit();
    const task = await poll();
    assert.deepEqual([task.updates[0].name, task.updates[0].input], ['limit', 9000]);
    await answer(task, {
      decisions: [],
      updateResults: [{ id: task.updates[0].id, accepted: { was: 100 } }],
    });
    await browser.shows('.act-dialog .answer', 'was: 100');
    await browser.click('.act-dialog .dialog-buttons button', 'Close');
    await isClosed();
    await browser.shows('.card .event', 'limit');
  });

  test('an activity is paused, resumed and failed by hand', async () => {
    const { browser, service, open } = at();
    const list = 'by-hand-walk';
    await service.call('POST', '/workflows', { workflowId: 'by-hand', workflowType: 'by-hand', taskList: list });
    const { token } = await service.call('POST', `/task-lists/${list}/decider/poll`, {});
    const activity = { type: 'ScheduleActivity', activityId: 'dig', activityType: 'dig', taskList: 'nobody-digs' };
    await service.call('POST', `/v1/decider-tasks/${token}/complete`, { decisions: [activity] });
    await open('by-hand');
    const group = '[aria-label="Actions for dig"] .act';
    const say = async (name, field, words) => {
      await browser.click(group, name);
      await fill(field, words);
      await submit();
      await isClosed();
    };
    // The section is open while the activity needs attention.
    await browser.click('.by-hand:not([open]) summary');
    await say('Pause', 'reason', 'it rains');
    await browser.shows('.run-head .badge', 'blocked');
    await browser.shows('.by-hand[open] .act', 'Resume');
    await say('Resume', 'reason', 'it is dry');
    await browser.shows('.run-head .badge', 'open');
    await browser.click('.by-hand:not([open]) summary');
    await browser.shows('.by-hand[open] .act', 'Pause');
    await say('Fail', 'failureReason', 'no spade');
    await until('it has failed', async () => (await events('by-hand', 'ActivityFailed'))[0]?.reason === 'no spade');
    assert.equal((await events('by-hand', 'ActivityPaused'))[0].reason, 'it rains');
    await browser.shows('.card .event', 'dig: no spade');
  });

  test('a schedule is triggered, paused and resumed', async () => {
    const { browser, address } = at();
    await browser.go(address('default/schedules'));
    await browser.click('[aria-label="Actions for nightly-archive"] .act', 'Trigger');
    await submit();
    await isClosed();
    // The schedule itself may start a run, too, if the test runs around half past two.
    await browser.shows('.schedule li', ', trigger archive-nightly');
    await browser.click('[aria-label="Actions for nightly-archive"] .act', 'Pause');
    await fill('reason', 'moving house');
    await submit();
    await isClosed();
    await browser.shows('.schedule', 'moving house');
    await browser.click('[aria-label="Actions for nightly-archive"] .act', 'Resume');
    await submit();
    await isClosed();
    await browser.shows('[aria-label="Actions for nightly-archive"] .act', 'Pause');
  });
}
