// What a product that sends inference hooks is answered where its request cannot be judged: the word of its connection,
// with 200 and in time (set at the head of the request, before anything can fail).
// The word is that of the connection as it was last read by this process: it is needed most where no store can be
// asked.
// Invariant: no request goes without a verdict past `timeout_ms`, and none of a connection that is not known here is
// allowed. At most KNOWN_MAX are remembered; of more the one that was read longest ago is forgotten.
import type { ConnectionRecord } from '../../../schemas/connection.ts';
import { ServiceError } from '../../common/errors.ts';
import { inferenceAnswer } from '../../hooks/inference-hook.ts';
import type { Metrics, UnjudgedHook } from '../../metrics/metrics.ts';
import type { CachedConnection, RegistryCache } from '../../registry/cache/cache.ts';
import type { Exchange } from '../exchange.ts';

/** Some 200 bytes each. */
const KNOWN_MAX = 10_000;
/** The time limit of a connection that is not known. */
const TIMEOUT_MS = 4_000;

type Word = Pick<ConnectionRecord, 'on_failure' | 'mode' | 'timeout_ms'>;

export class ConnectionVerdicts {
  readonly #cache: Pick<RegistryCache, 'connection'>;
  readonly #known = new Map<string, Word>();
  readonly #metrics: Pick<Metrics, 'inc'>;

  constructor(cache: Pick<RegistryCache, 'connection'>, metrics: Pick<Metrics, 'inc'>) {
    this.#cache = cache;
    this.#metrics = metrics;
  }

  /** From here on every error of this exchange is the connection's word. */
  begin(exchange: Exchange, id: string): void {
    exchange.errorAnswer = (error) => this.#answer(id, error, exchange.requestId);
    this.#within(exchange, this.#known.get(id)?.timeout_ms ?? TIMEOUT_MS);
  }

  /** Throws or rejects with ServiceError invalid_token where there is none, unavailable. */
  find(exchange: Exchange, id: string): CachedConnection | Promise<CachedConnection> {
    const found = this.#cache.connection(id);
    if (found instanceof Promise) return found.then((one) => this.#found(exchange, id, one));
    return this.#found(exchange, id, found);
  }

  #found(exchange: Exchange, id: string, found: CachedConnection | null): CachedConnection {
    const known = this.#known.get(id);
    this.#known.delete(id);
    if (found === null) throw notSigned();
    const { on_failure, mode, timeout_ms } = found.record;
    this.#known.set(id, { on_failure, mode, timeout_ms });
    if (this.#known.size > KNOWN_MAX) this.#known.delete(this.#known.keys().next().value!);
    if (known?.timeout_ms !== timeout_ms) this.#within(exchange, timeout_ms);
    return found;
  }

  #within(exchange: Exchange, ms: number): void {
    clearTimeout(exchange.deadline);
    if (exchange.over) return;
    const left = Math.max(0, ms - (performance.now() - exchange.startedMs));
    exchange.deadline = setTimeout(() => exchange.giveUp(late(ms)), left);
  }

  #answer(id: string, error: ServiceError, reference: string): string {
    this.#metrics.inc('gatehouse_unjudged_hooks_total', { reason: reasonOf(error) });
    const word = this.#known.get(id);
    const isAllowed = word !== undefined && (word.mode === 'watch' || word.on_failure === 'allow');
    return inferenceAnswer({ isAllowed, reason: `This could not be judged: ${error.message}`, reference });
  }
}

function reasonOf({ code, status }: ServiceError): UnjudgedHook {
  if (code === 'invalid_token') return 'unsigned';
  if (status === 429) return 'limited';
  return status < 500 ? 'invalid' : 'unavailable';
}

/** The same for a connection that is not there and for a signature that is wrong. */
export function notSigned(): ServiceError {
  return new ServiceError('invalid_token', 'the request is not signed by a secret of this connection.');
}

/** The first test of a connection is made before the product signs: its answer says what is left to be done. */
export function noSecret(): ServiceError {
  const message = 'the connection is there and has no secret yet. Set the one that the product shows.';
  return new ServiceError('invalid_token', message);
}

function late(ms: number): ServiceError {
  return new ServiceError('unavailable', `nothing was decided within ${ms} ms.`, { internal: 'inference hook: late' });
}
