// What every command of the command line is given, and how it says that it cannot continue.
// Commands that need Redis or ClickHouse take the addresses from the settings or, where those are not set, from the
// Gatehouse that runs on GATEHOUSE_DATA_DIR: so `gatehouse account create` works beside `npm start` without a setting.
// Failure: a UsageError shows how to call the command (status 2); anything else is one sentence (status 1).

import { serviceAddress } from '../../clients/typescript/src/transport.ts';
import { AddressMissing, UserFacingError } from '../common/user-facing-error.ts';
import { StateDir } from '../embedded/state-dir.ts';
import { type Config, clientSettings } from '../process/config.ts';

export type Context = {
  config: Config;
  /** Positional arguments behind the command's own words. */
  args: readonly string[];
  options: Readonly<Record<string, string | boolean | undefined>>;
  /** For the result, on standard output; ends the line. */
  print: (line: string) => void;
};

export type Command = (context: Context) => Promise<void>;

export class UsageError extends UserFacingError {
  override name = 'UsageError';
}

/** The settings with the addresses of both stores in them. Throws AddressMissing. */
export function withAddresses(config: Config): Config {
  if (config.redisUrl !== undefined && config.clickhouseUrl !== undefined) return config;
  const state = new StateDir(config.dataDir);
  const runtime = state.readRuntime();
  if (runtime === undefined) {
    throw new AddressMissing(
      `no Gatehouse runs on ${state.path}. Start one there (npm start), name its folder in GATEHOUSE_DATA_DIR, ` +
        'or set GATEHOUSE_REDIS_URL and GATEHOUSE_CLICKHOUSE_URL.',
    );
  }
  // With an address goes what its data is named by: the running service may have other settings than this command.
  const { redisUrl, redisCluster, redisPrefix, partitions, clickhouseUrl, clickhouseDatabase } = runtime;
  const redis = config.redisUrl === undefined ? { redisUrl, redisCluster, redisPrefix, partitions } : {};
  const clickhouse = config.clickhouseUrl === undefined ? { clickhouseUrl, clickhouseDatabase } : {};
  return { ...config, ...redis, ...clickhouse };
}

/** A whole number within bounds. */
export function wholeNumber(text: string, name: string, bounds: { min: number; max: number }): number {
  const value = /^[0-9]{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= bounds.min && value <= bounds.max) return value;
  throw new UsageError(`--${name} takes a whole number from ${bounds.min} to ${bounds.max}`);
}

/**
 * The service that a command asks as its client: its address, behind which a path of the service stands, and the key.
 * `named`: the address by an option. Throws UsageError.
 */
export function serviceToAsk(named: string | boolean | undefined): { url: string; key: string } {
  const { url: set, key } = clientSettings();
  const url = named ?? set;
  if (typeof url !== 'string') throw new UsageError('GATEHOUSE_URL is not set');
  if (key === undefined) throw new UsageError('GATEHOUSE_API_KEY is not set');
  try {
    return { url: serviceAddress(named === undefined ? 'GATEHOUSE_URL' : '--url', url), key };
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}
