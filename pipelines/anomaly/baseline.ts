// The baseline: what is kept of one agent's history, of fixed size (read and changed by windows.ts and the three
// detectors). Plain numbers and one short list; nothing in it grows with the number of events. Serialised it is
// BASELINE_BYTES long. Times are whole seconds of our arrival clock (`receivedAt`); a slice is ten of them.
// Invariant: what is not serialised can be worked out from what is.
// A record of another version decodes to null: the agent's history begins again rather than be misread.

const BASELINE_VERSION = 1;

/** The newest slices: the current one and the five before it, so between 50 and 60 s. */
export const SLICES = 6;
export const SLICE_SECONDS = 10;
/** Largest log token counts kept of each of two generations: enough for the tail's slope to be known to a sixth. */
export const TOPS = 40;
/** Token spikes held back before they are believed (token-spike.ts). */
export const HELD = 5;
const HOURS = 24;

/** Whole numbers that a 32-bit float cannot hold: seconds since the epoch, and the entry that was counted last. */
const WIDE = [
  'second',
  'hour',
  'volumeSince',
  'errorSince',
  'tokensSince',
  'generationSince',
  'heldAt',
  'entryMs',
  'entrySeq',
] as const;

const NARROW = [
  // volume: slices taught, their fast mean, slow mean and mean squared deviation; the hour being watched
  'slices',
  'mean',
  'slowMean',
  'slowSquares',
  'hourSum',
  'hourSlices',
  // volume episode: slices in a row that were normal, its slices and events, slices not to be taught after it
  'volumeNormal',
  'volumeSlices',
  'volumeSum',
  'volumeSquares',
  'volumeSkip',
  // errors (all decaying): events and errors taught, their squared deviation, the variance expected of them alone and
  // in pairs
  'events',
  'errors',
  'errorSquares',
  'errorVariance',
  'errorPairs',
  // error episode: looks in a row that were normal and events in them, its events and errors, slices not to be taught
  'errorNormal',
  'errorNormalEvents',
  'episodeEvents',
  'episodeErrors',
  'errorSkip',
  // tokens: completions seen, mean and mean absolute deviation of their logs, completions of both generations, spikes
  // held
  'completions',
  'tokenMean',
  'tokenSpread',
  'generation',
  'generationBefore',
  'heldCount',
] as const;

const LIST = {
  seconds: SLICE_SECONDS,
  sliceEvents: SLICES,
  sliceErrors: SLICES,
  hours: HOURS,
  tops: TOPS,
  topsBefore: TOPS,
  held: HELD,
} as const;

/** Where each part of the list begins. */
export const AT = {
  seconds: 0,
  sliceEvents: 10,
  sliceErrors: 16,
  hours: 22,
  tops: 46,
  topsBefore: 86,
  held: 126,
} as const;
const LIST_LENGTH = Object.values(LIST).reduce((sum, length) => sum + length, 0);

const WIDE_AT = 1;
const NARROW_AT = WIDE_AT + 8 * WIDE.length;
const LIST_AT = NARROW_AT + 4 * NARROW.length;
/** 705 bytes. */
export const BASELINE_BYTES = LIST_AT + 4 * LIST_LENGTH;

export class Baseline {
  // -- time: the newest second, and the hour (since the epoch) whose level is being watched
  second = 0;
  hour = 0;

  // -- volume
  slices = 0;
  mean = 0;
  slowMean = 0;
  slowSquares = 0;
  hourSum = 0;
  hourSlices = 0;
  /** Second at which the episode began; 0: none. */
  volumeSince = 0;
  volumeNormal = 0;
  volumeSlices = 0;
  volumeSum = 0;
  volumeSquares = 0;
  /** In the first minute all slices but one lie before the agent's first event. */
  volumeSkip = SLICES - 1;

  // -- errors
  events = 0;
  errors = 0;
  errorSquares = 0;
  errorVariance = 0;
  errorPairs = 0;
  errorSince = 0;
  errorNormal = 0;
  errorNormalEvents = 0;
  episodeEvents = 0;
  episodeErrors = 0;
  errorSkip = 0;

  // -- tokens
  completions = 0;
  tokenMean = 0;
  tokenSpread = 0;
  /** Second of the first completion, and of the first of this generation. */
  tokensSince = 0;
  generationSince = 0;
  generation = 0;
  generationBefore = 0;
  heldCount = 0;
  heldAt = 0;

  // -- the last stream entry that is included
  entryMs = 0;
  entrySeq = 0;

  readonly list = new Float32Array(LIST_LENGTH);

  // -- not serialised
  /** Events of the last ten seconds. */
  recent = 0;
  /** Count from which volume is inspected again; 0: not worked out. */
  volumeLook = 0;
  /** Log tokens over which a completion is a spike; NaN: not worked out. */
  tokenLimit = Number.NaN;
  /** Completions at which it is worked out again. */
  tokenLimitUntil = 0;
  /** Events in a row that lie too far back to be counted. */
  behind = 0;

  constructor() {
    this.list.fill(-1, AT.hours, AT.hours + HOURS);
  }
}

export function encodeBaseline(baseline: Baseline): Buffer {
  const bytes = Buffer.allocUnsafe(BASELINE_BYTES);
  bytes[0] = BASELINE_VERSION;
  WIDE.forEach((name, i) => {
    bytes.writeDoubleLE(baseline[name], WIDE_AT + 8 * i);
  });
  NARROW.forEach((name, i) => {
    bytes.writeFloatLE(baseline[name], NARROW_AT + 4 * i);
  });
  for (let i = 0; i < LIST_LENGTH; i++) bytes.writeFloatLE(baseline.list[i]!, LIST_AT + 4 * i);
  return bytes;
}

/** null: not a record of this version. */
export function decodeBaseline(bytes: Buffer): Baseline | null {
  if (bytes.length !== BASELINE_BYTES || bytes[0] !== BASELINE_VERSION) return null;
  const baseline = new Baseline();
  WIDE.forEach((name, i) => {
    baseline[name] = bytes.readDoubleLE(WIDE_AT + 8 * i);
  });
  NARROW.forEach((name, i) => {
    baseline[name] = bytes.readFloatLE(NARROW_AT + 4 * i);
  });
  for (let i = 0; i < LIST_LENGTH; i++) baseline.list[i] = bytes.readFloatLE(LIST_AT + 4 * i);
  for (let i = 0; i < SLICE_SECONDS; i++) baseline.recent += baseline.list[AT.seconds + i]!;
  return baseline;
}
