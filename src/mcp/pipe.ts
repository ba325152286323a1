// `gatehouse mcp` over standard input and output: a client of MCP on this side, a server on the other, and the exchange
// between them. Messages pass as the text that came, whatever revision of the protocol they are of.
// Invariant: nothing but messages is written to standard output. What was read of the client is answered before the end
// where the server answers within the time for it. When one side ends, the other is ended.
// Failure: a request that the server does not take is answered with an error, and so is what cannot be read.
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Governor } from './governor.ts';
import { eachLine, writeLine } from './lines.ts';
import { McpExchange, routed } from './mcp-exchange.ts';
import type { Id, Incoming, McpMessage } from './message.ts';

/** The listener of a server's link. Neither `came` nor `failed` rejects. */
export type FromServer = {
  /** `isAlone`: it came as the answer to one request. */
  came(incoming: Incoming, isAlone: boolean): Promise<void>;
  failed(id: Id, why: string): Promise<void>;
  isWaiting(id: Id): boolean;
};
export type ServerLink = {
  /** Resolves when the server has ended. */
  run(listener: FromServer): Promise<void>;
  /** `messages`: what is in `text`. Rejects where the server does not take it. */
  send(text: string, messages: readonly McpMessage[]): Promise<void>;
  close(): Promise<void>;
};
type PipeOptions = {
  input: Readable;
  output: Writable;
  /** After the end of `input`, what was read is answered within so long. */
  drainMs: number;
  /** Ends it at once. */
  signal: AbortSignal;
};

/** Resolves when one side has ended: which. */
export async function pipe(
  server: ServerLink,
  governor: Governor,
  { input, output, drainMs, signal }: PipeOptions,
): Promise<'client' | 'server'> {
  const { report } = governor.options;
  const exchange = new McpExchange(governor);
  let answered = () => {};
  const toClient = async (text: string | undefined) => {
    if (text !== undefined) await writeLine(output, text);
    if (exchange.waiting === 0) answered();
  };
  const fromClient = async (incoming: Incoming) => {
    const { onward, back } = await routed(incoming, (item) => exchange.fromClient(item));
    await toClient(back);
    if (onward === undefined) return;
    const messages = incoming.items.filter((item) => item.kind !== 'fault');
    await server.send(onward, messages).catch(async (error: Error) => {
      const why = `the server cannot be reached: ${error.message}`;
      report(why);
      for (const { id, kind } of messages) if (kind === 'request') await toClient(exchange.failed(id!, why));
    });
  };
  const listener: FromServer = {
    came: async (incoming, isAlone) => {
      const { onward } = await routed(incoming, (item) => exchange.fromServer(item, isAlone));
      await toClient(onward);
    },
    failed: (id, why) => toClient(exchange.failed(id, why)),
    isWaiting: (id) => exchange.isWaiting(id),
  };
  const clientEnded = async () => {
    await eachLine(input, 'client', fromClient);
    if (exchange.waiting > 0)
      await Promise.race([
        new Promise<void>((resolve) => {
          answered = resolve;
        }),
        sleep(drainMs, undefined, { ref: false }),
      ]);
    return 'client' as const;
  };
  const stopped = new Promise<'client'>((resolve) => {
    signal.addEventListener('abort', () => resolve('client'), { once: true });
    // The client reads no more.
    output.once('error', () => resolve('client'));
  });
  // The server first: what the client says meanwhile waits in the pipe.
  const serverEnded = server.run(listener).then(() => 'server' as const);
  try {
    const side = await Promise.race([serverEnded, clientEnded(), stopped]);
    for (const text of exchange.allFailed(`the ${side} has ended`)) await toClient(text);
    return side;
  } finally {
    await server.close();
    input.destroy();
  }
}
