// Tests of limits and pauses of task lists: the page of lists, the page of one list, limit groups, and what a run that
// waits behind a limit says.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';

/**
 * Starts runs that each schedule one activity on a list, with one concurrency key after the other. Takes `running` of
 * the activities like a runner.
 */
export async function charges(service, list, count, running = 0) {
  const taskList = `${list}-deciders`;
  const keys = ['visa', 'visa', 'visa', 'amex'];
  for (let n = 1; n <= count; n++) {
    const workflowId = `${list}-${n}`;
    const concurrencyKey = keys[n % keys.length];
    await service.call('POST', '/workflows', { workflowId, workflowType: 'charge', taskList, concurrencyKey });
    const { token } = await service.call('POST', `/task-lists/${taskList}/decider/poll`, {}, { prefer: 'wait=20' });
    const decision = {
      type: 'ScheduleActivity',
      activityId: 'charge',
      activityType: 'charge-card',
      taskList: list,
      timeouts: { startToClose: '1h', scheduleToClose: '2h' },
    };
    await service.call('POST', `/v1/decider-tasks/${token}/complete`, { decisions: [decision] });
  }
  const tokens = [];
  for (let n = 0; n < running; n++) {
    const poll = { identity: `runner-${(n % 2) + 1}` };
    const task = await service.call('POST', `/task-lists/${list}/activity/poll`, poll, { prefer: 'wait=20' });
    tokens.push(task.token);
  }
  return tokens;
}

