// Rows of an outgoing feed as messages of syslog: RFC 5424, framed by octet counting (RFC 6587, as RFC 5425 has it for
// TLS). MSG is the row's line of JSON, UTF-8 without a byte order mark; MSGID is its topic.
// Syslog has no answer. So a connection is for one batch: it is ended behind the last frame, and the receiver has read
// all once it ends its side in turn. One that dies with what it has read has lost it, and so may one that ends at the
// very moment at which we do: nothing here can tell (docs/feed.md).
// Invariant: a frame says how many bytes follow, so a line may hold anything. A receiver that ends before us, or breaks
// off, has not taken the batch.
import type { TLSSocket } from 'node:tls';
import type { FeedItem } from '../../src/audit/feed.ts';
import { EgressError } from '../../src/egress/guarded-tls.ts';

/** Log audit. */
const FACILITY = 13;
const SEVERITIES = { error: 3, warning: 4, informational: 6 } as const;
const HOST_CHARACTERS_MAX = 255;
/** One that ends within so long of what the kernel took has not read it to the end. */
const SETTLE_MS = 200;

/** `host`: the machine that sends. `atMs`: when the row was made. */
export function syslogFrame(
  topic: FeedItem['topic'],
  { line, host, atMs }: { line: string; host: string; atMs: number },
): string {
  const severity = topic === 'gap' ? 'error' : topic === 'anomalies' ? 'warning' : 'informational';
  const priority = FACILITY * 8 + SEVERITIES[severity];
  const name = host.replace(/[^!-~]/g, '').slice(0, HOST_CHARACTERS_MAX) || '-';
  const message = `<${priority}>1 ${new Date(atMs).toISOString()} ${name} gatehouse - ${topic} - ${line}`;
  return `${Buffer.byteLength(message)} ${message}`;
}

/** Resolves once the receiver has ended its side behind ours. The caller's deadline ends the wait. */
export function sendFrames(tls: TLSSocket, frames: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let isEnding = false;
    let settling: NodeJS.Timeout | undefined;
    const fail = () => {
      clearTimeout(settling);
      reject(new EgressError('reset'));
    };
    tls.once('end', () => (isEnding ? resolve() : fail()));
    tls.once('error', fail);
    tls.once('close', fail);
    tls.resume();
    tls.write(frames.join(''), () => {
      settling = setTimeout(() => {
        isEnding = true;
        tls.end();
      }, SETTLE_MS);
    });
  });
}
