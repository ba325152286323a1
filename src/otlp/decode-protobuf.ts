// Reads the requests of OTLP (spans, log records) in protobuf's binary form (opentelemetry-proto, trace/v1 and logs/v1;
// in the judging thread, before the dialects). Only what dialects use is kept.
// Invariant: no more work than linear in the bytes; a message is read within its own bounds.
// Failure: what is cut off, has a wire type that its field does not have, or is beyond a bound throws Undecodable, and
// no span of it is used; within a span, whose end is known, it is that span's alone.
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { spanOfRecord } from './log-records.ts';
import {
  ATTRIBUTES_MAX,
  type Attributes,
  AttributesInOrder,
  type AttributeValue,
  addSpan,
  DEPTH_MAX,
  type DecodedSpans,
  doubleOf,
  integerOf,
  msOfNanos,
  type OtlpSignal,
  rejectFrom,
  type SpanEvent,
  sharedFault,
  shortened,
  type TraceSpan,
  tooMany,
  Undecodable,
} from './span.ts';

/** Throws Undecodable. Of metrics nothing is read but whether they are there. */
export function decodeProtobuf(body: Uint8Array, signal: OtlpSignal = 'traces'): DecodedSpans {
  const decoded: DecodedSpans = { spans: [], faults: [] };
  const form = FORMS[signal];
  inWords(`it is no ${form.message} in protobuf`, () => readRequest(new BinaryReader(body), form, decoded));
  return decoded;
}

/** How the messages are called; they have the same numbers in all signals. */
type Form = { message: string; names: readonly [resource: string, scope: string, one: string]; read?: Read };
type Read = (reader: BinaryReader, end: number, of: { path: string; resource: Attributes }) => TraceSpan;

const FORMS: Record<OtlpSignal, Form> = {
  traces: { message: 'ExportTraceServiceRequest', names: ['resourceSpans', 'scopeSpans', 'spans'], read: readSpan },
  logs: { message: 'ExportLogsServiceRequest', names: ['resourceLogs', 'scopeLogs', 'logRecords'], read: readRecord },
  metrics: { message: 'ExportMetricsServiceRequest', names: ['resourceMetrics', 'scopeMetrics', 'metrics'] },
};

/** `what`: is said of faults that the reader of protobuf's primitives finds. */
function inWords<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof Undecodable) throw cause;
    throw new Undecodable(`${what}: ${(cause as Error).message}`, { cause });
  }
}

type Fields = Record<number, [WireType, (reader: BinaryReader) => unknown]>;

/** Calls a field's reader for each time that it is there. `strict`: in this message an unknown field is a mistake. */
function readFields(reader: BinaryReader, end: number, fields: Fields, strict?: string): void {
  while (reader.pos < end) {
    const [number, type] = reader.tag();
    const field = fields[number];
    if (field === undefined) {
      if (strict !== undefined) throw new Undecodable(`there is no field ${number} in an ${strict}`);
      reader.skip(type, number);
    } else if (field[0] === type) field[1](reader);
    else throw new Undecodable(`field ${number} has wire type ${type}`);
    if (reader.pos > end) throw new Undecodable('a message is longer than what it is in');
  }
}

/** A message within another: where it ends. */
function endOf(reader: BinaryReader): number {
  const length = reader.uint32();
  const end = reader.pos + length;
  if (end > reader.len) throw new Undecodable('it is cut off');
  return end;
}

const { Varint, Bit64, LengthDelimited } = WireType;

function readRequest(reader: BinaryReader, form: Form, decoded: DecodedSpans): void {
  let index = 0;
  const read = (inner: BinaryReader) => {
    if (form.read === undefined) inner.skip(LengthDelimited);
    else readResource(inner, `/${form.names[0]}/${index++}`, { form, decoded });
  };
  readFields(reader, reader.len, { 1: [LengthDelimited, read] }, form.message);
}

/** Scope spans had another number for a while. */
const SCOPE_SPANS_BEFORE = 1000;

function readResource(reader: BinaryReader, path: string, { form, decoded }: Omit<Within, 'resource'>): void {
  const first = decoded.spans.length;
  // Its resource may come behind its spans.
  const resource = new AttributesInOrder();
  let fault: string | undefined;
  let index = 0;
  const scopeSpans: Fields[number] = [
    LengthDelimited,
    (inner) =>
      readScope(inner, `${path}/${form.names[1]}/${index++}`, { form, resource: resource.attributes, decoded }),
  ];
  const attributes = { 1: attributesInto(resource, `${path}/resource`) };
  readFields(reader, endOf(reader), {
    1: [
      LengthDelimited,
      (inner) => {
        fault ??= faultWithin(inner, endOf(inner), `${path}/resource`, attributes);
      },
    ],
    2: scopeSpans,
    [SCOPE_SPANS_BEFORE]: scopeSpans,
  });
  fault ??= sharedFault(resource.attributes, `${path}/resource`);
  if (fault !== undefined) rejectFrom(decoded, first, fault);
}

