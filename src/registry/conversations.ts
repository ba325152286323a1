// What is remembered of a conversation that is sent whole with every turn: which messages were let through, so that
// only new ones are judged and stored; and under which key each of the others is asked about, so that two requests
// with the same message ask once (between inference-judging.ts and the Idempotency-Keys of events).
// Kept as hashes of a message and all before it, in the shard of the account, for CONVERSATION_KEPT_MS.
// Invariant: a message that was stopped is never among those that were let through: it is judged again. What is
// forgotten is judged, and stored, again.
// Failure: ServiceError unavailable.
import {
  CONVERSATION_CLAIMS_MAX,
  CONVERSATION_KEPT_MS,
  CONVERSATIONS_MAX,
  MESSAGES_KNOWN_MAX,
} from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import { Script } from '../redis/script.ts';
import { answering, type RegistryStore } from './commit.ts';

const open = new Script<[seen: number, ...askedBy: string[]]>(
  'conversation-open',
  readAsset('src/redis/conversation-open.lua'),
);
const settle = new Script<number>('conversation-settle', readAsset('src/redis/conversation-settle.lua'));

/** `name`: of the connection and its conversation. */
export type ConversationKey = { account: string; name: string };
/** `seen`: messages from the first that were let through. `askedBy`: who asked first, of each behind them. */
export type OpenConversation = { seen: number; askedBy: readonly string[] };
/** `instead`: what is asked about it from now on; '': as if it were new. */
type Stopped = { digest: string; askedBy: string; instead: string };

export class Conversations {
  readonly #store: Pick<RegistryStore, 'redis' | 'keys'>;

  constructor(store: Pick<RegistryStore, 'redis' | 'keys'>) {
    this.#store = store;
  }

  /** `request`: the key of this one. */
  open({ account, name }: ConversationKey, request: string, digests: readonly string[]): Promise<OpenConversation> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      const end = keys.conversationEnd(name);
      const of = [keys.seenMessages(account, end), keys.askedMessages(account, end), keys.conversations(account)];
      const bounds = [CONVERSATION_KEPT_MS, end, CONVERSATIONS_MAX, CONVERSATION_CLAIMS_MAX];
      const [seen, ...askedBy] = await open.run(redis, of, [...bounds, request, ...digests]);
      return { seen, askedBy };
    });
  }

  /** `through`: in order. */
  settle({ account, name }: ConversationKey, through: readonly string[], stopped?: Stopped): Promise<void> {
    return answering(async () => {
      const { redis, keys } = this.#store;
      const end = keys.conversationEnd(name);
      const { digest = '', askedBy = '', instead = '' } = stopped ?? {};
      const args = [CONVERSATION_KEPT_MS, MESSAGES_KNOWN_MAX, digest, askedBy, instead, ...through];
      await settle.run(redis, [keys.seenMessages(account, end), keys.askedMessages(account, end)], args);
    });
  }
}
