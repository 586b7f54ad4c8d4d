// A separate service for the tests: the built binary with a new data directory. It can be killed and started again.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from './browser.mjs';

/** With `--dev`, the console comes from dist/ and is served by dev/server.mjs. Otherwise it comes from the binary. */
const isDev = process.argv.includes('--dev');

const BINARY = process.env['BATON'] ?? new URL('../../../target/debug/baton', import.meta.url).pathname;
const DEV = new URL('../dev/server.mjs', import.meta.url).pathname;
const FIXTURE = new URL('../dev/fixture.mjs', import.meta.url).pathname;

export class Service {
  /** Starts a service with this configuration, if given. */
  static async open(configuration) {
    const service = new Service(mkdtempSync(join(tmpdir(), 'baton-walk-')));
    if (configuration) {
      service.more = ['--config', join(service.folder, 'baton.toml')];
      writeFileSync(service.more[1], configuration, { mode: 0o600 });
    }
    await service.start();
    return service;
  }

  constructor(folder) {
    this.folder = folder;
    this.address = '127.0.0.1:0';
    this.more = [];
  }

  get url() {
    return `http://${this.front ?? this.address}`;
  }

  /** Starts the process. After the first start, it uses the same address again. */
  async start() {
    const portFile = join(this.folder, 'port');
    rmSync(portFile, { force: true });
    const args = ['serve', '--data-dir', join(this.folder, 'data'), '--listen', this.address, '--port-file', portFile];
    let failed;
    const begin = () => {
      const stdio = ['ignore', 'inherit', 'inherit'];
      this.process = spawn(BINARY, [...args, ...this.more, '--log', 'warn'], { stdio });
      this.process.on('error', (error) => (failed = error));
    };
    begin();
    this.address = await until('the service is ready', () => {
      if (failed) throw failed;
      // Another process may have used the port for a moment, so the start is repeated.
      if (this.process.exitCode !== null) begin();
      try {
        return readFileSync(portFile, 'utf8').trim();
      } catch {
        return undefined;
      }
    });
    if (isDev && !this.dev) {
      this.dev = spawn(process.execPath, [DEV, '0', `http://${this.address}`], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      this.front = await new Promise((done) => {
        this.dev.stdout.once('data', (said) => done(String(said).match(/127\.0\.0\.1:\d+/)[0]));
      });
    }
  }

  /** Kills the process without a shutdown. */
  async kill() {
    // A process that has ended emits no further `exit` event.
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((done) => this.process.once('exit', done));
    this.process.kill('SIGKILL');
    await gone;
  }

  async close() {
    this.dev?.kill();
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Creates the runs that the tests use. */
  async fill() {
    const fixture = spawn(process.execPath, [FIXTURE, this.url], { stdio: ['ignore', 'ignore', 'inherit'] });
    const code = await new Promise((done) => fixture.once('exit', done));
    if (code !== 0) throw new Error(`the fixture ended with ${code}`);
  }

  async call(method, path, body, headers = {}) {
    const whole = path.startsWith('/v1/') ? path : `/v1/domains/default${path}`;
    const answer = await fetch(this.url + whole, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /** Returns the output of a command of `baton`. */
  command(...args) {
    return execFileSync(BINARY, [...args, '--url', `http://${this.address}`], { encoding: 'utf8' });
  }

  /** Returns all events of the newest run of a workflow id. */
  async history(id) {
    const { events } = await this.call('GET', `/workflows/${encodeURIComponent(id)}/history?limit=1000`);
    return events;
  }
}