/** The place of the message that is read. */
let place: string;

/** The fault within a message that ends at `end`; undefined: none. The reader goes on behind the message. */
function faultWithin(reader: BinaryReader, end: number, path: string, fields: Fields): string | undefined {
  place = path;
  try {
    inWords(path, () => readFields(reader, end, fields));
    return undefined;
  } catch (error) {
    reader.pos = end;
    const { message } = error as Undecodable;
    return message.startsWith(path) ? message : `${path}: ${message}`;
  }
}

type Within = { form: Form; resource: Attributes; decoded: DecodedSpans };

function readScope(reader: BinaryReader, path: string, { form, resource, decoded }: Within): void {
  const first = decoded.spans.length;
  let scope = '';
  let fault: string | undefined;
  let index = 0;
  const name: Fields[number] = [
    LengthDelimited,
    (inner) => {
      scope = shortened(inner.string());
    },
  ];
  const addNext = (inner: BinaryReader) => {
    const [end, at] = [endOf(inner), `${path}/${form.names[2]}/${index++}`];
    addSpan(decoded, () => form.read!(inner, end, { path: at, resource }));
  };
  readFields(reader, endOf(reader), {
    1: [
      LengthDelimited,
      (inner) => {
        fault ??= faultWithin(inner, endOf(inner), `${path}/scope`, { 1: name });
      },
    ],
    2: [LengthDelimited, addNext],
  });
  for (const span of decoded.spans.slice(first)) span.scope = scope;
  if (fault !== undefined) rejectFrom(decoded, first, fault);
}

/** `body`, `observedMs`: of a log record alone. */
type Unfinished = TraceSpan & { events: SpanEvent[]; body?: AttributeValue; observedMs?: number };

/** The span that is read; its fields' readers are made once. */
let span: Unfinished;
let read: AttributesInOrder;

function readSpan(...args: Parameters<Read>): TraceSpan {
  return Object.assign(readInto(SPAN, ...args), read.counted());
}

function readRecord(...args: Parameters<Read>): TraceSpan {
  const {
    name,
    startMs,
    traceId,
    spanId,
    attributes,
    resource,
    scope,
    body,
    observedMs = 0,
  } = readInto(RECORD, ...args);
  const { path: place } = args[2];
  const at = { eventName: name, timeMs: startMs, observedMs };
  return spanOfRecord({ ...{ traceId, spanId, attributes, resource, scope, body, place }, ...at });
}

function readInto(
  fields: Fields,
  reader: BinaryReader,
  end: number,
  { path, resource }: Parameters<Read>[2],
): Unfinished {
  read = new AttributesInOrder();
  span = {
    ...{ traceId: '', spanId: '', parentSpanId: '', name: '', startMs: 0, endMs: 0, scope: '', place: path },
    ...{ attributes: read.attributes, events: [], isError: false, statusMessage: '', resource },
  };
  const fault = faultWithin(reader, end, path, fields);
  if (fault !== undefined) throw new Undecodable(fault);
  return span;
}

const text = (name: 'name' | 'statusMessage'): Fields[number] => [
  LengthDelimited,
  (reader) => {
    span[name] = reader.string();
  },
];
const id = (name: 'traceId' | 'spanId' | 'parentSpanId'): Fields[number] => [
  LengthDelimited,
  (reader) => {
    span[name] = hexOf(reader.bytes());
  },
];
const time = (name: 'startMs' | 'endMs' | 'observedMs'): Fields[number] => [
  Bit64,
  (reader) => {
    span[name] = msOf(reader);
  },
];

const SPAN: Fields = {
  1: id('traceId'),
  2: id('spanId'),
  4: id('parentSpanId'),
  5: text('name'),
  7: time('startMs'),
  8: time('endMs'),
  9: [LengthDelimited, (reader) => readAttribute(reader, read, place)],
  11: [LengthDelimited, (reader) => span.events.push(readEvent(reader))],
  15: [LengthDelimited, (reader) => readFields(reader, endOf(reader), STATUS)],
};
const STATUS_ERROR = 2;
const STATUS: Fields = {
  2: text('statusMessage'),
  3: [
    Varint,
    (reader) => {
      span.isError = reader.uint32() === STATUS_ERROR;
    },
  ],
};

