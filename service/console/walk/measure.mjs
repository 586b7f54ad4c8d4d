// Measures the console in a browser with a separate service, and prints the figures of docs/performance.md.
//
//   node walk/measure.mjs runs [N]              a list of N runs (1,000,000): first paint, rows, keys, filters
//   node walk/measure.mjs events [N]            a run of N events (1,000,000): the same measures, in its four views
//   node walk/measure.mjs follow [MINUTES [A]]  memory of a page that follows A events (1,000) per second
//   node walk/measure.mjs idle [PAGES]          cost of PAGES open pages (1,000) for the service in an idle minute
//
// Needs Chromium, and target/dist/baton or the program that BATON names.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { Browser, until } from './browser.mjs';
import { Service } from './service.mjs';

/** Number of concurrent requests while data is created. Our choice. */
const AT_ONCE = 64;
/** Number of times that each page is opened, and that each key is pressed. Our choice. */
const OPENINGS = 10;
const PRESSES = 60;
/** Decisions of one turn. Source: the limit of a turn's decisions. */
const MARKERS_A_TURN = 2500;
/** Number of markers in each of the last turns of a long run. Our choice. */
const MARKERS_AT_LAST = 12;
/** Duration of a measurement without events, in seconds. Our choice. */
const IDLE_S = 60;
/** Turns per second of the followed run. Our choice. */
const TURNS_A_SECOND = 10;
/** Events of a turn in addition to its markers: Signal, DeciderScheduled, DeciderStarted, DeciderCompleted. */
const EVENTS_BESIDE = 4;

const say = (...words) => console.log(...words);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });

/** Sends a request. Faster than `fetch`, which takes an hour for a million requests. */
function post(service, path, body) {
  return new Promise((done, failed) => {
    const text = JSON.stringify(body);
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
    const asked = request(
      `${service.url}${path.startsWith('/v1/') ? '' : '/v1/domains/default'}${path}`,
      { method: 'POST', agent, headers },
      (answer) => {
        const parts = [];
        answer.on('data', (part) => parts.push(part));
        answer.on('end', () => {
          const said = Buffer.concat(parts).toString();
          if (answer.statusCode >= 400) failed(new Error(`${path}: ${answer.statusCode} ${said}`));
          else done(said ? JSON.parse(said) : undefined);
        });
      },
    );
    asked.on('error', failed);
    asked.end(text);
  });
}

const idOf = (number) => `order-${String(number).padStart(7, '0')}`;
/** Number of a run that was started early. */
const earlyOf = (count) => Math.floor(count / 80);

