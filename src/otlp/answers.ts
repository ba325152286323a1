// What a request of OTLP is answered with, in the form that it came in: Export…ServiceResponse of its signal, or
// google.rpc.Status where it is refused (between the intake, or whatever refuses a request, and the transport).
// Pure.
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { ServiceError } from '../common/errors.ts';
import type { OtlpSignal } from './span.ts';

/** The forms in which spans come. */
export type SpansForm = 'protobuf' | 'json';

/** The outcome of a request's spans. `reasons`: why some were rejected. */
export type SpansOutcome = { spans: number; ignored: number; rejected: number; reasons: readonly string[] };

const TYPES: Record<SpansForm, string> = { protobuf: 'application/x-protobuf', json: 'application/json' };

export function typeOf(form: SpansForm): string {
  return TYPES[form];
}

/** undefined: neither form. */
export function formOf(contentType: string): SpansForm | undefined {
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase();
  return (['protobuf', 'json'] as const).find((form) => TYPES[form] === type);
}

/** In JSON the member has a name of its own for each signal; in protobuf they have one number. */
const REJECTED: Record<OtlpSignal, string> = {
  traces: 'rejectedSpans',
  logs: 'rejectedLogRecords',
  metrics: 'rejectedDataPoints',
};

export function successBody({ rejected, reasons }: SpansOutcome, form: SpansForm, signal: OtlpSignal): string | Buffer {
  const message = reasons.join('; ');
  if (form === 'json')
    return rejected === 0
      ? '{}'
      : JSON.stringify({ partialSuccess: { [REJECTED[signal]]: String(rejected), errorMessage: message } });
  if (rejected === 0) return Buffer.alloc(0);
  const writer = new BinaryWriter().tag(1, WireType.LengthDelimited).fork();
  writer.tag(1, WireType.Varint).int64(rejected).tag(2, WireType.LengthDelimited).string(message);
  return Buffer.from(writer.join().finish());
}

/** Codes of google.rpc.Code by status. */
const RPC_CODES: Record<number, number> = {
  400: 3,
  401: 16,
  403: 7,
  404: 5,
  405: 12,
  409: 10,
  411: 3,
  413: 8,
  415: 3,
  429: 8,
  503: 14,
};
const RPC_INTERNAL = 13;

/** Exporters drop what is too large; by default SDKs send 512 spans at once. */
const FEWER = 'Have the exporter send fewer spans at once: OTEL_BSP_MAX_EXPORT_BATCH_SIZE.';

export function statusBody({ status, message: what }: ServiceError, form: SpansForm): string | Buffer {
  const code = RPC_CODES[status] ?? RPC_INTERNAL;
  const message = status === 413 ? `${what} ${FEWER}` : what;
  if (form === 'json') return JSON.stringify({ code, message });
  const writer = new BinaryWriter().tag(1, WireType.Varint).int32(code);
  return Buffer.from(writer.tag(2, WireType.LengthDelimited).string(message).finish());
}
