// The operators of a policy's conditions: one list for the engine that judges, for the detail of a match, and for
// the API's description.
export const OPERATORS = [
  'eq',
  'ne',
  'in',
  'not_in',
  'gt',
  'gte',
  'lt',
  'lte',
  'contains',
  'starts_with',
  'ends_with',
  'matches',
  'glob',
  'shell',
  'sql',
  'exists',
] as const;
export type Operator = (typeof OPERATORS)[number];

/** Entries of one `shell` or `sql`: each command of an event is held against each. The ready policy has 20. */
export const COMMAND_ENTRIES_MAX = 50;
