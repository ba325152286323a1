// Requests whose end can be read in two ways, and how a strict reader reads them (for fuzz.ts and framing.socket.test).
// One connection carries a request, some framing, a body, and in it or behind it a second request, cut into packets.
// Each request has an X-Request-Id of its own, which every answer repeats: so it is known whom an answer is for.
// Pure, and the same for the same random numbers.

export type Framed = {
  /** Written one after the other, each as a packet of its own. */
  packets: string[];
  /** The elements that it is made of, for a finding. */
  what: string;
};

/** How the length of a body can be said. `LEN` is its length in bytes. The first two are sound. */
const SOUND = ['', 'Content-Length: LEN'];
const UNSOUND = [
  ...['chunked', 'Chunked', 'CHUNKED', '\tchunked ', '"chunked"', 'xchunked', 'chunked;a=b', ',chunked', 'chunked,'],
  ...['identity', 'gzip, chunked', 'chunked, gzip', 'chunked, chunked', 'chunked\r\nTransfer-Encoding: identity', ''],
  ...['chunked\r\nContent-Length: LEN', 'chunked\r\nContent-Length: 0', 'identity\r\nContent-Length: LEN'],
]
  .map((coding) => `Transfer-Encoding: ${coding}`)
  .concat([
    ...['Content-Length: LEN\r\nTransfer-Encoding: chunked', 'content-length: 0\r\ntRANSFER-eNCODING:chunked'],
    ...['Transfer-Encoding : chunked', ' Transfer-Encoding: chunked', 'X: a\r\n Transfer-Encoding: chunked'],
    ...['Transfer-Encoding:\x0bchunked', 'Transfer-Encoding: chunked\0', 'X: a\0\r\nTransfer-Encoding: chunked'],
    ...['Transfer-Encoding: chunked\nX: a', 'X: a\nTransfer-Encoding: chunked', 'X: a\rTransfer-Encoding: chunked'],
    ...['0, LEN', 'LEN, LEN', '+LEN', '-1', '0xLEN', 'LEN;', 'LEN LEN', '1e1', '', '99999999999999999999', 'LEN.0'].map(
      (length) => `Content-Length: ${length}`,
    ),
    ...['Content-Length: 0\r\nContent-Length: LEN', 'Content-Length: LEN\r\ncontent-length: LEN'],
    ...['Content-Length : LEN', 'Content-Length: LEN\0', ' Content-Length: LEN', 'Content-Length: 0\r\n Host: b'],
  ]);
/** `INNER` is the second request, `HEX` its length. */
const BODIES = [
  ...['INNER', '0\r\n\r\nINNER', '0\r\nA:INNER', '0\r\nA: b\r\n\r\nINNER', '00000\r\nA:\tINNER', '0;a=b\r\nA:INNER'],
  ...['2\r\n{}\r\n0\r\nA:INNER', '2\r\n{}\r\n0\r\n\r\nINNER', 'HEX\r\nINNER\r\n0\r\n\r\n', '2\n{}\n0\n\nINNER'],
  ...[':\r\n{}\r\n0\r\n\r\nINNER', '2;"\r\n"\r\n{}\r\n0\r\n\r\nINNER', '-0\r\nINNER', 'ffffffffffffffff1\r\nINNER'],
  ...[
    '{}INNER',
    '\r\nINNER',
    '0\r\n\r\n\r\n\r\nINNER',
    '0\r\n',
    '0\r\nA',
    '2\r\n{}INNER',
    '0\nA:INNER',
    '0\r\r\nINNER',
  ],
];
/** Further headers that may decide who handles a request. */
const MORE = [
  ...['Expect: 100-continue', 'Expect: something', 'Connection: upgrade\r\nUpgrade: websocket', 'Upgrade: h2c'],
  ...['Content-Encoding: gzip', 'Content-Encoding: br', 'Connection: keep-alive', 'TE: trailers\r\nTrailer: A'],
  ...[
    'Connection: Transfer-Encoding',
    'Connection: close',
    'Content-Type: application/json',
    'Content-Type: text/plain',
  ],
  ...['Origin: https://app.example\r\nAccess-Control-Request-Method: POST', 'Sec-Fetch-Site: cross-site'],
  ...['Cookie: gatehouse=a', 'If-Match: "1"', 'Idempotency-Key: k', 'Host: b'],
];

/** `inner`: a request with this X-Request-Id that leaves something behind where `leavesTrace`. */
export type Targets = {
  methods: readonly string[];
  paths: readonly string[];
  /** Lines with their ends: keys, or nothing. */
  callers: readonly string[];
  inner: (id: string, leavesTrace: boolean) => string;
};

