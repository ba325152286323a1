// Writes and reads event rows as RowBinary, column by column (schemas/event-row.ts says which columns there are).
// Ingest writes them, the store pipeline checks that each row ends where its summary says, a verification of the audit
// log cuts them apart.
// Failure: bytes that are no row throw RowBinaryError, where not said otherwise.
import {
  EVENT_COLUMNS,
  type EventColumn,
  type EventColumnKind,
  OUTCOME_VALUE,
  type RowValues,
} from '../../schemas/event-row.ts';
import { RowBinaryError, RowBinaryReader, type RowBinaryWriter } from './row-binary.ts';

const OUTCOMES = Object.keys(OUTCOME_VALUE) as (keyof typeof OUTCOME_VALUE)[];

export function writeEventRow(writer: RowBinaryWriter, row: RowValues): void {
  for (const { name, kind } of EVENT_COLUMNS) writeColumn(writer, kind, row[name]);
}

export function writeColumn(writer: RowBinaryWriter, kind: EventColumnKind, value: RowValues[EventColumn]): void {
  switch (kind) {
    case 'ascii':
      writer.ascii(value as string);
      break;
    case 'text':
      writer.text(value as string);
      break;
    case 'int64':
      writer.int64(value as number);
      break;
    case 'uint16':
      writer.uint16(value as number);
      break;
    case 'nullableInt64':
      writer.nullableInt64(value as number | null);
      break;
    default:
      writer.byte(OUTCOME_VALUE[value as RowValues['outcome']]);
  }
}

/** Whether the row's columns end where it ends. */
export function isWholeRow(row: Buffer): boolean {
  const reader = new RowBinaryReader(row);
  try {
    for (const { kind } of EVENT_COLUMNS) skipColumn(reader, kind);
    return reader.done;
  } catch (error) {
    if (error instanceof RowBinaryError) return false;
    throw error;
  }
}

/** Passes over one row and returns the columns that are wanted; the others are not decoded. */
export function readEventRow<Name extends EventColumn>(
  reader: RowBinaryReader,
  wanted: ReadonlySet<Name>,
): Pick<RowValues, Name> {
  const row: Partial<Record<EventColumn, RowValues[EventColumn]>> = {};
  for (const { name, kind } of EVENT_COLUMNS) {
    if (wanted.has(name as Name)) row[name] = readColumn(reader, kind);
    else skipColumn(reader, kind);
  }
  return row as Pick<RowValues, Name>;
}

/** The bytes of one row's payload, not copied. */
export function payloadOf(row: Buffer): Buffer {
  const reader = new RowBinaryReader(row);
  for (const { name, kind } of EVENT_COLUMNS) {
    if (name === 'payload') break;
    skipColumn(reader, kind);
  }
  return reader.textBytes();
}

function readColumn(reader: RowBinaryReader, kind: EventColumnKind): RowValues[EventColumn] {
  switch (kind) {
    case 'ascii':
    case 'text':
      return reader.text();
    case 'int64':
      return reader.int64();
    case 'uint16':
      return reader.uint16();
    case 'nullableInt64':
      return reader.nullableInt64();
    default:
      return outcomeOf(reader.byte());
  }
}

function skipColumn(reader: RowBinaryReader, kind: EventColumnKind): void {
  if (kind === 'ascii' || kind === 'text') reader.skipText();
  else if (kind === 'int64') reader.skipInt64();
  else readColumn(reader, kind);
}

function outcomeOf(value: number): RowValues['outcome'] {
  const outcome = OUTCOMES.find((name) => OUTCOME_VALUE[name] === value);
  if (outcome === undefined) throw new RowBinaryError(`no outcome has the value ${value}`);
  return outcome;
}