async function makeRuns(service, count) {
  const old = earlyOf(count);
  const began = Date.now();
  let made = 0;
  const worker = async () => {
    while (made < count) {
      const number = made++;
      await post(service, '/workflows', {
        workflowId: idOf(number),
        workflowType: number % 10 === 0 ? 'refund' : 'order',
        tags: [`customer:${number % 1000}`, ...(number === old ? ['rare'] : [])],
        startAfter: '30d',
      });
      if (number % 100_000 === 0) say(`${number} runs after ${Math.round((Date.now() - began) / 1000)} s`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function beginLong(service) {
  await post(service, '/workflows', { workflowId: 'long', workflowType: 'long', taskList: 'long' });
}

/** Completes one turn of the long run with this number of markers. */
async function turn(service, markers) {
  const task = await post(service, '/task-lists/long/decider/poll', {});
  const decisions = Array.from({ length: markers }, (_, number) => ({
    type: 'RecordMarker',
    name: `marker-${number}`,
    details: { number, of: 'a few words of what it was' },
  }));
  await post(service, `/v1/decider-tasks/${task.token}/complete`, { decisions });
  return task.startedEventId + 1 + markers;
}

async function makeEvents(service, count) {
  await beginLong(service);
  for (let there = await turn(service, 0); there < count;) {
    await post(service, '/workflows/long/signals/more', {});
    // The newest turns have a realistic size.
    const missing = count - there - EVENTS_BESIDE;
    const markers = missing > 2 * MARKERS_A_TURN ? MARKERS_A_TURN : MARKERS_AT_LAST;
    there = await turn(service, Math.max(0, Math.min(markers, missing)));
  }
}

/**
 * Script that records in every page: the time of the first paint, the time when the first data is shown, and the
 * durations of key presses.
 */
const NOTES = `
  window.noted = { keys: [] };
  const seen = new MutationObserver(() => {
    if (document.querySelector('.row.run, .card, .turns .empty, .event-rows .row, .view svg, .view li')) {
      requestAnimationFrame(() => setTimeout(() => { noted.shown ??= performance.now(); }));
      seen.disconnect();
    }
  });
  seen.observe(document, { childList: true, subtree: true });
  addEventListener('keydown', (event) => {
    const began = event.timeStamp;
    requestAnimationFrame(() => setTimeout(() => noted.keys.push(performance.now() - began)));
  }, true);
`;

const sorted = (numbers) => [...numbers].sort((a, b) => a - b);
const of = (numbers, quantile) => sorted(numbers)[Math.min(numbers.length - 1, Math.floor(numbers.length * quantile))];
const figures = (numbers) =>
  `p50 ${of(numbers, 0.5).toFixed(0)} ms, the worst ${Math.max(...numbers).toFixed(0)} ms of ${numbers.length}`;

async function openings(browser, name, url) {
  const [paints, shown] = [[], []];
  for (let n = 0; n < OPENINGS; n++) {
    await browser.go('about:blank');
    await browser.go(url);
    const noted = await until(`${name} is shown`, () =>
      browser.run(`() => {
        const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime;
        return paint && window.noted.shown ? [paint, window.noted.shown] : null;
      }`),
    );
    paints.push(noted[0]);
    shown.push(noted[1]);
  }
  say(`${name}: first paint ${figures(paints)}; its rows ${figures(shown)}`);
}

async function keys(browser, name, ...pressed) {
  await browser.run('() => { window.noted.keys = []; }');
  for (let n = 0; n < PRESSES; n++) {
    await browser.press(pressed[n % pressed.length]);
    await until('the key is answered', () => browser.run('(n) => window.noted.keys.length > n', n));
  }
  say(`${name}: keys ${pressed.join(' ')} ${figures(await browser.run('() => window.noted.keys'))}`);
}

async function measured(browser) {
  await browser.devtools('Page.addScriptToEvaluateOnNewDocument', { source: NOTES });
}

async function runs(service, browser, count) {
  await makeRuns(service, count);
  const early = idOf(earlyOf(count));
  const list = `${service.url}/console/default/workflows`;
  await openings(browser, `${count} runs`, list);
  await keys(browser, 'the list', 'j');
  await keys(browser, 'the list', 'k', 'x');
  await openings(browser, 'of one type', `${list}?type=refund`);
  await openings(browser, 'of a whole id', `${list}?workflowId=${early}`);
  await openings(browser, 'of a rare beginning', `${list}?workflowIdPrefix=${early.slice(0, -2)}`);
  await openings(browser, 'of a common beginning', `${list}?workflowIdPrefix=order-`);
  await openings(browser, 'of a tag that one old run has', `${list}?tag=rare`);
  await openings(browser, 'a run', `${service.url}/console/default/workflows/${early}`);
  await openings(browser, 'the oldest first', `${list}?order=startedAt`);
  await browser.go(`${service.url}/console/`);
  await browser.shows('.number', '');
}

async function events(service, browser, count) {
  await makeEvents(service, count);
  const { runId } = await service.call('GET', '/workflows/long');

  const run = `${service.url}/console/default/workflows/long/${runId}`;
  for (const view of ['turns', 'timeline', 'future', 'events']) {
    await openings(browser, `${count} events, ${view}`, `${run}/${view}`);
    await browser.shows('.connection', 'live');
    await keys(browser, view, 'j', 'k');
  }
  await keys(browser, 'as of an event', '[', ']');
  await keys(browser, 'from view to view', '1', '2', '3', '4');
  await openings(browser, 'an event in the middle', `${run}/events?event=${Math.floor(count / 2)}`);
  await openings(browser, 'as of an event in the middle', `${run}/turns?asof=${Math.floor(count / 2)}`);
}

async function memory(browser) {
  await browser.devtools('HeapProfiler.collectGarbage');
  const { metrics } = await browser.devtools('Performance.getMetrics');
  const value = (name) => metrics.find((one) => one.name === name).value;
  const drawn = await browser.run('() => document.querySelectorAll("*").length');
  return { heap: value('JSHeapUsedSize'), nodes: value('Nodes'), drawn };
}

async function follow(service, browser, minutes, pace) {
  await beginLong(service);
  await turn(service, 0);
  await browser.devtools('Performance.enable');
  await browser.go(`${service.url}/console/default/workflows/long`);
  await browser.shows('.connection', 'live');
  const markers = Math.round(pace / TURNS_A_SECOND) - EVENTS_BESIDE;
  let made = 0;
  let goesOn = true;
  const began = Date.now();
  const maker = (async () => {
    for (let n = 1; goesOn; n++) {
      await post(service, '/workflows/long/signals/more', {});
      made = await turn(service, markers);
      await pause(Math.max(0, began + (n * 1000) / TURNS_A_SECOND - Date.now()));
    }
  })();
  for (let minute = 0; minute <= minutes; minute++) {
    if (minute > 0) await until('a minute is over', () => Date.now() >= began + minute * 60_000, 90_000);
    const { heap, nodes, drawn } = await memory(browser);
    const asked = Date.now();
    const newest = made;
    const behind = '() => Number(document.querySelector(".scrub .of").innerText.replace(/\\D/g, ""))';
    await until('the page has what there was', async () => (await browser.run(behind)) >= newest);
    say(
      `after ${minute} min: ${made} events, ${(heap / 1e6).toFixed(1)} MB of heap, ${nodes} nodes of which ${drawn} elements are shown; ` +
        `${Date.now() - asked} ms behind at most`,
    );
    if (minute > 0) await keys(browser, 'while it goes on', 'j', 'k');
  }
  goesOn = false;
  await maker;
}

/**
 * Returns the resources used by a process: ticks of processor time, bytes of memory, and number of times that its
 * threads have slept and woken.
 */
function usage(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  const ticks = Number(stat[11]) + Number(stat[12]);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const threads = execFileSync('sh', ['-c', `cat /proc/${pid}/task/*/status`], { encoding: 'utf8' });
  const woken = [...threads.matchAll(/^voluntary_ctxt_switches:\s*(\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
  return { ms: ticks * 10, bytes: Number(status.match(/VmRSS:\s*(\d+)/)[1]) * 1024, woken };
}

async function requests(service) {
  const page = await (await fetch(`${service.url}/metrics`)).text();
  const lines = page.split('\n').filter((line) => /^baton_http_requests?_total/.test(line));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

async function idle(service, pages) {
  for (let number = 0; number < 1000; number++)
    await post(service, '/workflows', { workflowId: `w${number}`, workflowType: 'order', startAfter: '30d' });
  const pid = service.process.pid;
  const look = async (what) => {
    await pause(5000);
    const before = [usage(pid), await requests(service)];
    await pause(IDLE_S * 1000);
    const after = [usage(pid), await requests(service)];
    const [ms, woken] = ['ms', 'woken'].map((name) => after[0][name] - before[0][name]);
    const mib = (after[0].bytes / (1 << 20)).toFixed(1);
    // One request is the request for the metrics themselves.
    const asked = after[1] - before[1] - 1;
    say(`${what}: in ${IDLE_S} s ${ms} ms of processor time, ${woken} wakes, ${asked} requests; ${mib} MiB`);
    return after[0].bytes;
  };
  const without = await look('no page');
  const open = new Agent({ keepAlive: true, maxSockets: Infinity });
  let told = 0;
  const streams = await Promise.all(
    Array.from(
      { length: pages },
      () =>
        new Promise((done, failed) => {
          const headers = { accept: 'text/event-stream' };
          const asked = request(`${service.url}/v1/domains/default/changes`, { agent: open, headers }, (answer) => {
            answer.on('data', () => told++);
            done(asked);
          });
          asked.on('error', failed);
          asked.end();
        }),
    ),
  );
  await until('each has begun', () => told === pages);
  const bytes = await look(`${pages} pages`);
  say(`${((bytes - without) / pages / 1024).toFixed(1)} KiB a page; told while nothing happened: ${told - pages}`);
  const began = Date.now();
  await post(service, '/workflows/w1/signals/s', {});
  await until('each is told', () => told === 2 * pages);
  say(`a change is told to all of them in ${Date.now() - began} ms`);
  for (const asked of streams) asked.on('error', () => undefined).destroy();
}

const [what, first, second] = process.argv.slice(2);
const service = await Service.open();
let browser;
try {
  if (what === 'idle') {
    await idle(service, Number(first ?? 1000));
  } else {
    browser = await Browser.open();
    await measured(browser);
    if (what === 'runs') await runs(service, browser, Number(first ?? 1_000_000));
    else if (what === 'events') await events(service, browser, Number(first ?? 1_000_000));
    else if (what === 'follow') await follow(service, browser, Number(first ?? 10), Number(second ?? 1000));
    else say('say what to measure: runs, events, follow or idle');
  }
} finally {
  await browser?.close();
  await service.close();
  agent.destroy();
}
