// Clicks through the order page of the examples, and checks the history that results. Needs target/debug/order-page,
// target/debug/baton and Chromium.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import test, { after, before } from 'node:test';
import { Browser } from './browser.mjs';
import { Service } from './service.mjs';

const BINARY = process.env['ORDER_PAGE'] ?? new URL('../../../target/debug/order-page', import.meta.url).pathname;

let service;
let browser;
let shop;
let address;
before(async () => {
  service = await Service.open();
  shop = spawn(BINARY, [service.url, '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(shop.stdout, 'data');
  address = String(line).trim();
  browser = await Browser.open();
});
after(async () => {
  await browser?.close();
  shop?.kill();
  await service?.close();
});

/** Waits until the first element shows exactly this text. */
const shows = async (selector, expected) => assert.equal(await browser.shows(selector, expected), expected);

/** Fills in the only field of the form, and submits it. */
async function send(text) {
  await browser.type('label input', text);
  await browser.click('button');
}

test('an order is completed in the browser, and a stale page is refused', async () => {
  await browser.go(address);
  await shows('h1', 'What would you like?');
  await send('99');
  await shows('#complaint', 'Between 1 and 10 pieces, please.');
  await send('2');
  await shows('h1', 'Where to?');

  // The same page in a second tab, in which the order continues.
  const first = browser.tab;
  const url = first.url();
  await browser.turnTo(await browser.newTab());
  await browser.go(url);
  await send('nowhere');
  await shows('#complaint', 'There is no such place.');
  await send('Main Street 1');
  // The response waited for the activity.
  await shows('#total', '25.00 to Main Street 1');

  // The page in the first tab is stale now.
  await browser.turnTo(first);
  await send('Other Street 2');
  await shows('#complaint', 'That page was out of date. This is the current state of your order.');
  await shows('#total', '25.00 to Main Street 1');
  await send('4111 1111');
  await shows('h1', 'Thank you!');
  await shows('#sold', '25.00 to Main Street 1');

  const events = await service.history(url.split('/').at(-1));
  const count = (name) => events.filter(({ type }) => type === name).length;
  // The cart, the unknown address, the address and the card; not the ninety-nine pieces, and not the stale page.
  assert.deepEqual(['UpdateAccepted', 'UpdateCompleted', 'UpdateFailed'].map(count), [4, 3, 1]);
  assert.equal(events.at(-1).type, 'WorkflowSuccess');
});
