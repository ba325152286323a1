// Why the embedded engine does not serve a data directory, in one sentence and as a word for programs.

export class DataDirectoryError extends Error {
  override name = 'DataDirectoryError';
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.refusal = refusal;
  }
}

type Refusal = 'damaged' | 'foreign' | 'newer' | 'busy' | 'unusable';
