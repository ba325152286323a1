// Every setting, in one table: environment variable, schema, default, meaning. Read once at start, frozen, handed down.
// Nothing else reads `process.env`. A bad value stops the start with a sentence that names the variable.
// The table in docs/settings.md is generated from this one, and a test compares the two.

import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { RETENTION_DAYS_MAX } from '../../schemas/retention.ts';
import { isSentinelAddress } from '../common/sentinel-address.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import { type AddressKind, complaintOf, secretsOf } from './addresses.ts';
import { OPERATOR_KEYS, operatorKeysOf } from './operator-keys.ts';

type Setting = {
  env: string;
  schema: Type.TSchema;
  /** As it would be written in the environment; undefined: not set. */
  default: string | undefined;
  description: string;
  secret?: true;
  /** It holds an address, which is taken apart before anything starts. */
  address?: AddressKind;
};

const integer = (minimum: number, maximum: number) => Type.Integer({ minimum, maximum });
const text = (options: Type.TStringOptions = {}) => Type.String(options);
const MiB = 1024 * 1024;
/** All headers of a request; admission counts them, too (src/http/reading/head.ts). */
const HEAD_BYTES_MAX = 16 * 1024;

// biome-ignore format: a setting a line reads as the table that it is
export const SETTINGS = {
  host: { env: 'GATEHOUSE_HOST', schema: text({ minLength: 1 }), default: '127.0.0.1', description: 'Address that the fronts listen on' },
  port: { env: 'GATEHOUSE_PORT', schema: integer(0, 65_535), default: '8080', description: 'Port that the fronts share' },
  metricsPort: { env: 'GATEHOUSE_METRICS_PORT', schema: integer(0, 65_535), default: undefined, description: 'Serve `/metrics` on this port instead of the public one' },
  httpServer: { env: 'GATEHOUSE_HTTP_SERVER', schema: Type.Enum(['auto', 'uws', 'node']), default: 'auto', description: 'HTTP server of the fronts: `uws` (uWebSockets.js), `node` (of Node.js, about half as fast), or `auto`: the first where its binary loads, else the second' },
  metricsAccountsMax: { env: 'GATEHOUSE_METRICS_ACCOUNTS_MAX', schema: integer(0, 10_000), default: undefined, description: 'Accounts with series of their own at `/metrics`, in each front, 8 series each; those beyond it, least recently used first, count under `other`. `0`: all do. Default: 200 with `GATEHOUSE_METRICS_PORT`, else 0, since callers of every account could read it' },
  metricsPoliciesMax: { env: 'GATEHOUSE_METRICS_POLICIES_MAX', schema: integer(0, 100_000), default: undefined, description: 'The same of policies, 3 series each. Default: 1000 with `GATEHOUSE_METRICS_PORT`, else 0' },
  publicUrl: { env: 'GATEHOUSE_PUBLIC_URL', schema: text({ pattern: '^https?://' }), default: undefined, description: 'Address by which people and programs reach the service, with the path that a proxy puts before ours if there is one. The API\'s description names it, and notifications link to it', address: 'public' },
  corsOrigins: { env: 'GATEHOUSE_CORS_ORIGINS', schema: text({ minLength: 1 }), default: undefined, description: 'Origins, separated by commas, whose pages may call the API from a browser, or `*` for all. Default: none', address: 'origins' },
  trustedProxies: { env: 'GATEHOUSE_TRUSTED_PROXIES', schema: text({ minLength: 1 }), default: undefined, description: 'Addresses and networks of your own proxies, separated by commas: of what they hand on, the caller\'s address is read from `X-Forwarded-For`, for the audit log. Default: none, the connection\'s address counts', address: 'networks' },
  fronts: { env: 'GATEHOUSE_FRONTS', schema: integer(1, 64), default: '1', description: 'Front processes that `gatehouse start` runs' },
  backtests: { env: 'GATEHOUSE_BACKTESTS', schema: integer(0, 1), default: '1', description: 'Processes that `gatehouse start` runs to replay policies; with 0 backtests wait for a `gatehouse backtests` that runs elsewhere' },
  dataDir: { env: 'GATEHOUSE_DATA_DIR', schema: text({ minLength: 1 }), default: './data', description: 'Where the embedded engines, the first admin key and, without a mail server, the mails of alerts are kept' },
  bootstrapKey: { env: 'GATEHOUSE_BOOTSTRAP_KEY', schema: text({ pattern: '^(?!gop_)[A-Za-z0-9_-]{32,200}$' }), default: undefined, description: 'Admin key of the account `default`, instead of a made-up one', secret: true },
  operatorKeys: { env: 'GATEHOUSE_OPERATOR_KEYS', schema: text({ pattern: OPERATOR_KEYS, maxLength: 100_000 }), default: undefined, description: 'Keys of operators for `/v1/admin`: `name:key`, separated by commas or lines, where a key is `gop_` and 40 to 200 letters, digits, `_` or `-`. The name stands in the audit log. Default: none', secret: true },
  redisUrl: { env: 'GATEHOUSE_REDIS_URL', schema: text({ pattern: '^(rediss?://|redis[+]sentinel://|unix:)' }), default: undefined, description: 'Redis to use instead of the embedded one; several nodes of a Redis Cluster are separated by commas. Of Redis Sentinel `redis+sentinel://host:port,host:port/master-name`', secret: true, address: 'redis' },
  redisCluster: { env: 'GATEHOUSE_REDIS_CLUSTER', schema: Type.Boolean(), default: 'false', description: '`true`: the address is a Redis Cluster' },
  redisReplicas: { env: 'GATEHOUSE_REDIS_REPLICAS', schema: integer(0, 9), default: undefined, description: 'Replicas of Redis that must have a write before it is acknowledged; past 1 s the answer is 503 with `recorded: "unknown"`. Default: of a Redis Cluster, or with Sentinels, 1 where a master has any that lives, so that writing continues on one that was just promoted; else 0. A number is asked for always' },
  redisTlsCa: { env: 'GATEHOUSE_REDIS_TLS_CA', schema: text({ minLength: 1 }), default: undefined, description: 'File (PEM) with the certificates of the authorities that a `rediss://` Redis is checked against, instead of those of Node.js' },
  redisTlsCert: { env: 'GATEHOUSE_REDIS_TLS_CERT', schema: text({ minLength: 1 }), default: undefined, description: 'File (PEM) with the certificate that we show to a `rediss://` Redis; with GATEHOUSE_REDIS_TLS_KEY' },
  redisTlsKey: { env: 'GATEHOUSE_REDIS_TLS_KEY', schema: text({ minLength: 1 }), default: undefined, description: 'File (PEM) with the key of that certificate' },
  allowUnsafeRedis: { env: 'GATEHOUSE_ALLOW_UNSAFE_REDIS', schema: Type.Boolean(), default: 'false', description: '`1`: a Redis with `appendonly no` or an evicting policy is used all the same; `/readyz` then says `degraded`' },
  redisPrefix: { env: 'GATEHOUSE_REDIS_PREFIX', schema: text({ pattern: '^[A-Za-z0-9_.-]{0,40}$' }), default: 'gh-', description: 'Begins every key, so that deployments can share a Redis' },
  redisAppendfsync: { env: 'GATEHOUSE_REDIS_APPENDFSYNC', schema: Type.Enum(['everysec', 'always']), default: 'everysec', description: 'When the embedded Redis writes its append-only file to the disk' },
  redisMaxmemory: { env: 'GATEHOUSE_REDIS_MAXMEMORY', schema: text({ pattern: '^[0-9]+(kb|mb|gb)?$' }), default: undefined, description: 'Memory of the embedded Redis; a full one refuses, it never evicts. Default: a fifth of the memory that there is, of the machine or of the cgroup, and 2 GiB at most' },
  clickhouseUrl: { env: 'GATEHOUSE_CLICKHOUSE_URL', schema: text({ pattern: '^https?://' }), default: undefined, description: 'ClickHouse HTTP address to use instead of the embedded engine', secret: true, address: 'clickhouse' },
  clickhouseDatabase: { env: 'GATEHOUSE_CLICKHOUSE_DATABASE', schema: text({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,62}$' }), default: 'gatehouse', description: 'Database that holds the tables' },
  backupS3Url: { env: 'GATEHOUSE_BACKUP_S3_URL', schema: text({ pattern: '^https?://[^/?#@]+@[^/?#]+/?([?]region=[a-z0-9-]{1,64})?$' }), default: undefined, description: 'S3-compatible storage for `gatehouse backup s3://BUCKET/PREFIX`, as this command and ClickHouse reach it: `https://KEY_ID:SECRET@HOST[:PORT]?region=REGION`; without a region `us-east-1`', secret: true, address: 'clickhouse' },
  clickhouseCluster: { env: 'GATEHOUSE_CLICKHOUSE_CLUSTER', schema: text({ pattern: '^[A-Za-z0-9_.-]{1,64}$' }), default: undefined, description: 'Cluster name: migrations then make `Replicated…` tables `ON CLUSTER`' },
  clickhouseMemoryBytes: { env: 'GATEHOUSE_CLICKHOUSE_MEMORY_BYTES', schema: integer(512 * MiB, Number.MAX_SAFE_INTEGER), default: undefined, description: 'Memory ceiling of the embedded engine. Default: 45 % of the memory that there is, 512 MiB at least and 4 GiB at most' },
  queryTimeoutSeconds: { env: 'GATEHOUSE_QUERY_TIMEOUT_SECONDS', schema: integer(1, 600), default: '15', description: 'A ClickHouse query that runs longer is stopped' },
  retentionDays: { env: 'GATEHOUSE_RETENTION_DAYS', schema: integer(1, RETENTION_DAYS_MAX), default: '365', description: 'Whole days for which events and what hangs on them are kept after they arrived, where the account has set no other' },
  retentionMinDays: { env: 'GATEHOUSE_RETENTION_MIN_DAYS', schema: integer(1, RETENTION_DAYS_MAX), default: '1', description: 'Fewest days that an account can set' },
  retentionMaxDays: { env: 'GATEHOUSE_RETENTION_MAX_DAYS', schema: integer(1, RETENTION_DAYS_MAX), default: undefined, description: 'Most days that an account can set. Default: GATEHOUSE_RETENTION_DAYS' },
  partitions: { env: 'GATEHOUSE_PARTITIONS', schema: integer(1, 256), default: '8', description: 'Event streams; choose once, before the first event' },
  backlogEntriesMax: { env: 'GATEHOUSE_BACKLOG_ENTRIES_MAX', schema: integer(100, 100_000_000), default: '200000', description: 'Entries waiting in one stream above which event writes get 503' },
  backlogBytesMax: { env: 'GATEHOUSE_BACKLOG_BYTES_MAX', schema: integer(1 * MiB, Number.MAX_SAFE_INTEGER), default: String(1024 * MiB), description: 'Bytes of Redis memory in use above which event writes get 503; at most 70 % of its maxmemory is used in any case' },
  idempotencyBytesMax: { env: 'GATEHOUSE_IDEMPOTENCY_BYTES_MAX', schema: integer(1 * MiB, Number.MAX_SAFE_INTEGER), default: String(256 * MiB), description: 'Bytes of Redis memory for answers that are kept under Idempotency-Keys of events, at most 20 % of its maxmemory. Past it an account that has more than an even share loses its oldest before their 24 hours are over. A GiB holds 3 million single events: 35 a second over a day' },
  storeLingerMs: { env: 'GATEHOUSE_STORE_LINGER_MS', schema: integer(0, 10_000), default: '100', description: 'Least time between two inserts of events, each of all streams: an insert costs the embedded engine about 20 ms of CPU whatever is in it. A lone event goes at once. Where tables are replicated, between two of one stream' },
  requestsPerSecond: { env: 'GATEHOUSE_REQUESTS_PER_SECOND', schema: integer(1, 1_000_000), default: '1000', description: 'Request limit of a key, where its account has no other' },
  requestsBurst: { env: 'GATEHOUSE_REQUESTS_BURST', schema: integer(1, 10_000_000), default: '2000', description: 'Burst that the request limit lets through' },
  eventBytesMax: { env: 'GATEHOUSE_EVENT_BYTES_MAX', schema: integer(1024, 16 * MiB), default: String(1 * MiB), description: 'Body of one event' },
  batchBytesMax: { env: 'GATEHOUSE_BATCH_BYTES_MAX', schema: integer(1024, 64 * MiB), default: String(8 * MiB), description: 'Body of a batch' },
  bodyBytesMax: { env: 'GATEHOUSE_BODY_BYTES_MAX', schema: integer(1024, 16 * MiB), default: String(64 * 1024), description: 'Any other body' },
  smtpUrl: { env: 'GATEHOUSE_SMTP_URL', schema: text({ pattern: '^smtps?://' }), default: undefined, description: 'Mail server for alerts by e-mail, `smtp://user:password@host:port` or `smtps://…`, for fronts and pipelines alike; without it each mail is written as a file into `outbox` of the data folder', secret: true, address: 'smtp' },
  mailFrom: { env: 'GATEHOUSE_MAIL_FROM', schema: text({ pattern: '^[A-Za-z0-9.!#$%&*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}$' }), default: 'gatehouse@localhost', description: 'Sender of mails' },
  egressAllowedHosts: { env: 'GATEHOUSE_EGRESS_ALLOWED_HOSTS', schema: text(), default: undefined, description: 'Hosts, separated by commas, that webhooks, chats, outgoing feeds and checks may reach although they are private or on another port than 443 and 8443: `host` or `host:port`. For intranets and tests', address: 'hosts' },
  drainSeconds: { env: 'GATEHOUSE_DRAIN_SECONDS', schema: integer(0, 600), default: '0', description: 'A front that is asked to end answers `/readyz/traffic` and `/readyz` with 503 and everything else as before for so long, until load balancers know it; then it drains' },
  logLevel: { env: 'GATEHOUSE_LOG_LEVEL', schema: Type.Enum(['silent', 'error', 'warn', 'info', 'debug']), default: 'info', description: 'Least severe level that is logged' },
  logFormat: { env: 'GATEHOUSE_LOG_FORMAT', schema: Type.Enum(['auto', 'json', 'text']), default: 'auto', description: 'How a line of the log looks: `json`, or `text` for people; `auto`: text where standard error is a terminal' },
  tracesUrl: { env: 'GATEHOUSE_TRACES_URL', schema: text({ pattern: '^https?://' }), default: undefined, description: 'Where fronts send spans of a share of requests, by OTLP/HTTP in JSON: `http://collector:4318/v1/traces`. Default: none', address: 'public' },
  tracesPercent: { env: 'GATEHOUSE_TRACES_PERCENT', schema: integer(1, 100), default: '1', description: 'Of a hundred requests, so many have their spans sent there' },
  processName: { env: 'GATEHOUSE_PROCESS_NAME', schema: text({ pattern: '^[A-Za-z0-9_.-]{1,100}$' }), default: undefined, description: 'Stable name of a pipelines or backtests process: one that comes back under its name takes up at once what it had' },
} as const satisfies Record<string, Setting>;

type SettingName = keyof typeof SETTINGS;
export type Config = {
  readonly [K in SettingName]:
    | Type.Static<(typeof SETTINGS)[K]['schema']>
    | ((typeof SETTINGS)[K]['default'] extends string ? never : undefined);
};

export class ConfigError extends UserFacingError {
  override name = 'ConfigError';
}

/**
 * Reads the settings. A variable `NAME_FILE` names a file that holds the value of a secret setting. Throws ConfigError.
 */
export function readConfig(environment: Readonly<Record<string, string | undefined>> = process.env): Config {
  const env = Object.fromEntries(Object.entries(environment).filter(([name, value]) => !isOfOthers(name, value)));
  refuseUnknown(env);
  const config: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting>(SETTINGS)) {
    const given = setting.secret ? secretOf(setting.env, env) : env[setting.env];
    const raw = given || setting.default;
    config[name] = raw === undefined ? undefined : parse(setting, raw);
  }
  refuseUnfit(config as Config);
  return Object.freeze(config) as Config;
}

/** Settings that are sound each, and not together. */
function refuseUnfit(config: Config): void {
  refuseUnfitRedis(config);
  refuseTwice(config);
  const { retentionDays: days, retentionMinDays: least, retentionMaxDays: most = days } = config;
  if (least > days || most < days)
    throw new ConfigError(
      `GATEHOUSE_RETENTION_DAYS: ${days} is not from GATEHOUSE_RETENTION_MIN_DAYS (${least}) to GATEHOUSE_RETENTION_MAX_DAYS (${most})`,
    );
}

function refuseTwice({ operatorKeys }: Config): void {
  const known = operatorKeys === undefined ? [] : operatorKeysOf(operatorKeys);
  const isTwice = (of: 'name' | 'key') => new Set(known.map((one) => one[of])).size < known.length;
  if (isTwice('name') || isTwice('key'))
    throw new ConfigError('GATEHOUSE_OPERATOR_KEYS: each operator has one name and one key, and no two have the same');
}

function refuseUnfitRedis({ redisUrl = '', redisCluster, redisTlsCa, redisTlsCert, redisTlsKey }: Config): void {
  const nodes = redisUrl.split(',').map((one) => one.trim());
  if (redisCluster && isSentinelAddress(redisUrl))
    throw new ConfigError(
      'GATEHOUSE_REDIS_URL: its value names Sentinels, which a Redis Cluster (GATEHOUSE_REDIS_CLUSTER) has not',
    );
  if (redisCluster && nodes.some((node) => /^unix:|:\/\/[^/]*\/0*[1-9]/.test(node)))
    throw new ConfigError(
      'GATEHOUSE_REDIS_URL: its value names a database or a socket, which a Redis Cluster (GATEHOUSE_REDIS_CLUSTER) has not',
    );
  if ((redisTlsCert === undefined) !== (redisTlsKey === undefined))
    throw new ConfigError('GATEHOUSE_REDIS_TLS_CERT and GATEHOUSE_REDIS_TLS_KEY: set both, or neither');
  if ((redisTlsCa ?? redisTlsCert) !== undefined && !nodes.every((node) => node.startsWith('rediss://')))
    throw new ConfigError('GATEHOUSE_REDIS_TLS_CA, _CERT and _KEY are for an address that begins with rediss://');
}

/** Variables of settings that are given a value, by name. */
export function givenSettings(env: Readonly<Record<string, string | undefined>> = process.env): string[] {
  return Object.values<Setting>(SETTINGS)
    .map((setting) => setting.env)
    .filter((name) => (env[name] || env[`${name}_FILE`] || '') !== '');
}

/** The texts that no log may hold: the values of secret settings, and the passwords in them. */
export function secretsIn(config: Config): string[] {
  return Object.entries<Setting>(SETTINGS).flatMap(([name, { secret, address }]) => {
    const value = config[name as SettingName];
    if (!secret || typeof value !== 'string') return [];
    if (address !== undefined) return secretsOf(value);
    return name === 'operatorKeys' ? [value, ...operatorKeysOf(value).map(({ key }) => key)] : [value];
  });
}

/** Effective settings as they may be logged: secrets show only whether they are set. */
export function describeConfig(config: Config): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries<Setting>(SETTINGS).map(([name, setting]) => {
      const value = config[name as SettingName];
      return [setting.env, setting.secret ? (value === undefined ? 'unset' : 'set') : (value ?? 'unset')];
    }),
  );
}

