// Tests of failures while a page is open: a deleted run, a wrong clock, and a replaced service. Also tests related
// runs.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import test from 'node:test';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { until } from './browser.mjs';
import { Service } from './service.mjs';

const HOUR_MS = 3_600_000;

/** Serves the files of a console from a copy, so that they can be replaced. */
async function replaceable(service) {
  const folder = mkdtempSync(join(tmpdir(), 'baton-walk-dist-'));
  const ours = (path) => new URL(`../${path}`, import.meta.url).pathname;
  mkdirSync(join(folder, 'dev'));
  cpSync(ours('dev/server.mjs'), join(folder, 'dev', 'server.mjs'));
  cpSync(ours('dist'), join(folder, 'dist'), { recursive: true });
  const server = spawn(process.execPath, [join(folder, 'dev', 'server.mjs'), '0', `http://${service.address}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const address = await new Promise((done) => {
    server.stdout.once('data', (said) => done(String(said).match(/127\.0\.0\.1:\d+/)[0]));
  });
  return {
    url: `http://${address}`,
    replace: () => appendFileSync(join(folder, 'dist', 'console.js'), '\n'),
    close: () => {
      server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function inTrouble(at) {
  const start = (workflowId, more = {}) =>
    at().service.call('POST', '/workflows', { workflowId, workflowType: 'odd', taskList: 'nobody-decides', ...more });

  test('a run that is deleted while one looks says so, and what was read of it stays', async () => {
    const { browser, service, open } = at();
    await start('short-lived');
    await open('short-lived');
    await browser.shows('.connection', 'live');
    await service.call('DELETE', '/workflows/short-lived?terminate=true');
    await browser.shows('.run-head .badge', 'deleted');
    assert.equal(
      await browser.run('() => document.querySelectorAll(".run-head .act").length'),
      0,
      'nothing can be done',
    );
    await browser.click('.tabs a[href*="/events"]');
    await browser.shows('.event-rows', 'WorkflowStarted');
    // The request for a missing run fails with 404, which the browser reports, too.
    const others = (await browser.complaints()).filter((text) => !/short-lived.* 404/.test(text));
    assert.deepEqual(others, []);
    await browser.go(at().address('default/workflows/short-lived'));
    await browser.shows('.not-found', 'short-lived');
    await browser.complaints();
  });

  test('where the clock of the browser is an hour off, it is said, and times go by the service’s', async () => {
    const { browser, service, address } = at();
    await start('by-the-clock');
    const source = (ms) => `{ const now = Date.now.bind(Date); Date.now = () => now() + ${ms}; }`;
    for (const [ms, words] of [
      [-HOUR_MS, 'behind'],
      [HOUR_MS, 'ahead of'],
    ]) {
      const { identifier } = await browser.devtools('Page.addScriptToEvaluateOnNewDocument', { source: source(ms) });
      try {
        await browser.go(address('default/workflows?workflowId=by-the-clock'));
        // The header of a response contains whole seconds.
        assert.match(await browser.shows('.notice', words), /clock is (1\sh|59\sm)/);
        const started = (await browser.shows('.row.run time')).replaceAll('\u00a0', ' ');
        assert.match(started, /^(now|[0-9ms ]+ ago)$/, 'by the clock of the service');
      } finally {
        await browser.devtools('Page.removeScriptToEvaluateOnNewDocument', { identifier });
      }
    }
    await browser.go(address('default/workflows'));
    await browser.shows('.row.run');
    await until('nothing is said of it', () => browser.run('() => !document.querySelector(".notice")'));
    await service.call('POST', '/workflows/by-the-clock/terminate', {});
  });

  test('a service that comes back as another build says so, and what was typed stays until one loads it', async () => {
    const { browser } = at();
    const service = await Service.open();
    const files = await replaceable(service);
    try {
      await browser.go(`${files.url}/console/default/workflows`);
      await browser.shows('.empty', 'No runs yet');
      await browser.press('/', ...'type:ord');
      for (const isReplaced of [false, true]) {
        await service.kill();
        await browser.shows('.notice', 'does not respond');
        if (isReplaced) files.replace();
        await service.start();
        await until('it is there again', () =>
          browser.run('() => !/does not respond/.test(document.querySelector(".notice")?.innerText ?? "")'),
        );
        await service.call('POST', '/workflows', { workflowId: `w${isReplaced}`, workflowType: 'odd' });
        await browser.shows(isReplaced ? '.newer' : '.newer, .row.run', '');
        const says = await browser.run(
          '() => /newer version/.test(document.querySelector(".notice")?.innerText ?? "")',
        );
        if (!isReplaced) assert.equal(says, false, 'it is the same build');
      }
      await browser.shows('.notice', 'newer version');
      assert.equal(await browser.run('() => document.querySelector("#search").value'), 'type:ord');
      await browser.click('.notice .link', 'Reload');
      await browser.shows('.row.run', 'wtrue');
      await until('nothing is said of it', () => browser.run('() => !document.querySelector(".notice")'));
    } finally {
      // The page is left first, because it would report errors when the service has ended.
      await browser.go('about:blank');
      files.close();
      await service.close();
      // Discards the errors of requests while the service was stopped.
      await browser.complaints();
    }
  });

  test('a page that follows nothing goes on by itself, too, when the service is back', async () => {
    const { browser } = at();
    const service = await Service.open();
    try {
      await browser.go(`${service.url}/console/domains`);
      await browser.shows('.card', 'default');
      await service.kill();
      await browser.press('r');
      await browser.shows('.trouble', 'does not respond');
      await browser.shows('.card', 'default');
      await service.start();
      await until('the trouble is over', () => browser.run('() => !document.querySelector(".trouble, .notice")'));
    } finally {
      // The page is left first, because it would report errors when the service has ended.
      await browser.go('about:blank');
      await service.close();
      await browser.complaints();
    }
  });

  test('a run names its parent, its children, and what it goes on from', async () => {
    const { browser, service, open } = at();
    const turn = async (list, decisions) => {
      const task = await service.call('POST', `/task-lists/${list}/decider/poll`, {}, { prefer: 'wait=10' });
      await service.call('POST', `/v1/decider-tasks/${task.token}/complete`, { decisions });
    };
    await start('mother', { taskList: 'mothers' });
    await turn('mothers', [
      {
        type: 'StartChild',
        workflowId: 'daughter',
        workflowType: 'odd',
        taskList: 'daughters',
        childPolicy: 'abandon',
      },
    ]);
    await turn('daughters', [{ type: 'ContinueAsNew' }]);
    await open('daughter');
    await browser.shows('.family', 'mother');
    const family = '() => document.querySelector(".family").innerText';
    await until('where it goes on from', async () => /continues/.test(await browser.run(family)));
    await browser.click('.family a', 'mother');
    await browser.shows('.run-head h1', 'mother');
    await browser.click('.family a', 'daughter');
    await browser.shows('.run-head h1', 'daughter');
    for (const id of ['mother', 'daughter']) await service.call('POST', `/workflows/${id}/terminate`, {});
  });

  test('some runs are asked to cancel together, after a dry run', async () => {
    const { browser, service, address } = at();
    for (const id of ['to-cancel-1', 'to-cancel-2']) await start(id);
    await browser.go(address('default/workflows?workflowIdPrefix=to-cancel-'));
    await browser.shows('.row.run', 'to-cancel-1');
    await browser.press('j', 'x', 'j', 'x');
    await browser.click('.bulk .act', 'Request cancel');
    await browser.shows('.planned', 'to-cancel-2');
    const asked = async () => {
      const all = await Promise.all(['to-cancel-1', 'to-cancel-2'].map((id) => service.history(id)));
      return all.filter((events) => events.some(({ type }) => type === 'WorkflowCancelRequested')).length;
    };
    assert.equal(await asked(), 0, 'until now nothing was done');
    await browser.click('dialog[open] .main');
    await browser.shows('.progress', '2 runs asked to cancel');
    assert.equal(await asked(), 2);
    await browser.click('dialog[open] button', 'Close');
    for (const id of ['to-cancel-1', 'to-cancel-2']) await service.call('POST', `/workflows/${id}/terminate`, {});
  });
}
