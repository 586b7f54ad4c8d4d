// A headless Chromium, driven by playwright-core. Needs Debian's chromium, or another one as `CHROMIUM` names.
import { chromium } from 'playwright-core';

/** Factor by which the browser is slowed down: `BATON_WALK_SLOW`. */
const SLOW = Number(process.env['BATON_WALK_SLOW'] ?? 1);
/**
 * Time limit of a condition, in milliseconds. Our choice: longer than any page takes on a machine ten times slower than
 * a desktop.
 */
export const PATIENCE_MS = 60_000 * SLOW;
/** Interval between checks of a condition. */
const CHECK_MS = 15;
const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
/** Failure of a script whose page was replaced while it ran. */
const REPLACED = /Execution context was destroyed|Cannot find context with specified id|frame was detached/;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until `found` returns a truthy value, and returns it. `why` describes the last state if the time is up. */
export async function until(what, found, patience = PATIENCE_MS, why = () => '') {
  const end = Date.now() + patience;
  for (;;) {
    const value = await found();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out: ${what}${await why()}`);
    await pause(CHECK_MS);
  }
}

const escaped = (words) => new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));

export class Browser {
  /** DevTools sessions of the tabs. */
  sessions = new WeakMap();
  messages = [];
  /** Dialogs that pages opened with `alert` or the like. */
  alerts = [];

  static async open() {
    const browser = new Browser();
    const args = ['--disable-gpu', '--disable-dev-shm-usage'];
    browser.process = await chromium.launch({ executablePath: EXECUTABLE, chromiumSandbox: false, args });
    browser.context = await browser.process.newContext({ viewport: { width: 1280, height: 800 } });
    browser.context.setDefaultTimeout(PATIENCE_MS);
    browser.context.on('console', (message) => {
      if (!['error', 'warning'].includes(message.type())) return;
      browser.messages.push(`${message.location().url} ${message.text()}`);
    });
    browser.context.on('weberror', (error) => browser.messages.push(String(error.error().stack)));
    browser.context.on('dialog', (dialog) => {
      browser.alerts.push(dialog.message());
      void dialog.dismiss();
    });
    await browser.turnTo(await browser.newTab());
    return browser;
  }

  close() {
    return this.process.close();
  }

  /** Opens an address, and waits until it has loaded. */
  async go(url) {
    await this.tab.goto(url);
  }

  /**
   * Returns the result of a function that runs in the page. The function is passed as text, so it cannot use other
   * names of this file.
   */
  async run(script, ...args) {
    return until('the page runs a script', async () => {
      try {
        return { value: (await this.tab.evaluate(`(${script})(...${JSON.stringify(args)})`)) ?? null };
      } catch (error) {
        if (REPLACED.test(error.message)) return undefined;
        throw error;
      }
    }).then(({ value }) => value);
  }

  /** Sends a command of the DevTools protocol to the current tab. */
  async devtools(method, params = {}) {
    const { tab } = this;
    if (!this.sessions.has(tab)) {
      const session = await this.context.newCDPSession(tab);
      await session.send('Page.enable');
      this.sessions.set(tab, session);
    }
    return this.sessions.get(tab).send(method, params);
  }

  size(width, height) {
    return this.tab.setViewportSize({ width, height });
  }

  /** Emulates a user who prefers `light` or `dark`. */
  scheme(colorScheme) {
    return this.tab.emulateMedia({ colorScheme });
  }

  /** Returns a picture of the page. */
  async picture(format = 'png', quality = undefined) {
    const { data } = await this.devtools('Page.captureScreenshot', { format, ...(quality ? { quality } : {}) });
    return Buffer.from(data, 'base64');
  }

  /** Waits until an element contains these words, and returns its text. */
  shows(selector, words = '') {
    const seen = `(selector, words) => [...document.querySelectorAll(selector)]
      .map((one) => one.innerText ?? one.textContent).find((text) => text.includes(words))`;
    return until(
      `${selector} contains: ${words}`,
      async () => {
        const text = await this.run(seen, selector, words);
        return text === null ? undefined : text || ' ';
      },
      PATIENCE_MS,
      () => this.state(selector),
    );
  }

  /** Describes the page for the message of a failed walk. */
  async state(selector) {
    const page = await this.run(
      `(selector) => [location.href, ...[document.body, ...document.querySelectorAll(selector)].slice(0, 9)
        .map((one) => one.tagName + '.' + one.className + ': ' + (one.innerText ?? one.textContent).slice(0, 2000))].join('\\n')`,
      selector,
    ).catch(String);
    return `\nThe page is ${page}`;
  }

  /** Clicks the first enabled element that contains these words, as soon as it is visible, does not move and is not covered. */
  click(selector, words = '') {
    return this.tab
      .locator(`:is(${selector}):not(:disabled)`, { hasText: escaped(words) })
      .first()
      .click();
  }

  /** Types at the end of a field's text. */
  async type(selector, text) {
    const field = this.tab.locator(selector).first();
    await field.press('Control+End');
    await field.pressSequentially(text);
  }

  /** Replaces a field's text by typing. */
  replace(selector, text) {
    return this.tab.locator(selector).fill(text);
  }

  /** Selects the option with this label. */
  choose(selector, label) {
    return this.tab.locator(selector).selectOption({ label });
  }

  /** Chooses a file. */
  file(selector, path) {
    return this.tab.locator(selector).setInputFiles(path);
  }

  /** Presses keys one after the other, in the element that has the focus. */
  async press(...keys) {
    for (const key of keys) await (key.length > 1 ? this.tab.keyboard.press(key) : this.tab.keyboard.type(key));
  }

  path() {
    return this.run('() => location.pathname + location.search');
  }

  newTab() {
    return this.context.newPage();
  }

  async turnTo(tab) {
    this.tab = tab;
    await tab.bringToFront();
    if (SLOW > 1) await this.devtools('Emulation.setCPUThrottlingRate', { rate: SLOW });
  }

  /** Returns the errors and warnings since the last call, among them violations of the content security policy. */
  async complaints() {
    // Messages arrive in order, so all messages before the result of a script have arrived.
    await this.run('() => true');
    return this.messages.splice(0);
  }
}
