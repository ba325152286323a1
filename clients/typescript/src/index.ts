// What the package @gatehouse/client has: the client, what it decides, and what it throws. Adapters are subpaths.
export type { PolicyMatch, Submission } from './api.ts';
export type { Decision } from './decision.ts';
export {
  ApiError,
  ApprovalDeniedError,
  ApprovalPendingError,
  BlockedError,
  GatehouseError,
  NotJsonError,
  UnavailableError,
} from './errors.ts';
export {
  type CallOptions,
  type DecisionRequest,
  Gatehouse,
  type GatehouseOptions,
  type GuardOptions,
  type OnUnavailable,
  type Recorded,
} from './gatehouse.ts';
export { JsonText } from './json.ts';
export type { Counts } from './recorder.ts';