export function framed({ methods, paths, callers, inner }: Targets, random: () => number, id: string): Framed {
  const below = (n: number) => Math.floor(random() * n);
  const one = <T>(list: readonly T[]): T => list[below(list.length)]!;
  const isSound = below(5) === 0;
  const second = inner(`${id}-inner`, !isSound);
  const body = one(BODIES).replace('HEX', second.length.toString(16)).replace('INNER', second);
  const framing = one(isSound ? SOUND : UNSOUND).replaceAll('LEN', String(body.length));
  const more = Array.from({ length: below(3) }, () => one(MORE));
  const [method, path] = [one(methods), one(paths)];
  const lines = [framing, ...more].filter((line) => line !== '').sort(() => random() - 0.5);
  const start = `${method} ${path} HTTP/1.1\r\nHost: a\r\n${one(callers)}X-Request-Id: ${id}\r\n`;
  const head = `${start}${lines.map((line) => `${line}\r\n`).join('')}\r\n`;
  const text = head + body;
  const places = [
    head.length,
    head.length + body.indexOf(second),
    head.length + 3,
    text.length - 2,
    below(text.length),
  ];
  const cuts = Array.from({ length: below(4) }, () => one(places))
    .filter((at) => at > 0 && at < text.length)
    .sort((a, b) => a - b);
  const packets = [0, ...cuts].map((at, i) => text.slice(at, cuts[i] ?? text.length)).filter((piece) => piece !== '');
  return { packets, what: JSON.stringify(packets) };
}

/**
 * Ids of the requests that are there beyond doubt, in their order, the last of them perhaps refused. `more`: something
 * follows that is no request, which a server may refuse, too.
 */
function strictly(text: string): { ids: string[]; more: boolean } {
  const ids: string[] = [];
  for (let at = 0; at < text.length; ) {
    while (text.startsWith('\r\n', at)) at += 2;
    if (at === text.length) break;
    const end = text.indexOf('\r\n\r\n', at);
    const [line, ...headers] = text.slice(at, end < 0 ? undefined : end).split('\r\n');
    if (end < 0 || !/^\S+ \S+ HTTP\/1\.1$/.test(line!)) return { ids, more: true };
    const fields = headers.map((header) => /^([A-Za-z-]+):[ \t]*([\t\x20-\x7e]*?)[ \t]*$/.exec(header));
    ids.push(fields.find((field) => field?.[1] === 'X-Request-Id')?.[2] ?? '');
    const lengths = fields.filter((field) => field?.[1]?.toLowerCase() === 'content-length');
    const isChunked = fields.some((field) => field?.[1]?.toLowerCase() === 'transfer-encoding');
    if (isChunked || lengths.length > 1 || fields.includes(null)) break;
    const length = lengths[0]?.[2] ?? '0';
    if (!/^[0-9]{1,15}$/.test(length)) break;
    at = end + 4 + Number(length);
  }
  return { ids, more: false };
}

/** `received`: all that came back. undefined: each answer is one that a strict reader would have given. */
export function whatIsWrong({ packets }: Framed, received: string): string | undefined {
  const { ids, more } = strictly(packets.join(''));
  const answered = [...received.matchAll(/^X-Request-Id: (\S+)\r$/gm)].map(([, id]) => id!);
  const answers = [...received.matchAll(/HTTP\/1\.1 (?!1)\d{3} /g)].length;
  const ours = answered.filter((id) => /^r\d+/.test(id));
  const stray = ours.find((id, i) => id !== ids[i]);
  if (stray !== undefined) return `an answer for ${stray}, which is no request here`;
  if (answers > ids.length + (more ? 1 : 0)) return `${answers} answers to ${ids.length} requests`;
  return undefined;
}

type Smuggling = { what: string; headers: string; packets: string[] };

/**
 * Framings that no server may take, with `inner` behind them: for a test of every path. `turn`: each gets the first
 * four, and three others in turn.
 */
export function smugglings(inner: string, turn: number): Smuggling[] {
  const chunked = 'Transfer-Encoding: chunked\r\n';
  const trailer = `A:${inner}`;
  const others: Smuggling[] = [
    ...MORE.map((line) => ({ what: line, headers: `${line}\r\n${chunked}`, packets: [`0\r\n${trailer}`] })),
    ...[`Content-Length: 0\r\n${chunked}`, `${chunked}Content-Length: 0\r\n`, 'Transfer-Encoding: identity\r\n'].map(
      (headers) => ({ what: JSON.stringify(headers), headers, packets: [`0\r\n\r\n${inner}`] }),
    ),
    ...['0\r\nContent-Length: 9', '0, 9', '+0', '-0', '', '0x0'].map((length) => ({
      what: `Content-Length: ${JSON.stringify(length)}`,
      headers: `Content-Length: ${length}\r\n`,
      packets: [inner],
    })),
  ];
  return [
    { what: 'a trailer', headers: chunked, packets: [`0\r\n${trailer}`] },
    { what: 'a trailer in a later packet', headers: chunked, packets: ['0\r\n', trailer] },
    { what: 'the body in a later packet', headers: chunked, packets: ['', `0\r\n${trailer}`] },
    { what: 'behind the last chunk', headers: chunked, packets: [`0\r\n\r\n${inner}`] },
    ...[0, 1, 2].map((i) => others[(turn * 3 + i) % others.length]!),
  ];
}
