// Tests the console like a user, in a browser, with a real service that has runs in all states.
//
//   node walk/walk.mjs                 needs Chromium, and target/debug/baton or the program BATON
//   node walk/walk.mjs --pictures DIR  also takes the pictures of docs/console.md (pictures.mjs)
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test, { after, before } from 'node:test';
import { Browser, PATIENCE_MS, until } from './browser.mjs';
import { takePictures } from './pictures.mjs';
import { actionsByHand } from './actions.mjs';
import { batchesByHand } from './batches.mjs';
import { runsByHand } from './bulk.mjs';
import { documentation } from './docs.mjs';
import { heldByAll } from './held.mjs';
import { limitsByHand } from './limits.mjs';
import { inTheMoment } from './moments.mjs';
import { askApproval, morePages } from './pages.mjs';
import { Service } from './service.mjs';
import { signingIn } from './signin.mjs';
import { inTrouble } from './trouble.mjs';

/** Maximum time until an open page shows a change, in milliseconds. Our choice. */
const ARRIVES_MS = 1000;
const AXE = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const pictures = process.argv.indexOf('--pictures');

let service;
let browser;
before(async () => {
  service = await Service.open();
  browser = await Browser.open();
  // The first page is tested before there are any runs.
  await browser.go(`${service.url}/`);
  await browser.shows('h1', 'Overview');
  assert.equal(await browser.path(), '/console/');
  await browser.shows('.first', 'baton workflow start');
  await service.fill();
});
after(async () => {
  await browser?.close();
  await service?.close();
});

const console_ = (path = '') => `${service.url}/console/${path}`;
const run = (id, view = '') => console_(`default/workflows/${encodeURIComponent(id)}${view}`);

/** Opens a run by its workflow id. The page then adds the run id to the URL. */
async function open(id, view = 'turns') {
  await browser.go(run(id));
  await browser.shows('.run-head h1', '');
  await until('the URL names the run', async () => /\/turns/.test(await browser.path()));
  if (view !== 'turns') await browser.click(`.tabs a[href*="/${view}"]`);
}

test('the declined order is found by its tag, with the keyboard alone', async () => {
  await browser.go(console_());
  await browser.shows('h1', 'Overview');
  await browser.press('g', 'r');
  await browser.shows('.row.run');
  await browser.press('/');
  assert.equal(await browser.run('() => document.activeElement.id'), 'search');
  await browser.press(...'tag:declined', 'Enter');
  await browser.shows('.chip', 'declined');
  await until('only declined ones are left', async () => {
    const tags = await browser.run('() => [...document.querySelectorAll(".row.run")].map((row) => row.innerText)');
    return tags.length === 5 && tags.every((text) => text.includes('declined'));
  });
  assert.equal(await browser.path(), '/console/default/workflows?tag=declined');
  const at = () => browser.run('() => document.querySelector(".row.at bdi").innerText');
  await browser.press('j');
  await browser.shows('.row.at');
  const first = await at();
  await browser.press('j');
  await until('the next row', async () => (await at()) !== first);
  await browser.press('k');
  await until('the row before', async () => (await at()) === first);
  await browser.press('Enter');
  await browser.shows('.run-head h1', first);
  assert.match(first, /^order-10\d[38]$/);
  await browser.press('?');
  await browser.shows('dialog[open] h2', 'Keyboard shortcuts');
  await browser.press('Escape');
  await until('the keys are gone', () => browser.run('() => !document.querySelector("dialog[open]")'));
});

test('runs are found by the beginning of their ids, and one by its whole id', async () => {
  await browser.go(console_('default/workflows'));
  await browser.shows('.row.run');
  const ids = () =>
    browser.run('() => [...document.querySelectorAll(".row.run .strong bdi")].map((one) => one.innerText)');
  await browser.press('/', ...'approve-', 'Enter');
  await browser.shows('.chip', 'id-prefix');
  await until('only those that begin so are left', async () => {
    const found = await ids();
    return found.length > 1 && found.every((id) => id.startsWith('approve-'));
  });
  assert.equal(await browser.path(), '/console/default/workflows?workflowIdPrefix=approve-');
  await browser.go(console_('default/workflows?workflowIdPrefix=order-1003'));
  await until('the one', async () => (await ids()).join() === 'order-1003');
  await browser.go(console_('default/workflows?workflowId=order-100'));
  await browser.shows('.empty', 'No matching runs');
});

