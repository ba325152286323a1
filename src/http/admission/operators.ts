// Who of the operators calls (`/v1/admin`, docs/operators.md; beside authenticate.ts, which is for keys of accounts).
// The keys are those of the setting, known by their SHA-256 alone and compared in constant time: neither the answer nor
// its time tells how much of a key was right.
// Invariant: a missing, malformed or unknown key, a key of an account and a service without operators get the very same
// answer. How often an address may try is bounded before this (address-limit.ts).
import { timingSafeEqual } from 'node:crypto';
import { ServiceError } from '../../common/errors.ts';
import { operatorKeysOf } from '../../process/operator-keys.ts';
import { sha256Of } from '../../registry/accounts/api-key-text.ts';
import { bearerOf } from './authenticate.ts';

export class Operators {
  readonly #known: { name: string; sha256: Buffer }[];

  /** `setting`: GATEHOUSE_OPERATOR_KEYS; undefined: there are none. */
  constructor(setting: string | undefined) {
    const keys = setting === undefined ? [] : operatorKeysOf(setting);
    this.#known = keys.map(({ name, key }) => ({ name, sha256: digestOf(key) }));
  }

  /** The name of the operator. Throws ServiceError invalid_token. */
  nameOf(authorization: string): string {
    const sha256 = digestOf(bearerOf(authorization) ?? '');
    const found = this.#known.filter((one) => timingSafeEqual(one.sha256, sha256));
    if (found.length !== 1) throw new ServiceError('invalid_token', "This needs an operator's key of this service.");
    return found[0]!.name;
  }
}

function digestOf(key: string): Buffer {
  return Buffer.from(sha256Of(key), 'hex');
}
