// Secrets by which alerts' webhooks and outgoing feeds are signed: 32 random bytes, as Standard Webhooks has them.
// Invariant: one that is replaced signs beside the new one for a day, so that a receiver can be changed meanwhile.
import { randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;
/** For so long a secret that was replaced signs beside the new one: time to change it where it is verified. */
const RETIRED_MS = 24 * 3_600_000;
/** Replaced ones that still sign, the newest: each is another signature in a header. */
const RETIRED_MAX = 3;

/** `retired`: until when each still signs, epoch ms. */
type Signing = { secret: string; retired?: { secret: string; until: number }[] };

export function newSecret(): string {
  return `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;
}

export function rotatedSecret({ secret, retired = [] }: Signing, at: number): Required<Signing> {
  const kept = [{ secret, until: at + RETIRED_MS }, ...retired.filter(({ until }) => until > at)];
  return { secret: newSecret(), retired: kept.slice(0, RETIRED_MAX) };
}
