// Reads a mail as a mail program would: header lines unfolded, encoded words and parts decoded. Knows only what our
// mails use.
type MailPart = { headers: [name: string, value: string][]; content: string };
type ReadMail = { headers: [name: string, value: string][]; parts: MailPart[] };

export function readMail(raw: string): ReadMail {
  const { headers, body } = split(raw);
  const type = headerOf(headers, 'Content-Type') ?? '';
  const boundary = /boundary="([^"]+)"/.exec(type)?.[1];
  if (boundary === undefined) return { headers, parts: [] };
  const pieces = `\r\n${body}`.split(`\r\n--${boundary}`).slice(1, -1);
  const parts = pieces.map((piece) => {
    const part = split(piece.replace(/^\r\n/, ''));
    const content = decode(part.body, headerOf(part.headers, 'Content-Transfer-Encoding'));
    return { headers: part.headers, content: content.replaceAll('\r\n', '\n') };
  });
  return { headers, parts };
}

export function headerOf(headers: readonly [string, string][], name: string): string | undefined {
  return headers.find(([other]) => other.toLowerCase() === name.toLowerCase())?.[1];
}

/** Encoded words (RFC 2047) of a header's value; white space between two of them goes. */
export function decodeWords(value: string): string {
  return value
    .replace(/(=\?[^?]+\?[bq]\?[^?]*\?=)\s+(?==\?)/gi, '$1')
    .replace(/=\?([^?]+)\?([bq])\?([^?]*)\?=/gi, (_all, _charset, encoding: string, text: string) =>
      encoding.toLowerCase() === 'b'
        ? Buffer.from(text, 'base64').toString()
        : quotedPrintable(text.replaceAll('_', ' ')),
    );
}

function split(text: string): { headers: [string, string][]; body: string } {
  const end = text.indexOf('\r\n\r\n');
  const head = text.slice(0, end).replace(/\r\n(?=[ \t])/g, '');
  const headers = head.split('\r\n').map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  return { headers, body: text.slice(end + 4) };
}

function decode(body: string, encoding: string | undefined): string {
  if (encoding === 'base64') return Buffer.from(body, 'base64').toString();
  if (encoding === 'quoted-printable') return quotedPrintable(body.replace(/=\r\n/g, ''));
  return Buffer.from(body, 'latin1').toString();
}

function quotedPrintable(text: string): string {
  const bytes = text.replace(/=([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, 'latin1').toString();
}