/** `at` returns the browser, the service and addresses. `findings` returns the findings of axe on the current page. */
export function limitsByHand(at, findings) {
  const fill = (field, text) => at().browser.type(`#act-${field}`, text);
  const refill = (field, text) => at().browser.replace(`#act-${field}`, text);
  const submit = (words = '') => at().browser.click('dialog[open] .main', words);
  const isClosed = () =>
    until('the dialog is gone', () => at().browser.run('() => !document.querySelector("dialog[open]")'));
  const lists = async (name) => {
    const { taskLists } = await at().service.call('GET', `/task-lists/${name}`);
    return taskLists.find(({ kind }) => kind === 'activity');
  };
  const runners = '[aria-label="Actions for the list of runners"] .act';
  const row = (name) => `() => [...document.querySelectorAll('.lists tbody tr')]
    .map((row) => row.innerText.replace(/\\s+/g, ' ')).find((text) => text.startsWith('${name}'))`;

  test('limits are set with a form that is filled in, and removed', async () => {
    const { browser, address } = at();
    await browser.go(address('default/task-lists/cards'));
    await browser.shows('h1', 'cards');
    await browser.shows('.list-card', 'No tasks, pollers, limits or pause.');
    await browser.click(runners, 'Set limits');
    await fill('maxRunning', '3');
    await fill('rate-perSecond', '0.5');
    await fill('rate-burst', '4');
    await browser.click('.part summary', 'Each concurrency key');
    await fill('perKey-maxRunning', '2');
    await browser.click('.part summary', 'Single concurrency keys');
    await fill('limits', 'visa=two');
    await submit();
    await browser.shows('.lack', 'Write KEY=LIMITS');
    await refill('limits', 'visa=2,5/s,weight:3\ngold=10');
    await submit();
    await isClosed();
    await browser.shows('.limits', 'visa');
    const { limits } = await lists('cards');
    assert.equal(limits.maxRunning, 3);
    assert.deepEqual(limits.rate, { perSecond: 0.5, burst: 4 });
    assert.deepEqual(limits.perKey, { maxRunning: 2 });
    assert.deepEqual(limits.limits.map(({ key, maxRunning, weight }) => [key, maxRunning, weight]).sort(), [
      ['gold', 10, undefined],
      ['visa', 2, 3],
    ]);
    await browser.click(runners, 'Change limits');
    const value = (field) => browser.run(`() => document.querySelector('#act-${field}').value`);
    assert.deepEqual(
      [await value('maxRunning'), await value('rate-burst'), await value('perKey-maxRunning')],
      ['3', '4', '2'],
    );
    assert.deepEqual((await value('limits')).split('\n').sort(), ['gold=10', 'visa=2,5/s,weight:3']);
    await refill('maxRunning', '0');
    await submit();
    await browser.shows('.act-dialog .trouble', 'invalid-field');
    await browser.press('Escape');
    await isClosed();
    await browser.click(runners, 'Remove limits');
    await submit('Remove limits');
    await isClosed();
    await until('it has no limits', async () => (await lists('cards')).limits === undefined);
    await browser.shows('.list-card', 'No tasks, pollers, limits or pause.');
    await browser.complaints();
  });

  test('a group is created, shared, and deleted without lists', async () => {
    const { browser, address, service } = at();
    await browser.go(address('default/task-lists'));
    await browser.click('[aria-label="Limit groups"] .act', 'Create limit group');
    await fill('-name', 'bank');
    await fill('maxRunning', '30');
    await submit();
    await isClosed();
    await browser.shows('.groups .card', 'at most 30 running');
    await browser.shows('.groups .card', 'No lists.');
    await browser.go(address('default/task-lists/refunds'));
    await browser.click(runners, 'Set limits');
    await browser.choose('#act-group', 'bank');
    await submit();
    await isClosed();
    assert.equal((await lists('refunds')).limits.group, 'bank');
    await browser.shows('.limits', 'bank');
    await browser.go(address('default/task-lists'));
    await browser.shows('.groups .card', 'Shared by refunds');
    assert.deepEqual(await findings(), []);
    await browser.click('[aria-label="Actions for bank"] .act', 'Delete');
    await submit();
    await browser.shows('.act-dialog .trouble', 'limit-group-in-use');
    await browser.press('Escape');
    await isClosed();
    await service.call('PUT', '/task-lists/refunds/activity/limits', {});
    await browser.click('[aria-label="Actions for bank"] .act', 'Delete');
    await submit();
    await isClosed();
    await browser.shows('.groups', 'No groups.');
    await browser.complaints();
  });

  test('waiting tasks are counted, and each has limits and place', async () => {
    const { browser, address, service } = at();
    await service.call('PUT', '/task-lists/paying/activity/limits', { maxRunning: 2, perKey: { maxRunning: 2 } });
    await charges(service, 'paying', 6, 2);
    await browser.go(address('default/task-lists'));
    await browser.shows('.lists', 'paying');
    await until('the sums are shown', async () => {
      await browser.press('r');
      return /paying runners 4 .* 2 of 2 2 running, per key 4 wait behind: 2 of 2 running on paying/.test(
        await browser.run(row('paying')),
      );
    });
    await browser.click('.lists .list-name', 'paying');
    await browser.shows('.held', '4 wait behind: 2 of 2 running on paying');
    await browser.shows('.limits', 'each key');
    await browser.shows('.tasks', 'waits behind: 2 of 2 running on paying');
    await browser.shows('.tasks', 'ahead');
    assert.deepEqual(await findings(), []);
    await browser.click('.tasks a');
    await browser.shows('.panel h2', 'ActivityScheduled');
  });

  test('a run says that it waits behind a limit or a pause', async () => {
    const { browser, address, service, open } = at();
    await service.call('PUT', '/task-lists/held/activity/limits', { maxRunning: 1 });
    const [token] = await charges(service, 'held', 2, 1);
    const words = 'waits behind: 1 of 1 running on held';
    const waits = (await service.call('GET', '/workflows/held-1')).openActivities[0].startedAt ? 'held-2' : 'held-1';
    assert.ok(service.command('workflow', 'show', waits).includes(words));
    await open(waits);
    await browser.shows('.run-head .reason', `Activity charge ${words}`);
    await browser.shows('.side', words);
    await browser.press('3');
    await browser.shows('.who', words);
    await browser.go(address('default/task-lists/held'));
    await browser.click(runners, 'Pause');
    await fill('reason', 'maintenance');
    await refill('identity', 'kim');
    await submit();
    await isClosed();
    await browser.shows('.list-card', 'by kim: maintenance');
    const { paused } = await lists('held');
    assert.deepEqual([paused.reason, paused.identity], ['maintenance', 'kim']);
    await browser.go(address('default/task-lists'));
    await until('the list of lists shows it', async () =>
      /paused .* by kim: maintenance/.test(await browser.run(row('held'))),
    );
    await open(waits);
    await browser.shows('.run-head .reason', 'waits behind: held is paused');
    // The runner takes the task without an event of the run that the page would follow, so the page asks again.
    await service.call('POST', `/v1/activity-tasks/${token}/success`, {});
    await service.call('POST', '/task-lists/held/activity/resume', {});
    await service.call('PUT', '/task-lists/held/activity/limits', {});
    await until('the page has followed', async () => {
      const reason = await browser.run('() => document.querySelector(".run-head .reason").innerText');
      return !reason.includes('behind');
    });
  });
}
