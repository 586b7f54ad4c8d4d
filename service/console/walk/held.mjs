// Tests of properties that every page has: an address that can be shared, a layout for phones, keys, and a limit for
// transferred bytes. Also tests the progress that is shown during a search.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';
import { Service } from './service.mjs';

/** Maximum number of transferred bytes. Source: docs/performance.md. */
const TRANSFERRED_BYTES_MAX = 250_000;
/** Number of runs that are started while a page is open, and number of concurrent starts. */
const RUNS_GO_BY = 10_000;
const AT_ONCE = 32;

/**
 * `at` returns the browser, the service, and a function that opens a run. `pages` lists all pages, each with an element
 * that it shows.
 */
export function heldByAll(at, pages) {
  test('every page is a URL that shows it again, and complains of nothing', async () => {
    const { browser, service } = at();
    for (const [name, show, selector, words] of pages) {
      await show();
      await browser.shows(selector, words);
      const path = await browser.path();
      // Dialogs have no address, and the answer to a query must be requested again.
      if (/dialog|many runs|a start|a query/.test(name)) continue;
      await browser.go('about:blank');
      await browser.go(service.url + path);
      await browser.shows(selector, words);
      assert.equal(await browser.path(), path, name);
    }
    assert.deepEqual(await browser.complaints(), []);
  });

  test('no page is wider than a phone', async () => {
    const { browser } = at();
    const wide = [];
    try {
      for (const [name, show, selector, words] of pages) {
        await browser.size(390, 844);
        await show();
        await browser.shows(selector, words);
        const over =
          await browser.run(`() => [document.documentElement, ...document.querySelectorAll('main, dialog[open]')]
          .map((one) => one.scrollWidth - one.clientWidth).filter((pixels) => pixels > 1)`);
        if (over.length > 0) wide.push(`${name}: ${over.join(', ')} pixels too wide`);
      }
    } finally {
      await browser.size(1280, 800);
    }
    assert.deepEqual(wide, []);
  });

  test('every page hears the keys: ? shows them, / leads to the search, j and k go through its rows, Enter opens', async () => {
    const { browser, address } = at();
    // The test checks the row itself, because its text may change every second.
    const focused = (isSo) =>
      browser.run(`() => {
        const row = document.activeElement.closest('[data-row]');
        return row !== null && (${isSo});
      }`);
    for (const [name, show, selector, words] of pages) {
      if (/dialog|many runs|a start/.test(name)) continue;
      await show();
      await browser.shows(selector, words);
      await browser.press('?');
      await browser.shows('dialog[open] h2', 'Keyboard shortcuts');
      await browser.press('Escape');
      await until('the keys are gone', () => browser.run('() => !document.querySelector("dialog[open]")'));
      const rows = await browser.run('() => document.querySelectorAll("#main [data-row]").length');
      if (rows > 1) {
        await browser.press('j');
        await until(`${name} has a first row`, () => focused('Boolean((window.first = row))'));
        await browser.press('j');
        await until(`${name} has a next row`, () => focused('row !== window.first'));
        await browser.press('k');
        await until(`${name} has the row before`, () => focused('row === window.first'));
      }
      await browser.press('/');
      await until(`${name} leads to the search`, () => browser.run('() => document.activeElement.id === "search"'));
    }
    await browser.go(address('default/task-lists'));
    await browser.shows('.lists', 'nobody-here');
    await browser.press('j');
    await until('a list', () => focused('true'));
    await browser.press('Enter');
    await browser.shows('.tasks', 'event');
  });

  test('a page of a task list shows its tasks, which lead to runs', async () => {
    const { browser, address } = at();
    await browser.go(address('default/task-lists'));
    await browser.click('.list-name', 'nobody-here');
    await browser.shows('.tasks', 'site-north');
    const canonical = '/console/default/task-lists/nobody-here';
    assert.equal(await browser.path(), canonical);
    // Lists had no separate pages.
    await browser.go(address('default/lists?list=activity+nobody-here'));
    await browser.shows('.tasks', 'site-north');
    await until('the other address becomes this one', async () => (await browser.path()) === canonical);
    await browser.click('.tasks a', 'site-north');
    await browser.shows('.panel h2', 'ActivityScheduled');
  });

  test('what a page loads comes from the service alone, and is small', async () => {
    const { browser, service, address } = at();
    await browser.devtools('Network.enable');
    await browser.devtools('Network.setCacheDisabled', { cacheDisabled: true });
    try {
      await browser.go(address('default/workflows'));
      await browser.shows('.row.run');
      const loaded = await browser.run(`() => [...performance.getEntriesByType('navigation'),
        ...performance.getEntriesByType('resource')].map(({ name, transferSize }) => [name, transferSize])`);
      const files = loaded.filter(([name]) => new URL(name).pathname.startsWith('/console/'));
      assert.ok(files.length >= 4, JSON.stringify(files));
      assert.deepEqual(
        loaded.filter(([name]) => !name.startsWith(service.url)),
        [],
      );
      const bytes = files.reduce((sum, [, size]) => sum + size, 0);
      assert.ok(bytes > 20_000 && bytes <= TRANSFERRED_BYTES_MAX, `${bytes} bytes: ${JSON.stringify(files)}`);
    } finally {
      await browser.devtools('Network.setCacheDisabled', { cacheDisabled: false });
    }
  });

  test('the frame of a page is painted before the console is there', async () => {
    const { browser, address } = at();
    await browser.devtools('Network.setBlockedURLs', { urls: ['*/console/console.js'] });
    try {
      await browser.go(address('default/workflows'));
      await browser.shows('.top .brand', 'Baton');
      await browser.shows('main', 'Loading the console');
      await until('it is painted', () =>
        browser.run('() => performance.getEntriesByName("first-contentful-paint").length > 0'),
      );
    } finally {
      await browser.devtools('Network.setBlockedURLs', { urls: [] });
    }
    // The browser reports the blocked file as an error.
    await browser.complaints();
    await browser.go(address('default/workflows'));
    await browser.shows('.row.run');
    assert.equal(await browser.run('() => document.body.innerText.includes("Loading the console")'), false);
  });

  test('a list that is long in coming says at how many runs was looked, and of how many', async () => {
    const { browser, address } = at();
    // Simulates the responses of a service with many runs, few of which match.
    const source = `{
      const ask = window.fetch;
      let pages = 0;
      window.goOn = [];
      const json = (body) => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
      window.fetch = async (path, init) => {
        if (/\\/workflow-count$/.test(path)) return json({ count: 1000000, truncated: false, byStatus: { open: 1000000 } });
        if (!/\\/workflows\\?.*tag=rare/.test(path)) return ask(path, init);
        if (pages > 0) await new Promise((done) => window.goOn.push(done));
        return ++pages < 3 ? json({ workflows: [], examined: 4096, nextPage: String(pages) }) : ask(path.replace(/&page=.*/, '').replace('tag=rare', 'tag=declined'), init);
      };
    }`;
    const { identifier } = await browser.devtools('Page.addScriptToEvaluateOnNewDocument', { source });
    try {
      await browser.go(address('default/workflows?tag=rare'));
      await browser.shows('.looking', 'Searching: 4,096 of 1,000,000 runs so far.');
      await browser.run('() => window.goOn.shift()()');
      await browser.shows('.looking', '8,192 of 1,000,000 runs so far');
      await until('it is asked again', () => browser.run('() => window.goOn.length > 0'));
      await browser.run('() => window.goOn.shift()()');
      await browser.shows('.row.run', 'declined');
      await until('nothing is looked for any more', () => browser.run('() => !document.querySelector(".looking")'));
    } finally {
      await browser.devtools('Page.removeScriptToEvaluateOnNewDocument', { identifier });
    }
  });

  test('one goes to an event by its id, by the turn, and by the time, also in a long run', async () => {
    const { browser, service, open } = at();
    const goTo = async (text) => {
      await browser.run('() => { document.querySelector(".goto input").value = ""; }');
      await browser.type('.goto input', text);
      await browser.run('() => document.querySelector(".goto").requestSubmit()');
    };
    const events = await service.history('order-1003');
    const third = events.filter(({ type }) => type === 'DeciderScheduled')[2];
    const from = Date.parse(events[0].timestamp);
    const later = events.find(({ timestamp }) => Date.parse(timestamp) - from >= 1000);
    await open('order-1003', 'events');
    await browser.shows('.event-rows .row');
    for (const [text, { id, type }] of [
      ['12', events[11]],
      ['turn 3', third],
      ['+1s', later],
      [later.timestamp, later],
    ]) {
      await goTo(text);
      await browser.shows('.panel h2', `${id} ${type}`);
    }
    await goTo('turn 99');
    await browser.shows('.goto', 'There is no such turn.');
    await goTo('somewhere');
    await browser.shows('.goto', 'Enter an event');
    // The history is longer than one page, so its first turns are not loaded.
    const { runId } = await service.call('GET', '/workflows/long');
    const found = await service.call('GET', `/workflows/long/history?limit=1000&after=900`);
    const second = found.events.find(({ type }) => type === 'DeciderScheduled');
    await browser.go(`${service.url}/console/default/workflows/long/${runId}/events`);
    await browser.shows('.event-rows .row');
    await goTo('turn 2');
    await browser.shows('.panel h2', `${second.id} DeciderScheduled`);
    await browser.go(`${service.url}/console/default/workflows/long/${runId}/events`);
    await browser.shows('.event-rows .row');
    // Many events have the same time. The first of them must be found.
    await goTo(second.timestamp);
    await until('an event of that time', async () => {
      const id = Number((await browser.path()).match(/event=(\d+)/)?.[1]);
      if (!id) return false;
      const { events } = await service.call('GET', `/workflows/long/history?limit=2&after=${Math.max(0, id - 2)}`);
      return events[1].timestamp === second.timestamp && events[0].timestamp < second.timestamp;
    });
    // A turn has no number if the earlier events are not loaded.
    await browser.go(`${service.url}/console/default/workflows/long/${runId}/turns?event=${second.id}`);
    await browser.shows('.card.chosen h2', 'Turn ');
    assert.deepEqual(await browser.complaints(), []);
  });

  test('where nothing is there yet a sample is started from the page, which decides for it', async () => {
    const { browser } = at();
    const service = await Service.open();
    try {
      await browser.go(`${service.url}/console/`);
      await browser.shows('.first code', 'baton workflow start hello-1 --type hello');
      await browser.click('.first .act', 'Start sample');
      await browser.shows('.run-head h1', 'sample-');
      await browser.shows('.card .event', 'patience');
      await browser.shows('.side', 'hello');
      const path = await browser.path();
      await browser.click('.run-head .act', 'Query');
      await browser.type('#act--name', 'page');
      await browser.click('dialog[open] .main');
      await browser.shows('.asked h2', 'Say hello');
      await browser.click('.asked .act', 'Say hello');
      await browser.click('dialog[open] .main');
      await until('it has ended', async () => {
        const { workflows } = await service.call('GET', '/workflows');
        return workflows[0].status === 'success';
      });
      await browser.go(service.url + path);
      await browser.shows('.run-head .badge', 'success');
      await browser.shows('.side', 'you');
      assert.deepEqual(await browser.complaints(), []);
    } finally {
      // The page is left first, because it would report errors when the service has ended.
      await browser.go('about:blank');
      await service.close();
      await browser.complaints();
    }
  });

  test('ten thousand runs go by, the page follows, and keys are answered', async () => {
    const { browser } = at();
    const service = await Service.open();
    try {
      await service.call('POST', '/workflows', { workflowId: 'first', workflowType: 'odd', startAfter: '30d' });
      await browser.go(`${service.url}/console/default/workflows`);
      await browser.shows('.row.run', 'first');
      const number = () =>
        browser.run('() => Number(document.querySelector(".tally-count").innerText.replace(/\\D/g, ""))');
      await until('it is counted', async () => (await number()) === 1);
      let made = 0;
      const start = async () => {
        while (made < RUNS_GO_BY)
          await service.call('POST', '/workflows', {
            workflowId: `by-${made++}`,
            workflowType: 'odd',
            startAfter: '30d',
          });
      };
      const starting = Promise.all(Array.from({ length: AT_ONCE }, start));
      await browser.shows('.newer', ' newer');
      // Known rows stay, and newer rows are added on request.
      await browser.shows('.row.run', 'first');
      await browser.click('.newer');
      await browser.shows('.row.run', 'by-');
      await browser.press('j');
      await browser.shows('.row.at');
      await starting;
      await until('all are counted', async () => (await number()) === RUNS_GO_BY + 1);
      await browser.press('j');
      await browser.press('?');
      await browser.shows('dialog[open] h2', 'Keyboard shortcuts');
      await browser.press('Escape');
      const drawn = await browser.run('() => document.querySelectorAll(".row.run").length');
      assert.ok(drawn < 100, `${drawn} rows are drawn`);
      assert.deepEqual(await browser.complaints(), []);
    } finally {
      // The page is left first, because it would report errors when the service has ended.
      await browser.go('about:blank');
      await service.close();
      await browser.complaints();
    }
  });
}
