// Holds the answers to writes until enough replicas have them (between a client and its caller, on the connections of
// redis/client.ts that acknowledge something). A master answers before its replicas know of a write: one that dies then
// takes along what it has answered. `WAIT` is asked once for all that was sent together, on the very connection, since
// it goes by what that connection did last.
// Invariant: an answer that is handed on was given on the connection whose WAIT was answered behind it. A command that
// a Cluster redirects belongs to the node that carried it out.
// Failure: as said below. A node that does not say what replicas it has is taken to have one.
import { Command, type Redis } from 'ioredis';
import { Periodic } from '../common/async.ts';
import { REPLICA_LOOK_MS, REPLICA_WAIT_MS } from '../common/limits.ts';

//   a write      is sent at once; its answer is kept back
//   WAIT         follows in the same tick, or when the one before it is answered. It holds up what is sent behind it,
//                so under load writes gather for the next one: a group commit
//   enough       the answers are handed on. A refusal by Redis is handed on at any time
//   not enough   within REPLICA_WAIT_MS, or the connection broke: NotReplicated. The master has the write; whether it
//                stays is unknown
//
// Enough is what the operator has set, or one replica where the node itself says that it has any. A replica that most
// masters hold to be dead (`fail`) no longer counts, and a node that was promoted has none for a while: writing
// continues there. A master that is cut off from the others cannot know of a promotion: it still counts its replica, so
// nothing that only such a master has is acknowledged.

/** Replicas that must have a write; undefined: one where there are any. */
export type ReplicasWanted = number | undefined;

/** Fewer replicas than are asked for have confirmed a write, which may be lost with its master. */
export class NotReplicated extends Error {
  override name = 'NotReplicated';
}

/** The commands that something is acknowledged by. Others are answered as they are. */
const HELD = new Set(['xadd', 'eval', 'evalsha', 'set', 'del', 'hset', 'hsetnx', 'hdel']);

/** For an answer to a question that a connected replica answers at once. */
const READY_MS_MAX = 100;

type Send = Redis['sendCommand'];
/** The commands that were sent since the WAIT before. */
class Group {
  readonly #answers: { command: Command; handOn: () => void }[] = [];
  #refusal: NotReplicated | undefined;

