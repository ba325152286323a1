// A Lua script that Redis knows by its hash: one atomic step over keys of one slot.
// Sent as EVALSHA; a Redis that has not seen it (new, restarted, failed over) says so before it does anything, and gets
// the text.
// Invariant: a script runs at most once per call of `run`, as far as the client given does not repeat commands.
// Throws RedisUnavailable where Redis is away or refuses for now; any other reply of error comes through as it is: a
// bug.
import { createHash } from 'node:crypto';
import { acknowledging, type Commands, redisError } from './client.ts';

type ScriptArgument = string | number | Buffer;

export class Script<Reply> {
  readonly name: string;
  readonly #lua: string;
  readonly #sha: string;
  readonly #acknowledges: boolean;

  /**
   * `lua` begins with its contract: KEYS, ARGV, result, what it guarantees. `acknowledges`: it is answered once
   * replicas have what it wrote (acknowledging).
   */
  constructor(name: string, lua: string, { acknowledges = false } = {}) {
    this.name = name;
    this.#lua = lua;
    this.#acknowledges = acknowledges;
    this.#sha = createHash('sha1').update(lua).digest('hex');
  }

  /** Strings in the reply are decoded as UTF-8. */
  async run(client: Commands, keys: readonly string[], args: readonly ScriptArgument[]): Promise<Reply> {
    const by = this.#acknowledges ? acknowledging(client) : client;
    try {
      return (await by.evalsha(this.#sha, keys.length, ...keys, ...args)) as Reply;
    } catch (error) {
      if (!isUnknownScript(error)) throw redisError(error);
    }
    try {
      return (await by.eval(this.#lua, keys.length, ...keys, ...args)) as Reply;
    } catch (error) {
      throw redisError(error);
    }
  }
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}
