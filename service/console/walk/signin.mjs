// Tests of signing in to a service with credentials: the dialog, the actions offered to each level, and the end of a
// session.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { until } from './browser.mjs';
import { Service } from './service.mjs';

const SECRETS = { ops: 'the-secret-of-an-operator', reader: 'the-secret-of-a-reader' };
const digest = (name) => createHash('sha256').update(SECRETS[name]).digest('hex');
const CONFIGURATION = `[[credentials]]
name = "ops"
secret-sha256 = "${digest('ops')}"
operator = true

[[credentials]]
name = "reader"
secret-sha256 = "${digest('reader')}"
readers = ["default"]
`;

/** Starts a service with credentials and one run. */
export async function openGuarded() {
  const guarded = await Service.open(CONFIGURATION);
  const start = { workflowId: 'guarded-1', workflowType: 'order' };
  await guarded.call('POST', '/workflows', start, { authorization: `Bearer ${SECRETS.ops}` });
  return guarded;
}

export async function signIn(browser, who) {
  await browser.type('#secret', who in SECRETS ? SECRETS[who] : who);
  await browser.click('.sign-in .main');
}

/** `at` returns the browser. `findings` returns the findings of axe on the current page. */
export function signingIn(at, findings) {
  const isSignedIn = () =>
    until('the dialog is gone', () => at().browser.run('() => !document.querySelector(".sign-in")'));
  /** Returns the response that a page of the service receives to a request. */
  const asked = (method, path, headers = {}) =>
    at().browser.run(
      `(method, path, headers) => fetch(path, { method, headers: { 'content-type': 'application/json', ...headers } })
        .then(async (answer) => ({ status: answer.status, body: await answer.json().catch(() => null) }))`,
      method,
      path,
      headers,
    );

  test('a secret is asked for and becomes a session; a level is offered what it may do, and refused the rest', async () => {
    const { browser } = at();
    const guarded = await openGuarded();
    try {
      await browser.go(`${guarded.url}/console/default/workflows`);
      await browser.shows('.sign-in h2', 'Sign in');
      const behind = '() => document.querySelectorAll("nav, h1, .tally, .number, #main *").length';
      assert.equal(await browser.run(behind), 0, 'nothing is shown before someone has signed in');
      assert.deepEqual(await findings(), []);
      await signIn(browser, 'nobody-knows-this');
      await browser.shows('.sign-in .trouble', 'Unknown secret or token.');
      await browser.run('() => { document.querySelector("#secret").value = ""; }');
      await signIn(browser, 'reader');
      await isSignedIn();
      await browser.shows('.row.run', 'guarded-1');
      assert.equal(await browser.run('() => document.cookie'), '', 'no script reads it');
      await browser.shows('.whoami', 'reader');
      const buttons = '() => [...document.querySelectorAll("main .act")].map((one) => one.innerText)';
      assert.deepEqual(await browser.run(buttons), [], 'nothing can be started');
      await browser.go(`${guarded.url}/console/default/types`);
      await browser.shows('h1', 'Types');
      await browser.shows('.whoami', 'reader');
      assert.deepEqual(await browser.run(buttons), [], 'nothing can be registered');
      await browser.go(`${guarded.url}/console/default/task-lists/default`);
      await browser.shows('.list-card', 'waiting');
      await browser.shows('.whoami', 'reader');
      assert.deepEqual(await browser.run(buttons), [], 'nothing can be limited');
      await browser.go(`${guarded.url}/console/default/batches`);
      await browser.shows('.empty', 'No batches.');
      await browser.shows('.whoami', 'reader');
      assert.deepEqual(await browser.run(buttons), [], 'no batch can be created');
      await browser.go(`${guarded.url}/console/default/workflows`);
      await browser.shows('.row.run', 'guarded-1');
      await browser.shows('.whoami', 'reader');
      await browser.press('X');
      await browser.shows('.bulk', 'Only operators of the domain can change all matching runs.');
      assert.deepEqual(await browser.run(buttons), []);
      await browser.go(`${guarded.url}/console/`);
      await browser.shows('.number b', '1');
      // The service also refuses actions that the page does not offer.
      const signal = '/v1/domains/default/workflows/guarded-1/signals/s';
      const { body } = await asked('GET', '/v1/session');
      const token = { 'baton-csrf': body.csrfToken };
      assert.equal((await asked('POST', signal)).body.code, 'csrf-token-missing');
      assert.equal((await asked('POST', signal, token)).body.code, 'forbidden');
      await browser.click('.whoami button', 'Sign out');
      await browser.shows('.sign-in h2', 'Sign in');
      assert.equal((await asked('GET', '/v1/session')).status, 401);
    } finally {
      // The page is left first, because it would report errors when the service has ended.
      await browser.go('about:blank');
      await guarded.close();
    }
    await browser.complaints();
  });

  test('a session that is over is asked for again, and nothing that was typed is lost', async () => {
    const { browser } = at();
    const guarded = await openGuarded();
    try {
      await browser.go(`${guarded.url}/console/default/workflows/guarded-1`);
      await browser.shows('.sign-in');
      await signIn(browser, 'ops');
      await isSignedIn();
      await browser.shows('.connection', 'live');
      await browser.click('.run-head .act', 'Signal');
      await browser.type('#act--name', 'remark');
      await browser.type('#act-input', '{"n": 1}');
      // The session ends outside this page, for example in another window.
      const { body } = await asked('GET', '/v1/session');
      assert.equal((await asked('DELETE', '/v1/session', { 'baton-csrf': body.csrfToken })).status, 204);
      await browser.shows('.sign-in h2', 'Sign in again');
      await signIn(browser, 'ops');
      await isSignedIn();
      const value = (field) => browser.run(`() => document.querySelector('#act-${field}').value`);
      assert.deepEqual([await value('-name'), await value('input')], ['remark', '{"n": 1}']);
      await browser.click('.act-dialog .main');
      await browser.shows('.card .event', 'remark');
      await browser.shows('.connection', 'live');
      await browser.go(`${guarded.url}/console/service`);
      await browser.shows('.grid', 'reader');
      await browser.shows('main', 'Single node');
      const text = await browser.run('() => document.body.innerText');
      assert.ok(!text.includes(digest('ops').slice(0, 12)), 'no secret is shown');
      assert.deepEqual(await findings(), []);
    } finally {
      // The page is left first, because it would report errors when the service has ended.
      await browser.go('about:blank');
      await guarded.close();
    }
    await browser.complaints();
  });
}
