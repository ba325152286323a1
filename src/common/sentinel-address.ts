// The form of an address of Redis Sentinels (read by the settings and by the clients of Redis).
// Failure: what cannot be read is undefined; a percent code that is none throws URIError.

/** `redis+sentinel://user:password@host:port,host:port/name/database`: user and password are Redis's. */
export type SentinelAddress = {
  hosts: { host: string; port: number }[];
  name: string;
  username: string;
  password: string;
  database: number;
};

const SCHEME = 'redis+sentinel://';
const PORT = 26_379;
const FORM = /^redis\+sentinel:\/\/(?:([^:@/]*):([^@/]*)@)?([^@/]+)\/([A-Za-z0-9._-]+)(?:\/([0-9]{1,5}))?$/;
const HOST = /^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?$/;

export function isSentinelAddress(url: string): boolean {
  return url.startsWith(SCHEME);
}

/** undefined: it is none, or cannot be read as one. */
export function sentinelAddressOf(url: string): SentinelAddress | undefined {
  const [, username = '', password = '', list = '', name = '', database = '0'] = FORM.exec(url) ?? [];
  const hosts = list.split(',').map((one) => HOST.exec(one.trim()));
  if (hosts.some((host) => host === null)) return undefined;
  return {
    hosts: hosts.map((host) => ({ host: host![1]!.replace(/^\[|\]$/g, ''), port: Number(host![2] ?? PORT) })),
    ...{ name, username: decodeURIComponent(username), password: decodeURIComponent(password) },
    database: Number(database),
  };
}

/** Without user and password. */
export function shownSentinelAddress({ hosts, name }: SentinelAddress): string {
  return `${SCHEME}${hosts.map(({ host, port }) => `${host}:${port}`).join(',')}/${name}`;
}
