// Serves dist/ under /console/ and forwards all other requests to a service, for development of the console.
//
//   node dev/server.mjs [PORT] [SERVICE]        defaults: 7498, http://127.0.0.1:7420
//
// The server sends the same headers as the service, so that anything that they forbid fails in development, too.
import { createServer, request } from 'node:http';
import { readFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';

const port = Number(process.argv[2] ?? 7498);
const service = new URL(process.argv[3] ?? 'http://127.0.0.1:7420');
const dist = new URL('../dist/', import.meta.url);
const types = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

async function asset(name, incoming, answer) {
  const bytes = await readFile(new URL(name, dist));
  const etag = `"${createHash('sha256').update(bytes).digest('hex').slice(0, 16)}"`;
  answer.setHeader('ETag', etag);
  answer.setHeader('Cache-Control', 'no-cache');
  answer.setHeader('Content-Type', types[name.split('.').pop()]);
  answer.setHeader(
    'Content-Security-Policy',
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  answer.setHeader('X-Content-Type-Options', 'nosniff');
  answer.setHeader('Referrer-Policy', 'no-referrer');
  if (incoming.headers['if-none-match'] === etag) {
    answer.writeHead(304).end();
  } else {
    answer.end(bytes);
  }
}

function pass(incoming, answer) {
  const headers = { ...incoming.headers, host: service.host };
  delete headers.origin;
  const outgoing = request(
    { host: service.hostname, port: service.port, method: incoming.method, path: incoming.url, headers },
    (response) => {
      answer.writeHead(response.statusCode, response.headers);
      response.pipe(answer);
      response.on('close', () => {
        if (!response.complete) answer.destroy();
      });
    },
  );
  outgoing.on('error', (error) => {
    if (answer.headersSent) answer.destroy();
    else answer.writeHead(502, { 'Content-Type': 'text/plain' }).end(String(error));
  });
  answer.on('close', () => outgoing.destroy());
  incoming.pipe(outgoing);
}

createServer((incoming, answer) => {
  const path = new URL(incoming.url, 'http://console').pathname;
  if (path === '/') {
    answer.writeHead(302, { Location: '/console/' }).end();
  } else if (path === '/console' || path.startsWith('/console/')) {
    const name =
      ['boot.js', 'console.js', 'console.css', 'docs.js', 'docs.css', 'icon.svg'].find(
        (file) => path === `/console/${file}`,
      ) ?? 'index.html';
    asset(name, incoming, answer).catch((error) => answer.writeHead(500).end(String(error)));
  } else {
    pass(incoming, answer);
  }
}).listen(port, '127.0.0.1', function () {
  console.log(`http://127.0.0.1:${this.address().port}/console/ over ${service.origin}`);
});