test('the turn that decided the refund says what it saw, as the history does', async () => {
  const events = await service.history('order-1003');
  const refund = events.find((event) => event.type === 'ActivityScheduled' && event.activityId === 'refund');
  const failed = events.find((event) => event.type === 'ActivityFailed');
  const turns = events.filter((event) => event.type === 'DeciderScheduled' && event.id < refund.id).length;
  await open('order-1003');
  await browser.shows('.run-head .reason', 'card-declined');
  const decided = `() => [...document.querySelectorAll('.card')].find((card) =>
    [...card.querySelectorAll('.columns > div:last-child .event')].some((line) => line.innerText.includes('refund')))
    ?.innerText`;
  const card = await until('a turn decided the refund', () => browser.run(decided));
  assert.match(card, new RegExp(`^Turn ${turns}\\n`));
  assert.match(card, /card-declined/, 'it saw why');
  await browser.click('.card .event', 'refund · refund-card');
  await browser.shows('.panel h2', `${refund.id} ActivityScheduled`);
  await until('the URL names the event', async () => (await browser.path()).endsWith(`event=${refund.id}`));
  await browser.press('k', 'k');
  await browser.shows('.panel h2', `${refund.id - 2} `);
  // The panel of a failure links to the events that it caused.
  await browser.go(`${service.url}${(await browser.path()).replace(/event=\d+/, `event=${failed.id}`)}`);
  await browser.shows('.panel h2', `${failed.id} ActivityFailed`);
  await browser.shows('.panel', 'led to');
});

test('the slider shows the run as of an earlier event, and the URL keeps it', async () => {
  const events = await service.history('order-1003');
  await open('order-1003');
  // The range of the slider ends at the last loaded event.
  await browser.shows('.scrub output', String(events.length));
  await browser.click('#asof');
  await browser.press('Home', ...Array(11).fill('ArrowRight'));
  await browser.shows('.scrub output', '12');
  const before12 = events.slice(0, 12);
  const ended = new Set(before12.map((event) => event.scheduledEventId).filter((id) => id !== undefined));
  await browser.shows('.side h2', 'As of event 12');
  const side = await browser.shows('.side');
  const activities = before12.filter((event) => event.type === 'ActivityScheduled');
  for (const { id, activityId } of activities) {
    const closes = before12.some(
      (event) => event.scheduledEventId === id && /Success|Failed|TimedOut/.test(event.type),
    );
    assert.equal(side.includes(activityId), !closes, `${activityId} as of event 12: ${side}`);
  }
  assert.ok(ended.size > 0 && side.includes('payment-due'), side);
  await until('the URL keeps it', async () => (await browser.path()).includes('asof=12'));
  await browser.press(']');
  await browser.shows('.scrub output', '13');
  await browser.click('.scrub button', 'newest');
  await browser.shows('.scrub output', String(events.length));
});

test('a run that is longer than what a page holds opens as of an event in its middle', async () => {
  const markers = Array.from({ length: 900 }, (_, number) => ({ type: 'RecordMarker', name: `marker-${number}` }));
  const begun = { workflowId: 'long', workflowType: 'long', taskList: 'long' };
  const { runId } = await service.call('POST', '/workflows', begun);
  let last = 0;
  while (last <= 5400) {
    const task = await service.call('POST', '/task-lists/long/decider/poll', {});
    await service.call('POST', `/v1/decider-tasks/${task.token}/complete`, { decisions: markers });
    await service.call('POST', '/workflows/long/signals/more', {});
    last = task.startedEventId + 1 + markers.length;
  }
  await browser.go(`${service.url}/console/default/workflows/long/${runId}/turns?asof=2000`);
  await browser.shows('.side h2', 'As of event 2000');
  await browser.shows('.scrub output', '2000');
});

test('every view of a run shows the same history', async () => {
  await open('order-1005', 'timeline');
  await browser.shows('.view', 'charge');
  await browser.press('4');
  await browser.shows('.event-rows', 'WorkflowSuccess');
  await browser.press('1');
  await browser.shows('.card', 'Turn 1');
  await open('site-north', 'future');
  await browser.shows('.view', 'escalate');
  await browser.shows('.view', 'nobody-here');
});

