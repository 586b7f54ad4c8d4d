// The documentation next to the console: its pages, its links and its search.
import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from './browser.mjs';

/** `at` returns the browser, the service, and addresses; it is called only in tests. `findings` returns those of axe on the page. */
export function documentation(at, findings) {
  const results = () =>
    at().browser.run('() => [...document.querySelectorAll("#docs-found a")].map((link) => link.innerText)');

  test('the documentation opens from the console, its links are followed, and it leads back', async () => {
    const { browser, service, address } = at();
    await browser.go(address());
    await browser.click('.top nav a', 'Docs');
    await browser.shows('main h1', 'documentation');
    assert.equal(await browser.path(), '/docs/');
    await browser.click('main a', 'Install Baton');
    await browser.shows('main h1', 'Install');
    await browser.shows('.pages [aria-current]', 'Install Baton');
    await browser.click('.contents a');
    await until('the page is at the section', () =>
      browser.run(
        '() => location.hash.length > 1 && document.querySelector(decodeURIComponent(location.hash)) !== null',
      ),
    );
    await browser.click('.neighbors [rel=next]');
    await until('the next page is there', async () => (await browser.path()) === '/docs/check');
    await browser.go(`${service.url}/docs/rest/workflows`);
    await browser.click('main td a', 'startWorkflow');
    await until('the operation is shown', () => browser.run('() => location.hash === "#startworkflow"'));
    await browser.shows('main h2', 'startWorkflow');
    await browser.go(`${service.url}/docs/no-such-page`);
    await browser.shows('main h1', 'Page not found');
    // The browser reports the 404, too.
    assert.deepEqual(
      (await browser.complaints()).filter((text) => !/no-such-page.* 404/.test(text)),
      [],
    );
    await browser.click('.top a', 'Console');
    await browser.shows('h1', 'Overview');
  });

  test('the documentation is searched with the keyboard', async () => {
    const { browser, service } = at();
    const focused = () =>
      until('the field has the focus', () => browser.run('() => document.activeElement.id === "docs-search"'));
    await browser.go(`${service.url}/docs/`);
    await browser.press('/');
    await focused();
    await browser.press(...'rotate');
    await browser.shows('#docs-found a', 'Rotate');
    await browser.press('ArrowDown', 'Enter');
    // Keys have no effect before the scripts of the new page have run.
    await until('the section is shown', () =>
      browser.run('() => location.pathname.length > 6 && location.hash !== "" && document.readyState === "complete"'),
    );
    await browser.press('/');
    await focused();
    await browser.press(...'no such heading');
    await browser.shows('#docs-found', 'No matching titles or headings.');
    await browser.press('Escape');
    await until(
      'the results are closed',
      async () => (await browser.run('() => document.querySelector("#docs-found").innerText')) === '',
    );
    assert.deepEqual(await results(), []);
    assert.deepEqual(await browser.complaints(), []);
  });

  test('the documentation has the colors of the console, fits a phone, and has no serious finding of axe', async () => {
    const { browser, service, address } = at();
    const background = () => browser.run('() => getComputedStyle(document.body).backgroundColor');
    const found = [];
    for (const page of ['', 'install', 'rest/types', 'console', 'limits', 'no-such-page']) {
      await browser.go(`${service.url}/docs/${page}`);
      await browser.shows('main h1');
      found.push(...(await findings()).map((finding) => `${page}, ${finding}`));
      await browser.size(390, 844);
      const over = await browser.run(
        '() => document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      if (over > 1) found.push(`${page}: ${over} pixels too wide`);
      await browser.size(1280, 800);
    }
    assert.deepEqual(found, []);
    for (const colors of ['light', 'dark', 'auto']) {
      await browser.click('#docs-theme');
      await until(colors, async () => (await browser.run('() => document.documentElement.dataset.theme')) === colors);
      const here = await background();
      await browser.go(address());
      await browser.shows('h1', 'Overview');
      assert.equal(await background(), here, colors);
      await browser.go(`${service.url}/docs/`);
      await browser.shows('main h1');
    }
    await browser.complaints();
  });
}