  /** An answer has come, of this connection. */
  answered(command: Command, handOn: () => void): void {
    // A socket that takes no more, as one that is being closed, refuses the WAIT before it has given its last answers.
    if (this.#refusal === undefined) this.#answers.push({ command, handOn });
    else command.reject(this.#refusal);
  }

  handOn(): void {
    for (const { handOn } of this.#answers) handOn();
  }

  refuse(refusal: NotReplicated): void {
    this.#refusal = refusal;
    for (const { command } of this.#answers.splice(0)) command.reject(refusal);
  }
}

const holds = new WeakMap<Redis, ReplicaHold>();

/**
 * Makes a client, or a node of a Cluster, wait for replicas; to be called before its first command. `replicasOf`: how
 * many the node has, from it.
 */
export function holdUntilReplicated(node: Redis, wanted: ReplicasWanted, replicasOf: ReplicasOf): void {
  holds.set(node, new ReplicaHold(node, wanted, replicasOf));
}

/** Asks for what was sent so far, in the same write to the socket where that is still open. */
export function askReplicas(node: Redis): void {
  holds.get(node)?.ask();
}

/** Throws NotReplicated where fewer replicas are connected than a write needs. */
export async function replicasReady(node: Redis): Promise<void> {
  await holds.get(node)?.ready();
}

/** How many replicas the node has; asked on its own connection. Rejects where the node does not say. */
type ReplicasOf = (ask: (name: string, ...args: string[]) => Promise<unknown>) => Promise<number>;

class ReplicaHold {
  readonly #send: Send;
  readonly #wanted: ReplicasWanted;
  readonly #replicasOf: ReplicasOf;
  readonly #looks: Periodic;
  /** undefined: not known of this connection yet. */
  #needed: number | undefined;
  /** As they were before a redirection, so that a command that is sent again is not held twice. */
  readonly #resolvers = new WeakMap<Command, Command['resolve']>();
  /** undefined: nothing was sent since the last WAIT. */
  #group: Group | undefined;
  /** The number of the connection: it changes when one is lost. */
  #connection = 0;
  #isAsking = false;
  #isDue = false;

  constructor(node: Redis, wanted: ReplicasWanted, replicasOf: ReplicasOf) {
    this.#send = node.sendCommand.bind(node);
    this.#wanted = wanted;
    this.#replicasOf = replicasOf;
    this.#needed = wanted;
    this.#looks = new Periodic(REPLICA_LOOK_MS, async () => void (await this.#look()));
    node.sendCommand = ((command: Command, stream) => {
      if (HELD.has(command.name) && this.#needed !== 0) this.#hold(command);
      return this.#send(command, stream);
    }) as Send;
    node.on('ready', () => {
      this.#needed = wanted;
      if (wanted === undefined) this.#looks.start();
    });
    node.on('close', () => {
      void this.#looks.stop();
      this.#connection++;
      // What was not answered is refused by the client itself.
      this.#group?.refuse(new NotReplicated('the connection broke before a replica was known to have the write'));
      this.#group = undefined;
    });
  }

  ask(): void {
    this.#isDue = false;
    if (this.#isAsking || this.#group === undefined) return;
    const group = this.#group;
    this.#group = undefined;
    this.#isAsking = true;
    void this.#settle(group).finally(() => {
      this.#isAsking = false;
      this.ask();
    });
  }

  async ready(): Promise<void> {
    const shortfall = await this.#shortfall(READY_MS_MAX);
    if (shortfall !== undefined) throw shortfall;
  }

  #hold(command: Command): void {
    const resolve = this.#resolvers.get(command) ?? command.resolve;
    this.#resolvers.set(command, resolve);
    this.#group ??= new Group();
    const group = this.#group;
    command.resolve = (reply) => group.answered(command, () => resolve(reply));
    if (this.#isDue || this.#isAsking) return;
    this.#isDue = true;
    queueMicrotask(() => this.ask());
  }

  async #settle(group: Group): Promise<void> {
    const connection = this.#connection;
    const shortfall = await this.#shortfall();
    // Redis answers in order: by now all have their answers, or the connection broke and refused them.
    if (shortfall !== undefined) group.refuse(shortfall);
    else if (connection !== this.#connection) group.refuse(new NotReplicated('the connection broke meanwhile'));
    else group.handOn();
  }

  /** undefined: enough replicas have all that was sent before. */
  async #shortfall(waitMs = REPLICA_WAIT_MS): Promise<NotReplicated | undefined> {
    try {
      const needed = this.#needed ?? (await this.#look());
      // With none needed the WAIT still comes behind the answers.
      const have = Number(await this.#ask('wait', String(needed), String(waitMs)));
      if (have >= needed) return undefined;
      void this.#look();
      return new NotReplicated(`${have} of ${needed} replicas confirmed within ${waitMs} ms`);
    } catch (cause) {
      return new NotReplicated('it is not known whether a replica has the write', { cause });
    }
  }

  async #look(): Promise<number> {
    const most = this.#wanted ?? 1;
    if (this.#wanted !== undefined) return most;
    const replicas = await this.#replicasOf((name, ...args) => this.#ask(name, ...args)).catch(() => most);
    this.#needed = Math.min(most, replicas);
    return this.#needed;
  }

  #ask(name: string, ...args: string[]): Promise<unknown> {
    return this.#send(new Command(name, args, { replyEncoding: 'utf8' })) as Promise<unknown>;
  }
}

/** As a node of a Cluster says it: replicas that are its own and not dead by the vote of most masters. */
export const replicasInCluster: ReplicasOf = async (ask) => {
  const nodes = String(await ask('cluster', 'NODES'))
    .trim()
    .split('\n')
    .map((line) => line.split(' '));
  const own = nodes.find(([, , flags = '']) => flags.split(',').includes('myself'))?.[0];
  return nodes.filter(([, , flags = '', master]) => master === own && !flags.split(',').includes('fail')).length;
};
