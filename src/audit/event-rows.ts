// Cuts RowBinary of event rows apart (a verification reads them back as they were inserted).
// Failure: bytes that are no rows throw RowBinaryError.
import { readEventRow } from '../common/event-row-codec.ts';
import { RowBinaryReader } from '../common/row-binary.ts';
import { eventLeaf } from './hash.ts';
import type { SeenRow } from './ledger.ts';

const WANTED = new Set(['id', 'agent_id', 'received_at'] as const);

export function cutEventRows(bytes: Buffer, onRow: (row: SeenRow) => void): void {
  const reader = new RowBinaryReader(bytes);
  while (!reader.done) {
    const start = reader.at;
    const { id, agent_id: agent, received_at: atMs } = readEventRow(reader, WANTED);
    onRow({ id, agent, atMs, leaf: eventLeaf(bytes.subarray(start, reader.at)) });
  }
}
