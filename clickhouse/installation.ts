// Which installation a database belongs to: its id, and what must never change once there are events: the number of
// partitions, and the prefix of its keys in Redis. It is a setting among the migrations (version 0), written under
// their lock when the tables are made. Redis has the same (src/stores/installation.ts), which compares them.
import { randomUUID } from 'node:crypto';
import { type ClickHouse, ClickHouseError } from './client.ts';

export type Installation = { id: string; partitions: number; prefix: string };

export const INSTALLATION_NAME = 'installation';

/** A row of the table of migrations. */
export function installationRow(installation: Installation): { version: number; name: string; checksum: string } {
  return { version: 0, name: INSTALLATION_NAME, checksum: JSON.stringify(installation) };
}

/** The installation for a database that has none; a new id where Redis belongs to none yet. */
export type WantedInstallation = Omit<Installation, 'id'> & { id?: string | undefined };

export function newInstallation({ id = `ins_${randomUUID()}`, partitions, prefix }: WantedInstallation): Installation {
  return { id, partitions, prefix };
}

/** undefined: the database has none yet, or no tables. Throws ClickHouseError. `signal` ends the question. */
export async function readInstallation(clickhouse: ClickHouse, signal: AbortSignal): Promise<Installation | undefined> {
  try {
    const [row] = await clickhouse.query<{ checksum: string }>(
      `SELECT checksum FROM migrations FINAL WHERE version = 0 AND name = '${INSTALLATION_NAME}'`,
      {},
      { signal },
    );
    return row && (JSON.parse(row.checksum) as Installation);
  } catch (error) {
    if (error instanceof ClickHouseError && error.isNotMigrated) return undefined;
    throw error;
  }
}

/** Makes a database that is younger than its Redis part of the Redis's installation. */
export async function replaceInstallation(clickhouse: ClickHouse, installation: Installation): Promise<void> {
  await clickhouse.insertRows('migrations', [installationRow(installation)]);
}
