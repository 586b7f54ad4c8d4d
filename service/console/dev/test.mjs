// Runs test/*.test.ts with Node's own runner; each is bundled first, so that tests need no loader.
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
