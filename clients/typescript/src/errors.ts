// What a guard throws. Each says in its message what the model, or a person, needs to know.
import type { Decision } from './decision.ts';

export class GatehouseError extends Error {
  override name = 'GatehouseError';
}

/** A policy blocks it. It was recorded, and must not be done. */
export class BlockedError extends GatehouseError {
  override name = 'BlockedError';
  readonly decision: Decision;

  constructor(decision: Decision) {
    super(decision.reason);
    this.decision = decision;
  }

  get eventId(): string | undefined {
    return this.decision.eventId;
  }
}

/** Nobody has decided its approval in the time that it was waited for. */
export class ApprovalPendingError extends BlockedError {
  override name = 'ApprovalPendingError';
}

/** Its approval was denied, or not given in time. */
export class ApprovalDeniedError extends BlockedError {
  override name = 'ApprovalDeniedError';
}

/** No decision could be had within the deadline. Whether the event was recorded is not known. */
export class UnavailableError extends GatehouseError {
  override name = 'UnavailableError';
  /** The service is not to be asked again before. */
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs = 0) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

/** JSON has no form for an argument, so it cannot be judged. Nothing was sent, and nothing was called. */
export class NotJsonError extends GatehouseError {
  override name = 'NotJsonError';
}

/** The service refuses the request, or answers what is none of its answers; sending it again does not help. */
export class ApiError extends GatehouseError {
  override name = 'ApiError';
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}