/**
 * Environment of a child process: ours, with these settings as the child is to see them; undefined takes one away.
 * Secrets and addresses travel so, since a command line can be read by every user of the machine.
 */
export function environmentWith(
  settings: Partial<Record<SettingName, string | number | boolean | undefined>> = {},
): Record<string, string | undefined> {
  const env: Record<string, string | undefined> = { ...process.env };
  for (const [name, value] of Object.entries(settings)) {
    const setting: Setting = SETTINGS[name as SettingName];
    delete env[`${setting.env}_FILE`];
    if (value === undefined) delete env[setting.env];
    else env[setting.env] = String(value);
  }
  return env;
}

/** uWebSockets.js takes this bound from the environment alone, when it is loaded; its own 4 KiB refuses long tokens. */
export function setHeadBytesMax(): void {
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= String(HEAD_BYTES_MAX);
}

function parse(setting: Setting, raw: string): unknown {
  const value = fromText((setting.schema as { type?: string }).type, raw);
  const validator = Compile(setting.schema);
  if (!validator.Check(value)) {
    const shown = setting.secret ? 'its value' : JSON.stringify(raw);
    throw new ConfigError(`${setting.env}: ${shown} ${validator.Errors(value)[0]?.message ?? 'is not valid'}`);
  }
  const complaint = setting.address === undefined ? undefined : complaintOf(setting.address, raw);
  if (complaint !== undefined) throw new ConfigError(`${setting.env}: its value ${complaint}`);
  return value;
}

