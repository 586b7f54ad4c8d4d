// Builds the console: writes the files that the service serves to dist/. The same sources result in the same bytes on
// every machine. File names do not change, so that an open page can compare its version by ETag with the version of the
// service.
//
//   node build.mjs [FOLDER]        default: dist
import { build } from 'esbuild';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

/** Maximum size of the files of a page, gzipped, in bytes. Our choice: well below the promised 250 KB. */
const GZIPPED_BYTES_MAX = 92 * 1024;

const outdir = resolve(process.argv[2] ?? fileURLToPath(new URL('./dist', import.meta.url)));
const dist = pathToFileURL(`${outdir}/`);
await rm(dist, { recursive: true, force: true });
await mkdir(dist, { recursive: true });
await build({
  absWorkingDir: new URL('.', import.meta.url).pathname,
  entryPoints: { console: 'src/main.tsx', boot: 'src/boot.ts', docs: 'src/docs.ts' },
  external: ['/console/console.js'],
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'none',
  outdir,
});
await build({
  absWorkingDir: new URL('.', import.meta.url).pathname,
  entryPoints: { console: 'src/style.css', docs: 'src/docs.css' },
  bundle: true,
  minify: true,
  outdir,
});
for (const name of ['index.html', 'icon.svg']) {
  await writeFile(new URL(name, dist), await readFile(new URL(`./src/${name}`, import.meta.url)));
}

// Writes the licenses of the bundled packages.
const notices = [];
for (const name of ['preact', '@preact/signals', '@preact/signals-core', 'marked']) {
  notices.push(`${name}\n\n${await readFile(new URL(`./node_modules/${name}/LICENSE`, import.meta.url), 'utf8')}`);
}
await writeFile(new URL('licenses.txt', dist), notices.join('\n\n'));

let total = 0;
// The files of the documentation are loaded only by the documentation's pages, so they do not count.
const files = ['index.html', 'icon.svg', 'boot.js', 'console.js', 'console.css'];
for (const name of [...files, 'docs.js', 'docs.css']) {
  const bytes = await readFile(new URL(name, dist));
  const gzipped = gzipSync(bytes, { level: 9 }).length;
  if (files.includes(name)) total += gzipped;
  console.log(`${name.padEnd(12)} ${String(bytes.length).padStart(7)} bytes, ${String(gzipped).padStart(6)} gzipped`);
}
console.log(`total ${total} bytes gzipped`);
if (total > GZIPPED_BYTES_MAX) {
  console.error(`more than ${GZIPPED_BYTES_MAX} bytes gzipped`);
  process.exit(1);
}
