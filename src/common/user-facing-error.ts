// Errors for the person at the terminal: the message is a sentence about something that person can change. The command
// line and the programs that are started by hand print it (src/process/report-failure.ts). Any other error is a bug and
// is shown whole.

export class UserFacingError extends Error {
  override name = 'UserFacingError';
}

/** It is not said where a store is. */
export class AddressMissing extends UserFacingError {
  override name = 'AddressMissing';
}

/** The HTTP server that was asked for cannot serve here. */
export class TransportRefused extends UserFacingError {
  override name = 'TransportRefused';
}
