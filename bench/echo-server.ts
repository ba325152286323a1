// What ingestion is compared with: a bare uWebSockets.js server that only echoes. `/bytes/…` sends the body back as it
// came, `/json/…` parses and stringifies it. Run as a process of its own: `node echo-server.js`; prints its port.
import uWS, { type HttpResponse } from 'uWebSockets.js';

const app = uWS.App();
app.post('/bytes/*', (res) => echo(res, (body) => body));
app.post('/json/*', (res) => echo(res, (body) => JSON.stringify(JSON.parse(body.toString()))));
app.listen('127.0.0.1', 0, (socket) => {
  if (!socket) throw new Error('cannot listen');
  process.stdout.write(`${uWS.us_socket_local_port(socket)}\n`);
});

function echo(res: HttpResponse, answer: (body: Buffer) => Buffer | string): void {
  res.onAborted(() => undefined);
  const parts: Buffer[] = [];
  res.onData((chunk, isLast) => {
    parts.push(Buffer.from(Buffer.from(chunk))); // the chunk's memory is taken back when this returns
    if (isLast) res.cork(() => res.writeHeader('content-type', 'application/json').end(answer(Buffer.concat(parts))));
  });
}
