// `gatehouse mcp` over standard input and output: a client of MCP on this side, a server on the other, each by a
// transport of the SDK, and the governor between them. Messages pass as they are, whatever revision of the protocol
// they are of.
// Invariant: nothing but messages is written to standard output. When one side closes, the other is closed.
// Failure: a request that the server does not take is answered with an error. A message that cannot be read is
// reported.
import {
  type JSONRPCMessage,
  PROTOCOL_VERSION_META_KEY,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/client';
import { type Governor, McpExchange } from './governor.ts';

/** Resolves when one side has closed: which. */
export async function pipe(client: Transport, server: Transport, governor: Governor): Promise<'client' | 'server'> {
  return new Pipe(client, server, governor).run();
}

class Pipe {
  readonly #client: Transport;
  readonly #server: Transport;
  readonly #report: (text: string) => void;
  readonly #exchange: McpExchange;
  /** Requests on their way to a server that has a stream for each, and ends it to cancel. */
  readonly #streams = new Map<RequestId, AbortController>();
  /** Of the request `initialize`: its answer says which revision the transport is to name. */
  #initialize: RequestId | undefined;

  constructor(client: Transport, server: Transport, governor: Governor) {
    this.#client = client;
    this.#server = server;
    this.#report = governor.options.report;
    this.#exchange = new McpExchange(governor);
  }

  async run(): Promise<'client' | 'server'> {
    const [client, server] = [this.#client, this.#server];
    const closed = new Promise<'client' | 'server'>((resolve) => {
      client.onclose = () => resolve('client');
      server.onclose = () => resolve('server');
    });
    client.onerror = (error) => this.#report(`the client: ${error.message}`);
    server.onerror = (error) => this.#report(`the server: ${error.message}`);
    client.onmessage = (message) => this.#handle(this.#fromClient(message));
    server.onmessage = (message) => this.#handle(this.#fromServer(message));
    // The server first: what the client says meanwhile waits in the pipe.
    await server.start();
    await client.start();
    const side = await closed;
    await Promise.allSettled([client.close(), server.close()]);
    return side;
  }

  #handle(work: Promise<void>): void {
    work.catch((error: Error) => this.#report(error.message));
  }

  async #fromClient(message: JSONRPCMessage): Promise<void> {
    if ('method' in message && 'id' in message && message.method === 'initialize') this.#initialize = message.id;
    const { onward, back } = await this.#exchange.fromClient(message);
    if (back !== undefined) await this.#client.send(back);
    if (onward !== undefined) await this.#toServer(onward);
  }

  async #fromServer(message: JSONRPCMessage): Promise<void> {
    if ('result' in message && message.id === this.#initialize) {
      const version = message.result['protocolVersion'];
      if (typeof version === 'string') this.#server.setProtocolVersion?.(version);
    }
    if (!('method' in message) && message.id !== undefined) this.#streams.delete(message.id);
    const { onward } = await this.#exchange.fromServer(message);
    if (onward !== undefined) await this.#client.send(onward);
  }

  async #toServer(message: JSONRPCMessage): Promise<void> {
    if (!('method' in message && 'id' in message)) {
      if (!this.#endsStream(message)) await this.#server.send(message);
      return;
    }
    const { id, params } = message;
    const controller = new AbortController();
    if (this.#server.hasPerRequestStream && params?._meta?.[PROTOCOL_VERSION_META_KEY] !== undefined)
      this.#streams.set(id, controller);
    try {
      await this.#server.send(message, {
        requestSignal: controller.signal,
        onRequestStreamEnd: () => this.#handle(this.#unanswered(id, 'the server ended the stream without an answer')),
      });
    } catch (error) {
      await this.#unanswered(id, `the server cannot be reached: ${(error as Error).message}`);
    }
  }

  /** Is it a cancellation that the server learns by the end of the request's stream? */
  #endsStream(message: JSONRPCMessage): boolean {
    if (!('method' in message) || message.method !== 'notifications/cancelled') return false;
    const id = (message.params as { requestId?: RequestId } | undefined)?.requestId;
    const controller = id === undefined ? undefined : this.#streams.get(id);
    controller?.abort();
    return controller !== undefined;
  }

  async #unanswered(id: RequestId, why: string): Promise<void> {
    this.#streams.delete(id);
    const answer = this.#exchange.failed(id, why);
    if (answer !== undefined) await this.#client.send(answer);
  }
}
