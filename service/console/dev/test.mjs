// Runs test/*.test.ts with Node's test runner. The files are bundled first, so that Node needs no loader for
// TypeScript.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const here = new URL('..', import.meta.url).pathname;
const out = mkdtempSync(join(tmpdir(), 'baton-console-'));
const entries = readdirSync(join(here, 'test'))
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => join(here, 'test', name));
await build({
  entryPoints: entries,
  outdir: out,
  bundle: true,
  format: 'esm',
  platform: 'node',
  outExtension: { '.js': '.mjs' },
  logLevel: 'warning',
});
const { status } = spawnSync(process.execPath, ['--test', '--test-reporter=spec', out], { stdio: 'inherit' });
rmSync(out, { recursive: true });
process.exit(status ?? 1);