/** Text that is not of the kind stays text, so that the schema refuses it. */
function fromText(kind: string | undefined, raw: string): unknown {
  if (kind === 'integer') return /^-?[0-9]+$/.test(raw) ? Number(raw) : raw;
  if (kind === 'boolean') return { true: true, 1: true, false: false, 0: false }[raw] ?? raw;
  return raw;
}

/** Its value, or that of the file that `NAME_FILE` names; an empty variable is as none. */
function secretOf(name: string, env: Readonly<Record<string, string | undefined>>): string | undefined {
  const { [name]: value = '', [`${name}_FILE`]: file = '' } = env;
  if (file === '') return value === '' ? undefined : value;
  if (value !== '') throw new ConfigError(`${name} and ${name}_FILE: set one of the two, not both`);
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (cause) {
    throw new ConfigError(`${name}_FILE: cannot read ${JSON.stringify(file)}`, { cause });
  }
  if (text === '') throw new ConfigError(`${name}_FILE: ${JSON.stringify(file)} is empty`);
  return text;
}

/**
 * Not settings: what a container platform adds to the environment for each service of a name that begins so, and what
 * the clients of this service go by.
 */
function isOfOthers(name: string, value: string | undefined): boolean {
  if (['GATEHOUSE_URL', 'GATEHOUSE_KEY', 'GATEHOUSE_API_KEY', 'GATEHOUSE_API_KEY_FILE'].includes(name)) return true;
  if (/_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$/.test(name)) return true;
  return /_PORT$/.test(name) && /^(tcp|udp|sctp):\/\//.test(value ?? '');
}

