// A browser without a window, driven by its wire protocol (WebDriver) over HTTP. Needs Chromium and its driver.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** How many times slower than it is the browser runs: `BATON_WALK_SLOW`. */
const SLOW = Number(process.env['BATON_WALK_SLOW'] ?? 1);
/** Ours: longer than any page takes on a machine that is ten times slower than a desktop; a walk that waits in vain ends. */
export const PATIENCE_MS = 60_000 * SLOW;
/** Ours: how often a page is looked at while something is waited for. */
const LOOK_MS = 15;
/** What the protocol calls the id of an element. */
const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';
/** What the protocol calls keys that are no letters. */
export const KEYS = { Escape: '\ue00c', Enter: '\ue007', Home: '\ue011', ArrowRight: '\ue014', Tab: '\ue004' };

/** What the protocol says when an element was found and nothing could be done to it, or it went away meanwhile; the last is what Chrome's driver sometimes says for that. */
const UNDONE =
  /: (stale element reference|no such element|element not interactable|element click intercepted): |Node with given id does not belong to the document/;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until `found` gives something, and returns that; `why` says what it was like at last, when that is in vain. */
export async function until(what, found, patience = PATIENCE_MS, why = () => '') {
  const end = Date.now() + patience;
  for (;;) {
    const value = await found();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain: ${what}${await why()}`);
    await pause(LOOK_MS);
  }
}

export class Browser {
  static async open() {
    // In a group of its own: the browser that the driver starts ends with it.
    const driver = spawn('chromedriver', ['--port=0'], { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
    const port = await new Promise((done, failed) => {
      driver.on('error', (error) => failed(new Error(`this needs chromium and chromium-driver: ${error.message}`)));
      createInterface(driver.stdout).on('line', (line) => {
        const said = line.match(/successfully on port (\d+)/);
        if (said) done(said[1]);
      });
    });
    const browser = new Browser(driver, `http://127.0.0.1:${port}/session`);
    const args = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars'];
    const { sessionId } = await browser.ask('POST', '', {
      capabilities: {
        alwaysMatch: {
          'goog:chromeOptions': { args },
          'goog:loggingPrefs': { browser: 'ALL' },
          timeouts: { script: PATIENCE_MS, pageLoad: PATIENCE_MS },
        },
      },
    });
    browser.session += `/${sessionId}`;
    await browser.size(1280, 800);
    await browser.slow();
    return browser;
  }

  constructor(driver, session) {
    this.driver = driver;
    this.session = session;
  }

  close() {
    process.kill(-this.driver.pid, 'SIGKILL');
  }

  async ask(method, path, body) {
    const answer = await fetch(this.session + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(method === 'POST' ? { body: JSON.stringify(body ?? {}) } : {}),
    });
    const { value } = await answer.json();
    if (value?.error) throw new Error(`${method} ${path}: ${value.error}: ${value.message.split('\n')[0]}`);
    return value;
  }

  /** Has the window that is driven be as slow as `BATON_WALK_SLOW` says. */
  async slow() {
    if (SLOW > 1) await this.devtools('Emulation.setCPUThrottlingRate', { rate: SLOW });
  }

  go(url) {
    return this.ask('POST', '/url', { url });
  }

  /** What a function of the page's own gives, as its text; it sees nothing of what is around it here. */
  run(script, ...args) {
    return this.ask('POST', '/execute/sync', { script: `return (${script})(...arguments)`, args });
  }

  /** What DevTools can do that WebDriver cannot. */
  devtools(cmd, params = {}) {
    return this.ask('POST', '/goog/cdp/execute', { cmd, params });
  }

  size(width, height) {
    return this.devtools('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  }

  /** Shows pages as to a reader who likes them `light` or `dark`. */
  async scheme(value) {
    await this.devtools('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
  }

  async picture(format = 'png', quality = undefined) {
    const { data } = await this.devtools('Page.captureScreenshot', { format, ...(quality ? { quality } : {}) });
    return Buffer.from(data, 'base64');
  }

  /** Waits until an element is there that says this, and returns its text. */
  shows(selector, words = '') {
    const seen = `(selector, words) => [...document.querySelectorAll(selector)]
      .map((one) => one.innerText ?? one.textContent).find((text) => text.includes(words))`;
    return until(
      `${selector} says: ${words}`,
      async () => {
        const text = await this.run(seen, selector, words);
        return text === null ? undefined : text || ' ';
      },
      PATIENCE_MS,
      () => this.told(selector),
    );
  }

  /** What the page says instead, for whoever reads why a walk has failed. */
  async told(selector) {
    const page = await this.run(
      `(selector) => [location.href, ...[document.body, ...document.querySelectorAll(selector)].slice(0, 9)
        .map((one) => one.tagName + '.' + one.className + ': ' + (one.innerText ?? one.textContent).slice(0, 2000))].join('\\n')`,
      selector,
    ).catch(String);
    return `\nThe page is ${page}`;
  }

  /** Clicks on the first element of these that says this, as a person does: where it is to be seen, and when it takes clicks. */
  async click(selector, words = '') {
    // Where it stands still: what moves between the look and the click is not where somebody would click.
    const found = `(selector, words) => new Promise((done) => {
      const find = () => [...document.querySelectorAll(selector)]
        .find((one) => !one.disabled && (one.innerText ?? one.textContent).includes(words));
      const where = (one) => JSON.stringify(one.getBoundingClientRect());
      const one = find();
      if (!one || document.hidden) return done(one);
      const before = where(one);
      requestAnimationFrame(() => requestAnimationFrame(() => done(find() === one && where(one) === before ? one : null)));
    })`;
    await this.on(`${selector} says: ${words}`, () => this.run(found, selector, words), '/click');
  }

  async type(selector, text) {
    const found = '(selector) => document.querySelector(selector)';
    await this.on(`${selector} is there`, () => this.run(found, selector), '/value', { text });
  }

  /** Does this to an element as soon as it is there. A page that is drawn anew takes it away: then to the one that is there now. */
  on(what, find, path, body = {}) {
    let refused = '';
    return until(
      what,
      async () => {
        const element = await find();
        if (element === null) return undefined;
        try {
          await this.ask('POST', `/element/${element[ELEMENT]}${path}`, body);
          return true;
        } catch (error) {
          // Nothing was done to an element that is no longer there, is not to be seen yet, or lies below something.
          refused = `\n${error.message}`;
          if (UNDONE.test(error.message)) return undefined;
          throw error;
        }
      },
      PATIENCE_MS,
      () => refused,
    );
  }

  /** Presses keys, one after the other, wherever the focus is. */
  press(...keys) {
    const actions = keys.flatMap((key) => [
      { type: 'keyDown', value: KEYS[key] ?? key },
      { type: 'keyUp', value: KEYS[key] ?? key },
    ]);
    return this.ask('POST', '/actions', { actions: [{ type: 'key', id: 'keyboard', actions }] });
  }

  path() {
    return this.run('() => location.pathname + location.search');
  }

  tab() {
    return this.ask('GET', '/window');
  }

  async newTab() {
    return (await this.ask('POST', '/window/new', { type: 'tab' })).handle;
  }

  async turnTo(handle) {
    await this.ask('POST', '/window', { handle });
    await this.slow();
  }

  /** What pages have complained of since the last time: errors of scripts, and what the policy forbids. */
  async complaints() {
    const entries = await this.ask('POST', '/se/log', { type: 'browser' });
    return entries.filter(({ level }) => level === 'SEVERE' || level === 'WARNING').map(({ message }) => message);
  }
}