/** The fields of a log record; it is read as a span whose name is that of the event. */
const RECORD: Fields = {
  1: time('startMs'),
  5: [
    LengthDelimited,
    (reader) => {
      span.body = readValue(reader, 0);
    },
  ],
  6: [LengthDelimited, (reader) => readAttribute(reader, read, place)],
  9: id('traceId'),
  10: id('spanId'),
  11: time('observedMs'),
  12: text('name'),
};

function readEvent(reader: BinaryReader): SpanEvent {
  if (span.events.length >= ATTRIBUTES_MAX) throw tooMany(`${place}/events`, 'events');
  const own = new AttributesInOrder();
  const event = { name: '', timeMs: 0, attributes: own.attributes };
  const setTime = (inner: BinaryReader) => {
    event.timeMs = msOf(inner);
  };
  const setName = (inner: BinaryReader) => {
    event.name = inner.string();
  };
  readFields(reader, endOf(reader), {
    1: [Bit64, setTime],
    2: [LengthDelimited, setName],
    3: attributesInto(own, `${place}/events/${span.events.length}`),
  });
  return event;
}

function attributesInto(into: AttributesInOrder, path: string): Fields[number] {
  return [LengthDelimited, (reader) => readAttribute(reader, into, path)];
}

function readAttribute(reader: BinaryReader, into: AttributesInOrder, path: string): void {
  const [key, value] = readKeyValue(reader, 0);
  into.add(key, value, path);
}

function readKeyValue(reader: BinaryReader, depth: number): [key: string, value: AttributeValue] {
  const end = endOf(reader);
  let key = '';
  let value: AttributeValue = null;
  // Written out: a span has dozens, and closures for each would be a third of the work.
  while (reader.pos < end) {
    const [number, type] = reader.tag();
    if (number === 1 && type === LengthDelimited) key = reader.string();
    else if (number === 2 && type === LengthDelimited) value = readValue(reader, depth);
    else if (number === 1 || number === 2) throw new Undecodable(`field ${number} has wire type ${type}`);
    else reader.skip(type, number);
  }
  if (reader.pos > end) throw new Undecodable('a message is longer than what it is in');
  return [key, value];
}

/** The wire type of each kind of value. */
const VALUE_TYPES: readonly (WireType | undefined)[] = [
  undefined,
  ...[LengthDelimited, Varint, Varint, Bit64, LengthDelimited, LengthDelimited, LengthDelimited],
];

function readValue(reader: BinaryReader, depth: number): AttributeValue {
  if (depth > DEPTH_MAX) throw new Undecodable(`a value is nested deeper than ${DEPTH_MAX}`);
  const end = endOf(reader);
  let value: AttributeValue = null;
  let isUnknown = false;
  while (reader.pos < end) {
    const [number, type] = reader.tag();
    const wanted = VALUE_TYPES[number];
    if (wanted === undefined) {
      reader.skip(type, number);
      isUnknown = true;
      continue;
    }
    isUnknown = false;
    if (wanted !== type) throw new Undecodable(`a value of kind ${number} has wire type ${type}`);
    value = readKind(reader, number, depth);
  }
  if (reader.pos > end) throw new Undecodable('a message is longer than what it is in');
  if (isUnknown && value === null) throw new Undecodable('a value is of no kind that is known');
  return value;
}

function readKind(reader: BinaryReader, kind: number, depth: number): AttributeValue {
  switch (kind) {
    case 1:
      return reader.string();
    case 2:
      return reader.bool();
    case 3:
      return integerOf(BigInt(reader.int64()));
    case 4:
      return doubleOf(reader.double());
    case 5:
      return readArray(reader, depth);
    case 6:
      return readObject(reader, depth);
    default:
      return Buffer.from(reader.bytes()).toString('base64');
  }
}

function readArray(reader: BinaryReader, depth: number): AttributeValue[] {
  const values: AttributeValue[] = [];
  readFields(reader, endOf(reader), {
    1: [LengthDelimited, (inner) => values.push(readValue(inner, depth + 1))],
  });
  return values;
}

function readObject(reader: BinaryReader, depth: number): AttributeValue {
  const entries: [string, AttributeValue][] = [];
  readFields(reader, endOf(reader), {
    1: [LengthDelimited, (inner) => entries.push(readKeyValue(inner, depth + 1))],
  });
  if (entries.length > ATTRIBUTES_MAX) throw tooMany(place, 'members in one value');
  return Object.fromEntries(entries);
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

function msOf(reader: BinaryReader): number {
  return msOfNanos(BigInt(reader.fixed64()));
}