test('a signal by REST arrives in a window that is open', async () => {
  await open('approve-hire-ann');
  await browser.shows('.connection', 'live');
  // The page records when it has drawn each change, so that the time of the test's own checks does not count.
  await browser.run(`() => {
    window.drawnAt = {};
    new MutationObserver(() => {
      for (const [who] of document.querySelector('.turns').innerText.matchAll(/walker-\\d+/g)) window.drawnAt[who] ??= Date.now();
    }).observe(document.body, { childList: true, subtree: true, characterData: true });
    performance.clearResourceTimings();
  }`);
  const took = [];
  // On a busy machine, a change may be late. The test repeats until one change is shown in time.
  for (const end = Date.now() + PATIENCE_MS; took.length === 0 || (took.at(-1) > ARRIVES_MS && Date.now() < end);) {
    const who = `walker-${took.length + 1}`;
    const signal = { input: { n: took.length }, identity: who };
    await service.call('POST', '/workflows/approve-hire-ann/signals/remark', signal);
    await browser.shows('.card .event', who);
    const { timestamp } = (await service.history('approve-hire-ann')).find(({ identity }) => identity === who);
    took.push((await browser.run('(who) => window.drawnAt[who]', who)) - Date.parse(timestamp));
  }
  assert.ok(took.at(-1) <= ARRIVES_MS, `signals took ${took.join(', ')} ms to be seen; ${ARRIVES_MS} are promised`);
  const asked = await browser.run('() => performance.getEntriesByType("resource").map(({ name }) => name)');
  assert.deepEqual(
    asked.filter((name) => name.includes('/history')),
    [],
    'they were told, and not asked for',
  );
});

test('what is hostile is shown, and never run', async () => {
  const hostile = '<img src=x onerror=alert(1)> & co';
  await browser.go(console_('default/workflows?tag=hostile'));
  await browser.shows('.row.run', hostile);
  await browser.shows('.tag', '<b>bold</b>');
  await open(hostile);
  await browser.shows('.run-head h1', hostile);
  await browser.shows('.payload', '<script>alert(1)</script> ␛[31mred');
  const made = '() => document.querySelectorAll("img, script:not([src]), b.bold, iframe, object, embed").length';
  assert.equal(await browser.run(made), 0);
  assert.deepEqual(browser.alerts, []);
  await open('large-payload');
  await browser.click('.payload .more', 'show all 200,900 characters');
  await browser.shows('.payload', 'dull service. "');
  await browser.press('4');
  await browser.shows('.event-rows', 'WorkflowStarted');
  await open('deep-payload');
  const unfold = `() => {
    document.querySelector('.payload .fold[aria-expanded=false]')?.click();
    return document.querySelector('.payload')?.innerText.includes('bottom');
  }`;
  await until('its innermost level is shown', () => browser.run(unfold));
});

test('a page that is no page, a run that is none and a filter that does not parse say what is so', async () => {
  await browser.go(console_('default/nothing/here'));
  await browser.shows('#main', 'Page not found');
  await browser.go(run('no-such-run'));
  await browser.shows('.not-found h1', 'Run not found');
  await browser.shows('.not-found', 'no-such-run');
  assert.equal(await browser.run('() => document.querySelectorAll(".tabs, .scrub").length'), 0, 'it has no views');
  await browser.go(console_('default/workflows'));
  await browser.shows('.row.run');
  await browser.press('/', ...'status:sideways', 'Enter');
  await browser.shows('#search-problems', 'sideways');
  assert.equal(
    await browser.run('() => document.querySelector("#search").value'),
    'status:sideways',
    'nothing is lost',
  );
  // The request for a missing run fails with 404, which the browser reports, too.
  const complaints = await browser.complaints();
  const others = complaints.filter((text) => !/no-such-run.* 404/.test(text));
  assert.deepEqual(others, [], 'no error in the console, nothing that the policy forbids');
});

async function signalDialog() {
  await open('approve-hire-ann');
  await browser.click('.run-head .act', 'Signal');
}

async function bulkDialog() {
  await browser.go(console_('default/workflows?status=open'));
  await browser.shows('.row.run');
  await browser.press('X');
  await browser.click('.bulk .act', 'Create batch');
}

async function startDialog() {
  await open('order-1005');
  await browser.click('.run-head .act', 'Start similar run');
}

