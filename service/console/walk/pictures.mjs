// Takes the pictures of docs/console.md: each page in light colors, and some in dark colors and in the width of a
// phone.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { blockedMails } from './batches.mjs';
import { until } from './browser.mjs';
import { charges } from './limits.mjs';
import { askApproval } from './pages.mjs';
import { Service } from './service.mjs';
import { openGuarded, signIn } from './signin.mjs';

/** Quality of the pictures. Our choice: small files for the repository, but with sharp letters. */
const QUALITY = 70;

async function retryDialog(browser, open) {
  await open('import-2026-11-21');
  await browser.click('.by-hand .act', 'Retry now');
  await browser.type('#act-reason', 'there is room on the disk again');
}

async function bulkDialog(browser, address) {
  await browser.go(address('default/workflows?status=open'));
  await browser.shows('.row.run');
  await browser.press('X');
  await browser.click('.bulk .act', 'Create batch');
  await browser.choose('#act-operation-type', 'terminate');
  await browser.shows('.planned ul');
  await browser.replace('#act-reason', 'the shop has closed');
}

/** Starts a service with a limited list, a paused list, and batches. */
export async function openLimited() {
  const service = await Service.open();
  await service.call('PUT', '/limit-groups/bank', { maxRunning: 30 });
  const gold = { key: 'gold', maxRunning: 10, weight: 3 };
  const limits = { maxRunning: 4, rate: { perSecond: 20, burst: 20 }, perKey: { maxRunning: 3 }, limits: [gold] };
  await service.call('PUT', '/task-lists/card-payments/activity/limits', { ...limits, group: 'bank' });
  await charges(service, 'card-payments', 12, 4);
  await blockedMails(service, 9);
  const batch = (type, more) =>
    service.call('POST', '/batches', {
      operation: { type, ...more.operation },
      filter: more.filter,
      reason: more.reason,
      identity: 'kim',
      pace: more.pace ?? 1000,
    });
  const retry = await batch('retry-activities', { filter: { status: 'open' }, reason: 'the mail server is back' });
  await until('the batch is completed', async () => {
    const { status } = await service.call('GET', `/batches/${retry.batchId}`);
    return status === 'completed';
  });
  await service.call('POST', '/task-lists/mails/activity/pause', {
    reason: 'maintenance until 18:00',
    identity: 'kim',
  });
  const signal = await batch('signal', {
    operation: { name: 'change-address' },
    filter: { type: 'charge' },
    reason: 'the office has moved',
    pace: 1,
  });
  await until('some runs are signaled', async () => {
    const { done } = await service.call('GET', `/batches/${signal.batchId}`);
    return done > 2;
  });
  return service;
}

async function recordedHistory(browser, service, address) {
  const file = join(service.folder, 'order-1003.json');
  writeFileSync(file, service.command('history', 'order-1003', '--json'));
  await browser.go(address('recorded/turns'));
  await browser.file('.choose input', file);
}

export async function takePictures({ browser, service, address, open }, folder) {
  mkdirSync(folder, { recursive: true });
  const isToLookAt = process.env['PNG'] === '1';
  const take = async (name) => {
    const [format, quality] = isToLookAt ? ['png', undefined] : ['webp', QUALITY];
    // Removes the focus, so that no blinking cursor is in the picture.
    await browser.run('() => document.activeElement?.blur()');
    writeFileSync(join(folder, `${name}.${format}`), await browser.picture(format, quality));
  };
  const pages = [
    ['start', () => browser.go(address()), '.number b'],
    ['runs', () => browser.go(address('default/workflows?status=open')), '.row.run'],
    ['turns', () => open('order-1003'), '.card'],
    ['timeline', () => open('order-1005', 'timeline'), '.view svg'],
    ['future', () => open('site-north', 'future'), '.view'],
    ['events', () => open('order-1005', 'events'), '.event-rows .row'],
    ['by-hand', () => retryDialog(browser, open), 'dialog[open]'],
    ['bulk', () => bulkDialog(browser, address), 'dialog[open]'],
    ['recorded', () => recordedHistory(browser, service, address), '.card'],
    ['query', () => askApproval({ browser, service, address }), '.asked'],
    ['types', () => browser.go(address('default/types')), '.card'],
    ['domains', () => browser.go(address('domains')), '.card'],
    ['schedules', () => browser.go(address('default/schedules')), '.schedule'],
  ];
  for (const [name, show, selector] of pages) {
    await browser.size(1280, 800);
    await browser.scheme('light');
    await show();
    await browser.shows(selector);
    if (name === 'turns') await browser.click('.card .event', 'refund · refund-card');
    // The counts appear after the rows.
    await browser.run('() => new Promise((done) => setTimeout(done, 300))');
    if (isToLookAt || name !== 'timeline') await take(name);
    if (isToLookAt || name === 'timeline') {
      await browser.scheme('dark');
      await take(`${name}-dark`);
      await browser.scheme('light');
    }
    if (isToLookAt || ['runs', 'turns'].includes(name)) {
      await browser.size(390, 844);
      await browser.run('() => new Promise((done) => setTimeout(done, 200))');
      await take(`${name}-narrow`);
    }
  }
  await browser.size(1280, 800);
  /** Takes the picture of a page. With the option for inspection, takes it in all variants. */
  const takeAll = async (name) => {
    await take(name);
    if (!isToLookAt) return;
    await browser.scheme('dark');
    await take(`${name}-dark`);
    await browser.scheme('light');
    await browser.size(390, 844);
    await browser.run('() => new Promise((done) => setTimeout(done, 200))');
    await take(`${name}-narrow`);
    await browser.size(1280, 800);
  };
  await browser.press('?');
  await browser.shows('dialog[open] h2', 'Keyboard shortcuts');
  if (isToLookAt) await takeAll('keys');
  await browser.press('Escape');
  const limited = await openLimited();
  await browser.go(`${limited.url}/console/default/batches`);
  await browser.shows('.batch progress');
  await takeAll('batches');
  await browser.go(`${limited.url}/console/default/task-lists`);
  await browser.shows('.groups .card');
  await takeAll('lists');
  await browser.go(`${limited.url}/console/default/task-lists/card-payments`);
  await browser.shows('.limits');
  await takeAll('list');
  await limited.close();
  const guarded = await openGuarded();
  await browser.go(`${guarded.url}/console/service`);
  await browser.shows('.sign-in');
  await takeAll('sign-in');
  await signIn(browser, 'ops');
  await browser.shows('.grid', 'reader');
  await takeAll('service');
  await guarded.close();
  const empty = await Service.open();
  await browser.go(`${empty.url}/console/`);
  await browser.shows('.first .act');
  await takeAll('first');
  await empty.close();
  await browser.complaints();
}
