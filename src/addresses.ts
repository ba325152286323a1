// Checks the settings that hold an address with a password in it (GATEHOUSE_REDIS_URL, …_CLICKHOUSE_URL, …_SMTP_URL), before
// anything starts: the programs that use them read them late, each in its own way, and repeat them in their complaints.
// Stands under config.ts. Answers what is wrong as the end of a sentence; never the value, nor a part of it.
// Invariant: what is found sound here can be taken apart by `new URL` and has a user name and a password that decode.
// Failure: a complaint. A `/`, `#`, `?` or `@` in a password that is not percent-encoded ends the address early: it shows as a
// host or port that is none, or as an `@` behind the host.

const ENCODE =
  'write / ? # @ : , % and blanks in a user name or password percent-encoded (/ is %2F, ? is %3F, # is %23, @ is %40, : is %3A, comma is %2C, % is %25)';

export type AddressKind = 'redis' | 'clickhouse' | 'smtp';

/** undefined: sound. */
export function complaintOf(kind: AddressKind, text: string): string | undefined {
  if (kind === 'redis' && text.startsWith('unix:')) return undefined;
  const each = kind === 'redis' ? text.split(',').map((one) => one.trim()) : [text];
  for (const one of each) {
    const complaint = complaintOfOne(kind, one);
    if (complaint !== undefined) return complaint;
  }
  return undefined;
}

/** What of an address may not be seen: the whole, and what stands before its `@`, as written and decoded. */
export function secretsOf(text: string): string[] {
  const found = [text];
  for (const one of text.split(',')) {
    const url = URL.canParse(one) ? new URL(one) : undefined;
    if (url === undefined || url.password === '') continue;
    found.push(url.password);
    try {
      found.push(decodeURIComponent(url.password));
    } catch {
      // As written it is masked.
    }
  }
  return found;
}

function complaintOfOne(kind: AddressKind, text: string): string | undefined {
  if (!URL.canParse(text)) return `cannot be read as an address; ${ENCODE}`;
  const url = new URL(text);
  if (url.hostname === '' || /^[a-z]+:\/{3}/.test(text)) return 'names no host';
  if (`${url.pathname}${url.search}${url.hash}`.includes('@')) return `has an @ behind its host; ${ENCODE}`;
  for (const part of [url.username, url.password]) {
    try {
      decodeURIComponent(part);
    } catch {
      return `holds a % that begins no percent code; ${ENCODE}`;
    }
  }
  if (url.hash !== '') return `holds a #; ${ENCODE}`;
  if (kind === 'redis' && !/^\/?[0-9]{0,5}$/.test(url.pathname))
    return 'may name a database by its number behind the host, and nothing else';
  if (kind === 'smtp' && url.pathname !== '' && url.pathname !== '/') return `holds a / behind its host; ${ENCODE}`;
  return undefined;
}