/** The pages, each with a selector and a text that show that the page is complete. */
const PAGES = [
  ['start', () => browser.go(console_()), '.number', 'open'],
  ['runs', () => browser.go(console_('default/workflows')), '.row.run', ''],
  ['turns', () => open('order-1003'), '.card', 'Turn 1'],
  ['timeline', () => open('order-1005', 'timeline'), '.view svg', ''],
  ['future', () => open('site-north', 'future'), '.view', 'escalate'],
  ['events', () => open('order-1005', 'events'), '.event-rows .row', ''],
  ['a blocked run', () => open('import-2026-11-21'), '.reason', 'Blocked'],
  ['a dialog', () => signalDialog(), 'dialog[open]', 'Send'],
  ['task lists', () => browser.go(console_('default/task-lists')), 'table', 'a-list-without-a-decider'],
  ['a task list', () => browser.go(console_('default/task-lists/nobody-here')), '.tasks', 'site-north'],
  ['batches', () => browser.go(console_('default/batches')), '.empty', 'No batches.'],
  ['schedules', () => browser.go(console_('default/schedules')), '.schedule', 'nightly-archive'],
  ['types', () => browser.go(console_('default/types')), '.card', 'order'],
  ['domains', () => browser.go(console_('domains')), '.card', 'default'],
  ['service', () => browser.go(console_('service')), '.empty', 'anyone who can reach'],
  ['a recorded history', () => browser.go(console_('recorded/turns')), '.choose', 'Choose a file'],
  ['many runs', () => bulkDialog(), '.planned', 'more'],
  ['a start', () => startDialog(), 'dialog[open]', 'Retry policy'],
  ['a query', () => askApproval({ browser, service, address: console_ }), '.asked .act', 'Approve'],
];

/** Returns the findings of axe on the current page, in light and in dark colors. */
async function findings() {
  const all = [];
  await browser.run(`(axe) => { (0, eval)(axe); }`.replace('(0, eval)(axe)', AXE));
  for (const scheme of ['light', 'dark']) {
    await browser.scheme(scheme);
    const found = await browser.run(`() => axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
      violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html, any }) =>
          html.slice(0, 200) + ' ' + (any[0]?.message ?? '')).join(' | ')))`);
    all.push(...found.map((finding) => `${scheme}: ${finding}`));
  }
  await browser.scheme('light');
  return all;
}

test('no page has a serious finding of axe, in light and in dark', async () => {
  const found = [];
  await browser.scheme('light');
  for (const [name, show, selector, words] of PAGES) {
    await show();
    await browser.shows(selector, words);
    found.push(...(await findings()).map((finding) => `${name}, ${finding}`));
  }
  assert.deepEqual(found, []);
});

if (pictures > 0)
  test('pictures', async () => {
    await takePictures(at(), process.argv[pictures + 1]);
  });

const at = () => ({ browser, service, open, address: console_ });
heldByAll(at, PAGES);
actionsByHand(at);
runsByHand(at);
morePages(at);
inTheMoment(at);
inTrouble(at);
batchesByHand(at, findings);
limitsByHand(at, findings);

test('pages complain of nothing', async () => {
  assert.deepEqual(await browser.complaints(), []);
});

test('the start page follows every domain', async () => {
  await service.call('POST', '/v1/domains', { name: 'elsewhere' });
  await browser.go(console_('default/workflows'));
  await browser.shows('.row.run');
  await browser.press('g', 's');
  await browser.shows('.domain h2', 'elsewhere');
  await browser.shows('.pace');
  await service.call('POST', '/v1/domains/elsewhere/workflows', { workflowId: 'far', workflowType: 'odd' });
  const waits = `() => [...document.querySelectorAll('.domain')].find((one) => one.innerText.includes('elsewhere'))
    .querySelector('.number:last-child b').innerText`;
  await until('its task waits', async () => (await browser.run(waits)) === '1');
});

documentation(at, findings);
signingIn(at, findings);

test('a service that goes away and comes back is followed again, and nothing that was typed is lost', async () => {
  await open('approve-budget-2027');
  await browser.shows('.connection', 'live');
  const runs = browser.tab;
  const other = await browser.newTab();
  await browser.turnTo(other);
  await browser.go(console_('default/workflows'));
  await browser.shows('.row.run');
  await browser.press('/', ...'type:appr');
  await browser.turnTo(runs);
  await service.kill();
  await browser.shows('.notice', 'does not respond');
  await browser.shows('.connection', 'reconnecting');
  await browser.shows('.card', 'Turn 1');
  await service.start();
  await browser.shows('.connection', 'live');
  await until('the notice is gone', () => browser.run('() => !document.querySelector(".notice, .trouble")'));
  await service.call('POST', '/workflows/approve-budget-2027/signals/remark', { identity: 'back-again' });
  await browser.shows('.card .event', 'back-again');
  await browser.turnTo(other);
  assert.equal(await browser.run('() => document.querySelector("#search").value'), 'type:appr');
  await browser.complaints();
});
