// Tests of the page of runs: actions on many runs, starting runs, and saved views.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';

/** `at` returns the browser, the service, and a function that opens a run. It is called only in tests. */
export function runsByHand(at) {
  const fill = (field, text) => at().browser.type(`#act-${field}`, text);
  const submit = (words = '') => at().browser.click('dialog[open] .main', words);
  const isClosed = () =>
    until('the dialog is gone', () => at().browser.run('() => !document.querySelector("dialog[open]")'));
  const start = (workflowId, workflowType) =>
    at().service.call('POST', '/workflows', { workflowId, workflowType, taskList: 'nobody-decides' });
  const many = async (count, type) => {
    const ids = Array.from({ length: count }, (_, n) => `${type}-${n + 1}`);
    for (let n = 0; n < count; n += 40) await Promise.all(ids.slice(n, n + 40).map((id) => start(id, type)));
  };
  const list = async (type) => {
    const { browser, address } = at();
    await browser.go(address(`default/workflows?type=${type}`));
    await browser.shows('.row.run');
  };
  const rows = (selector) => at().browser.run(`() => document.querySelectorAll(${JSON.stringify(selector)}).length`);

  test('some runs are selected with the keyboard and signaled, each once, and the others are not', async () => {
    const { browser, service } = at();
    await many(4, 'few');
    await list('few');
    await browser.press('j', 'x', 'j', 'j', 'x');
    await browser.shows('.bulk', '2 selected');
    await browser.press('k', 'x', 'x');
    await browser.shows('.bulk', '2 selected');
    assert.equal(await rows('.row.selected input:checked'), 2);
    // A click selects, too, and keys still work after it.
    await browser.click('.row.run .select input');
    await browser.shows('.bulk', '1 selected');
    await browser.press('k', 'k', 'x');
    await browser.shows('.bulk', '2 selected');
    await browser.click('.bulk .act', 'Signal');
    await browser.shows('dialog h2', 'Signal 2 runs');
    const ids = await browser.shows('.planned ul', 'few-');
    await submit();
    await browser.shows('.lack', 'Required.');
    await fill('-name', 'stock-taking');
    await fill('input', '{"n": 1.0}');
    await submit();
    await browser.shows('.progress', '2 runs signaled.');
    await browser.click('dialog[open] button', 'Close');
    await isClosed();
    const signaled = [];
    for (let n = 1; n <= 4; n++) {
      const signals = (await service.history(`few-${n}`)).filter(({ type }) => type === 'Signal');
      if (signals.length > 0) signaled.push(`few-${n}`);
      for (const signal of signals) {
        assert.deepEqual([signal.name, signal.input], ['stock-taking', { n: 1 }]);
        assert.match(signal.requestKey, /^[0-9a-f]{16}$/, 'it has a key, so that it is recorded once');
      }
    }
    assert.deepEqual(signaled.sort(), ids.trim().split(/\s+/).sort());
    assert.equal(signaled.length, 2);
    assert.equal(await rows('.bulk'), 0, 'nothing is selected any more');
  });

  test('a run that has closed meanwhile is told, and what fails is listed in the service’s words', async () => {
    const { browser, service } = at();
    await many(3, 'changing');
    await list('changing');
    await browser.press('j', 'x', 'j', 'x', 'j', 'x');
    await browser.click('.bulk .act', 'Request cancel');
    await browser.shows('dialog h2', 'Request cancel of 3 runs');
    await service.call('POST', '/workflows/changing-2/terminate', {});
    await fill('reason', 'bought twice');
    await submit();
    await browser.shows('.progress', '2 runs asked to cancel, 1 changed in the meantime.');
    await browser.shows('.outcomes', 'changing-2');
    await browser.shows('.outcomes', 'run-closed');
    assert.equal(await rows('.trouble'), 0, 'that is no error');
    await browser.click('dialog[open] button', 'Close');
    await browser.shows('.row.run .badge', 'terminated');
    // A closed run is left out from the beginning.
    await browser.press('k', 'k', 'x', 'j', 'x', 'j', 'x');
    await browser.click('.bulk .act', 'Signal');
    await browser.shows('.planned', '1 run already closed: not affected.');
    await fill('-name', 'x'.repeat(1000));
    await submit('Signal 2 runs');
    await browser.shows('.progress', '0 runs signaled, 2 failed.');
    await browser.shows('.outcomes li code');
    await submit('Retry the 2 failed runs');
    await browser.shows('.progress', '0 runs signaled, 2 failed.');
    await browser.click('dialog[open] button', 'Close');
    await isClosed();
    // The browser reports refused requests as errors, too.
    await browser.complaints();
  });

  test('a run is started from the page, and another one like it, byte for byte', async () => {
    const { browser, service, address, open } = at();
    await browser.go(address('default/workflows?type=sketch'));
    await browser.click('.bar .act', 'Start run');
    await fill('workflowId', 'sketch-1');
    assert.equal(await browser.run('() => document.querySelector("#act-workflowType").value'), 'sketch');
    await fill('input', '{"2": 1.0, "1": 12345678901234567890}');
    await browser.click('.part summary', 'Timeouts and tags');
    await fill('tags', 'a tag');
    await fill('executionTimeout', '2h');
    await browser.click('.part summary', 'Retry policy');
    await fill('retry-maximumAttempts', '3');
    await submit();
    await browser.shows('.run-head h1', 'sketch-1');
    await browser.click('.run-head .act', 'Start similar run');
    await browser.shows('dialog h2', 'Start run similar to sketch-1');
    await submit();
    await browser.shows('.run-head h1', 'sketch-1-again');
    const text = async (id) =>
      (await fetch(`${service.url}/v1/domains/default/workflows/${id}/history?limit=1`)).text();
    const again = await text('sketch-1-again');
    assert.ok(again.includes('{"2": 1.0, "1": 12345678901234567890}'), again);
    const [[first], [second]] = [await text('sketch-1'), again].map((one) => JSON.parse(one).events);
    for (const field of ['workflowType', 'taskList', 'tags', 'executionTimeout', 'retry', 'activityTimeouts'])
      assert.deepEqual(second[field], first[field], field);
    assert.deepEqual([second.tags, second.executionTimeout, second.retry.maximumAttempts], [['a tag'], 'PT2H', 3]);
    await open('sketch-1');
    await browser.click('.run-head .act', 'Start similar run');
    await submit();
    await browser.shows('.act-dialog .trouble', 'workflow-already-open');
    await browser.press('Escape');
    await isClosed();
    await browser.complaints();
  });

  test('a view is kept under a name, in this browser, and is a URL', async () => {
    const { browser, address } = at();
    await browser.go(address('default/workflows?status=failed&type=report'));
    await browser.click('.bar .quiet', 'Save view');
    await until('a name is asked for', () => browser.run('() => document.activeElement.id === "view-name"'));
    await browser.press(...'broken reports', 'Enter');
    await browser.shows('.saved-view.here', 'broken reports');
    await browser.go(address('default/workflows'));
    await browser.click('.saved-view a', 'broken reports');
    await until('the URL is the view', async () => (await browser.path()).endsWith('?status=failed&type=report'));
    await browser.shows('.row.run', 'report-1');
    await browser.click('.saved-view button');
    await until('it is gone', async () => (await rows('.saved-view')) === 0);
  });
}
