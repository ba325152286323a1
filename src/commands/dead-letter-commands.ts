// `gatehouse dead list` and `gatehouse dead retry`: what the pipelines could not process, shown and put back (design
// 4). One JSON line an entry, so that other programs can read it; `entry` is the name that `retry` takes.
// Invariant: an entry is put back once; one that is no longer there is counted and not an error.

import { type DeadLetter, DeadLetters } from '../streams/dead-letters.ts';
import { type Command, type Context, UsageError, wholeNumber } from './context.ts';
import { withRedis } from './with-redis.ts';

const LIMIT_DEFAULT = '100';
const LIMIT_MAX = 10_000;

export const deadList: Command = async (context) => {
  const limit = wholeNumber(String(context.options.limit ?? LIMIT_DEFAULT), 'limit', { min: 1, max: LIMIT_MAX });
  await withDead(context, async (dead) => {
    for (const entry of await dead.list(limit)) {
      const { stream, id, ...rest } = entry;
      context.print(JSON.stringify({ entry: nameOf({ stream, id }), ...rest }));
    }
  });
};

export const deadRetry: Command = async (context) => {
  const { args, options, print } = context;
  if (options.all === true ? args.length > 0 : args.length === 0) throw new UsageError('name entries, or say --all');
  await withDead(context, async (dead) => {
    const wanted = options.all === true ? await dead.list(LIMIT_MAX) : args.map(parseName);
    const done = await dead.retry(wanted);
    print(`put back ${done} of ${wanted.length}`);
  });
};

function nameOf({ stream, id }: Pick<DeadLetter, 'stream' | 'id'>): string {
  return `${stream}@${id}`;
}

function parseName(name: string): Pick<DeadLetter, 'stream' | 'id'> {
  const [, stream, id] = /^(.+)@([0-9]+-[0-9]+)$/.exec(name) ?? [];
  if (stream === undefined || id === undefined)
    throw new UsageError(`"${name}" is no entry; "dead list" shows their names`);
  return { stream, id };
}

function withDead(context: Context, use: (dead: DeadLetters) => Promise<void>): Promise<void> {
  return withRedis(context, (given) => use(new DeadLetters(given)));
}
