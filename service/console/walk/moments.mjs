// Tests of input at the moment when a page is painted, and of changes while a page reads data. Neither may be lost.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';
import { Service } from './service.mjs';

/** `at` returns the browser, the service, and a function that opens a run. It is called only in tests. */
export function inTheMoment(at) {
  /** Runs a script in each loaded page, before the scripts of the page. */
  const within = async (source, walk) => {
    const { identifier } = await at().browser.devtools('Page.addScriptToEvaluateOnNewDocument', { source });
    try {
      await walk();
    } finally {
      await at().browser.devtools('Page.removeScriptToEvaluateOnNewDocument', { identifier });
    }
  };
  /** Returns a script that does something once, as soon as an element exists and before the page is painted. */
  const asSoonAs = (selector, does) => `{
    let isDone = false;
    new MutationObserver(() => {
      if (isDone || !document.querySelector(${JSON.stringify(selector)})) return;
      isDone = true;
      ${does}
    }).observe(document, { childList: true, subtree: true });
  }`;
  /** Returns a script that holds requests whose path matches, until `goOn` is called. */
  const holding = (path) => `{
    const ask = window.fetch;
    window.held = 0;
    const goesOn = new Promise((done) => { window.goOn = done; });
    window.fetch = async (path, init) => {
      if (${path}.test(path)) {
        window.held++;
        await goesOn;
      }
      return ask(path, init);
    };
  }`;
  const isHeld = () => until('it is asked', () => at().browser.run('() => window.held > 0'));
  const goOn = () => at().browser.run('() => window.goOn()');
  const start = (workflowId, more = {}) =>
    at().service.call('POST', '/workflows', { workflowId, workflowType: 'odd', taskList: 'nobody-decides', ...more });
  const end = (workflowId) => at().service.call('POST', `/workflows/${workflowId}/terminate`, {});

  test('a page takes a file that is dropped, and hears a key, as soon as it is there', async () => {
    const { browser, service, address } = at();
    const drop = `const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['<html>'], 'some.json'));
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));`;
    await within(asSoonAs('.choose', drop), async () => {
      await browser.go(address('recorded/turns'));
      await browser.shows('.trouble', 'Cannot read some.json as a history.');
    });
    const key = `document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '4', bubbles: true }));`;
    const { runId } = await service.call('GET', '/workflows/order-1005');
    await within(asSoonAs('.tabs', key), async () => {
      await browser.go(address(`default/workflows/order-1005/${runId}/turns`));
      await browser.shows('.event-rows', 'WorkflowSuccess');
    });
    // The search field is on the page of runs, which is not shown yet when the first letters are typed.
    await browser.go(address('default/schedules'));
    await browser.shows('.schedule');
    await browser.press('/', ...'type:order');
    assert.equal(await browser.run('() => document.querySelector("#search").value'), 'type:order');
  });

  test('what happens after a list was read, and before it is followed, is shown', async () => {
    const { browser } = at();
    // A separate service, in which no other changes occur. Another change would make the page read again.
    const service = await Service.open();
    try {
      await within(holding('/changes$/'), async () => {
        await browser.go(`${service.url}/console/default/workflows`);
        await browser.shows('.empty', 'No runs yet');
        await isHeld();
        await service.call('POST', '/workflows', { workflowId: 'between', workflowType: 'odd', startAfter: '30d' });
        await goOn();
        await browser.shows('.newer', 'Show 1 newer');
        await browser.click('.newer');
        await browser.shows('.row.run', 'between');
      });
    } finally {
      // The page is left first, because it would report errors when the service has ended.
      await browser.go('about:blank');
      await service.close();
      await browser.complaints();
    }
  });

  test('a list that is not read yet is not read twice when something changes', async () => {
    const { browser, address } = at();
    await start('slow-to-come', { tags: ['slow-to-come'] });
    await within(holding('/workflows[?].*slow-to-come/'), async () => {
      await browser.go(address('default/workflows?tag=slow-to-come'));
      await isHeld();
      await end('slow-to-come');
      await browser.shows('.looking', 'Loading runs');
      await goOn();
      await browser.shows('.row.run .badge', 'terminated');
      assert.equal(await browser.run('() => document.querySelectorAll(".newer").length'), 0, 'nothing is newer');
    });
  });

  test('a run that closes between its description and its history is shown as closed', async () => {
    const { browser, address } = at();
    const acts = () => browser.run('() => document.querySelectorAll(".run-head .act").length');
    await start('closes-meanwhile');
    await within(holding('/history[?].*reverse/'), async () => {
      await browser.go(address('default/workflows/closes-meanwhile'));
      await browser.shows('.run-head .badge', 'open');
      await isHeld();
      assert.equal(await acts(), 0, 'nothing is offered that does not know the history');
      await end('closes-meanwhile');
      await goOn();
      await browser.shows('.run-head .badge', 'terminated');
    });
  });

  test('a row that changes its place keeps the focus, whether it rises or falls', async () => {
    const { browser, address } = at();
    const ids = [];
    const more = async (list, count) => {
      for (let n = 0; n < count; n++) {
        ids.push(`${list}-${ids.length}`);
        await start(ids.at(-1), { taskList: list });
      }
    };
    await more('place-1', 2);
    await more('place-2', 1);
    await browser.go(address('default/lists'));
    const order = `() => [...document.querySelectorAll('.lists [data-row] .list-name')].map((one) => one.innerText)
      .filter((name) => name.startsWith('place-')).join()`;
    const isInOrder = (names) => until(names, async () => (await browser.run(order)) === names);
    const focused = '() => document.activeElement.closest("[data-row]")?.querySelector(".list-name").innerText';
    await isInOrder('place-1,place-2');
    await browser.run(`() => [...document.querySelectorAll('.lists [data-row]')]
      .find((row) => row.innerText.startsWith('place-2')).focus()`);
    await more('place-2', 2);
    await isInOrder('place-2,place-1');
    assert.equal(await browser.run(focused), 'place-2', 'it has risen');
    await more('place-1', 2);
    await isInOrder('place-1,place-2');
    assert.equal(await browser.run(focused), 'place-2', 'it has fallen');
    for (const id of ids) await end(id);
  });
}
