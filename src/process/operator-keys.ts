// The keys of operators, as the setting GATEHOUSE_OPERATOR_KEYS has them: `name:key`, separated by commas or lines.
// Used by config.ts, which refuses what is not sound, and by admission, which knows callers by them.
// Invariant: an operator's key begins with `gop_`, which no key of an account does (registry/accounts/api-key-text.ts),
// so neither can ever be taken for the other.

type OperatorKey = { name: string; key: string };

/** 40 characters of hex are 160 bits: tries are hopeless. */
const KEY = 'gop_[A-Za-z0-9_-]{40,200}';
const ONE = `[A-Za-z0-9._@+-]{1,100}:${KEY}`;
/** The form of the setting. */
export const OPERATOR_KEYS = `^${ONE}([,\\s]+${ONE})*$`;

export function operatorKeysOf(text: string): OperatorKey[] {
  return text.split(/[,\s]+/).map((one) => {
    const at = one.indexOf(':');
    return { name: one.slice(0, at), key: one.slice(at + 1) };
  });
}
