// Requests of OTLP in JSON, and in protobuf as protobufjs writes them from their JSON form: a second reading of
// opentelemetry-proto for tests.
import protobuf from 'protobufjs';

const { root } = protobuf.parse(`syntax = "proto3";
  message Request { repeated ResourceSpans resourceSpans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scopeSpans = 2; string schemaUrl = 3; }
  message Resource { repeated KeyValue attributes = 1; uint32 droppedAttributesCount = 2; }
  message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
  message Scope { string name = 1; string version = 2; repeated KeyValue attributes = 3; }
  message Span {
    bytes traceId = 1; bytes spanId = 2; string traceState = 3; bytes parentSpanId = 4; string name = 5; int32 kind = 6;
    fixed64 startTimeUnixNano = 7; fixed64 endTimeUnixNano = 8; repeated KeyValue attributes = 9;
    repeated Event events = 11; repeated Link links = 13; Status status = 15; fixed32 flags = 16;
  }
  message LogsRequest { repeated ResourceLogs resourceLogs = 1; }
  message ResourceLogs { Resource resource = 1; repeated ScopeLogs scopeLogs = 2; }
  message ScopeLogs { Scope scope = 1; repeated LogRecord logRecords = 2; }
  message LogRecord {
    fixed64 timeUnixNano = 1; int32 severityNumber = 2; string severityText = 3; AnyValue body = 5;
    repeated KeyValue attributes = 6; fixed32 flags = 8; bytes traceId = 9; bytes spanId = 10;
    fixed64 observedTimeUnixNano = 11; string eventName = 12;
  }
  message Event { fixed64 timeUnixNano = 1; string name = 2; repeated KeyValue attributes = 3; }
  message Link { bytes traceId = 1; bytes spanId = 2; }
  message Status { string message = 2; int32 code = 3; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue { oneof value {
    string stringValue = 1; bool boolValue = 2; int64 intValue = 3; double doubleValue = 4; ArrayValue arrayValue = 5;
    KeyValueList kvlistValue = 6; bytes bytesValue = 7; } }
  message ArrayValue { repeated AnyValue values = 1; }
  message KeyValueList { repeated KeyValue values = 1; }`);

type Json = Record<string, unknown>;

/** Encodes OTLP's JSON form; ids are hex there and base64 in protobuf's own JSON. */
export function encode(request: Json, message: 'Request' | 'LogsRequest' = 'Request'): Buffer {
  const type = root.lookupType(message);
  const withBytes = JSON.parse(JSON.stringify(request), (key, value) =>
    /^(traceId|spanId|parentSpanId)$/.test(key) ? Buffer.from(value as string, 'hex').toString('base64') : value,
  );
  return Buffer.from(type.encode(type.fromObject(withBytes)).finish());
}

/** In OTLP's JSON form. */
export function anyValue(value: unknown): Json {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number') return { intValue: String(value) };
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } };
  return { kvlistValue: { values: attributesOf(value as Json) } };
}

export function attributesOf(of: Json): Json[] {
  return Object.entries(of).map(([key, value]) => ({ key, value: anyValue(value) }));
}
