// A service of the caller's own, measured from outside: `--url URL --key KEY`. Finds out whether it can be measured
// before anything is sent, and runs the lines that need no look inside (remote-lines.ts).
// Invariant: load goes to the address that was named, and to no other; it comes from one agent, registered for this
// run, so that what was sent can be identified and erased.
// Failure: an address, a key or a service that will not do is a sentence (CallError), and nothing has been sent.
import { CallError, type RemoteLine } from './command-line.ts';
import { HttpClient } from './http-client.ts';
import { freshReadsOf, ingestOf, latencyOf, queryOf, type RemoteOptions } from './remote-lines.ts';

export type Remote = {
  /** With the path that a proxy wants, without a slash at its end. */
  url: string;
  /** The same without the path, and the path alone: load tools take them apart. */
  origin: string;
  pathPrefix: string;
  key: string;
  agent: string;
  version: string;
  limit: { per_second: number; burst: number };
};

/**
 * Runs the lines one after another; says at the end what is left behind. False: a line could not be measured to its
 * end.
 */
export async function runRemote(
  remote: Remote,
  lines: readonly RemoteLine[],
  optionsOf: (line: RemoteLine) => RemoteOptions,
): Promise<boolean> {
  const runners = { ingest: ingestOf, latency: latencyOf, query: queryOf, 'fresh-reads': freshReadsOf };
  const failed: string[] = [];
  for (const line of lines) {
    try {
      await runners[line](remote, optionsOf(line));
    } catch (error) {
      if (error instanceof CallError) throw error;
      process.stderr.write(`${line}: ${(error as Error).message}\n`);
      failed.push(line);
    }
  }
  process.stdout.write(
    `What was sent is left at the agent ${remote.agent}; this erases it: ` +
      `curl -X DELETE ${remote.url}/v1/agents/${remote.agent} -H "Authorization: Bearer $KEY"\n`,
  );
  return failed.length === 0;
}

/** Throws CallError. */
export async function reach(url: string, key: string): Promise<Remote> {
  const { origin, pathname } = addressOf(url);
  const pathPrefix = pathname.replace(/\/+$/, '');
  const client = new HttpClient({ url: origin + pathPrefix, key, connections: 1 });
  const ask = async (method: string, path: string, body?: object) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const answer = await client.send(method, path, text).catch((error: Error & { code?: string }) => {
      throw new CallError(`${url} cannot be reached: ${error.code ?? error.message}`);
    });
    return { status: answer.status, json: jsonOf(answer.body) };
  };
  try {
    const described = await ask('GET', '/v1/openapi.json');
    const info = described.json['info'] as { title?: string; version?: string } | undefined;
    if (info?.title !== 'Gatehouse') throw new CallError(`${url} answers, but is not Gatehouse (${described.status})`);
    const account = await ask('GET', '/v1/account');
    if (account.status === 401) throw new CallError(`${url} does not know this key, or it has expired`);
    if (account.status !== 200) throw refusal('the account cannot be read', account);
    const name = `bench-${new Date().toISOString().replaceAll(/[-:.]/g, '')}`;
    const agent = await ask('POST', '/v1/agents', { name });
    if (agent.status !== 201) throw refusal('the key cannot register an agent', agent);
    const limit = account.json['request_limit'] as Remote['limit'];
    const { version = 'unknown' } = info;
    return { url: origin + pathPrefix, origin, pathPrefix, key, agent: String(agent.json['id']), version, limit };
  } finally {
    client.close();
  }
}

function addressOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  if (address === undefined || !/^https?:$/.test(address.protocol) || address.search !== '' || address.hash !== '')
    throw new CallError(`--url takes the address of a service, as https://gatehouse.example.com, not "${url}"`);
  return address;
}

function refusal(what: string, { status, json }: { status: number; json: Record<string, unknown> }): CallError {
  const { message } = (json['error'] ?? {}) as { message?: string };
  return new CallError(`${what}: ${status} ${message ?? ''}`.trim());
}

function jsonOf(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