/** The settings of commands that are clients of a service. Throws ConfigError. */
export function clientSettings(): { url: string | undefined; key: string | undefined } {
  const { GATEHOUSE_URL: url, GATEHOUSE_KEY } = process.env;
  const key = secretOf('GATEHOUSE_API_KEY', process.env);
  return { url, key: key ?? GATEHOUSE_KEY };
}

/** The environment for a program of others: all variables but ours, which hold keys above all. */
export function environmentOfOthers(): Record<string, string> {
  const theirs = Object.entries(process.env).filter(([name]) => !name.startsWith('GATEHOUSE_'));
  return Object.fromEntries(theirs) as Record<string, string>;
}

/** Where a person's programs keep what they remember. */
export function stateFolder(): string {
  const { XDG_STATE_HOME: given } = process.env;
  return path.join(given || path.join(os.homedir(), '.local', 'state'), 'gatehouse');
}

/** A misspelt setting is refused rather than ignored. */
function refuseUnknown(env: Readonly<Record<string, string | undefined>>): void {
  const known = new Set(
    Object.values<Setting>(SETTINGS).flatMap((s) => (s.secret ? [s.env, `${s.env}_FILE`] : [s.env])),
  );
  for (const name of Object.keys(env)) {
    if (name.startsWith('GATEHOUSE_') && !known.has(name)) throw new ConfigError(`${name}: no such setting`);
  }
}
