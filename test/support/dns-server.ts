// A name server on loopback for tests: answers A and AAAA questions with what a script says at that moment, time to
// live 0. Real packets over UDP (RFC 1035), so that the resolver under test is the one that runs in production.
import { createSocket } from 'node:dgram';
import { isIP } from 'node:net';
import type { Test } from 'tap';

type Question = {
  name: string;
  type: 'A' | 'AAAA' /** 1 for the first of this name and type. */;
  number: number;
};
/**
 * Addresses of the question's type; others are passed over. `nxdomain`, `servfail`: that answer; undefined: no answer
 * at all.
 */
export type Script = (question: Question) => readonly string[] | 'nxdomain' | 'servfail' | undefined;

type DnsServer = { address: string; asked: Question[] };

const TYPES: Record<number, 'A' | 'AAAA'> = { 1: 'A', 28: 'AAAA' };
const CODES = { nxdomain: 3, servfail: 2 } as const;

export async function startDns(t: Test, script: Script): Promise<DnsServer> {
  const socket = createSocket('udp4');
  const asked: Question[] = [];
  socket.on('message', (packet, from) => {
    const { name, typeCode, end } = questionOf(packet);
    const type = TYPES[typeCode];
    const number = asked.filter((other) => other.name === name && other.type === type).length + 1;
    const question = { name, type: type ?? 'A', number };
    if (type !== undefined) asked.push(question);
    const answer = type === undefined ? [] : script(question);
    if (answer !== undefined) socket.send(reply(packet.subarray(0, end), typeCode, answer), from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise<void>((resolve) => socket.close(() => resolve())));
  return { address: `127.0.0.1:${socket.address().port}`, asked };
}

function questionOf(packet: Buffer): { name: string; typeCode: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = packet[at]!; length > 0; length = packet[at]!) {
    labels.push(packet.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join('.').toLowerCase(), typeCode: packet.readUInt16BE(at + 1), end: at + 5 };
}

function reply(question: Buffer, typeCode: number, answer: readonly string[] | keyof typeof CODES): Buffer {
  const head = Buffer.from(question.subarray(0, 12));
  const code = typeof answer === 'string' ? CODES[answer] : 0;
  const records = typeof answer === 'string' ? [] : answer.flatMap((address) => recordOf(address, typeCode));
  head.writeUInt16BE(0x8180 | code, 2); // an answer, recursion done
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(records.length, 6);
  head.writeUInt16BE(0, 8);
  head.writeUInt16BE(0, 10); // additional records of the question (EDNS) are not answered
  return Buffer.concat([head, question.subarray(12), ...records]);
}

function recordOf(address: string, typeCode: number): Buffer[] {
  const family = isIP(address);
  if ((typeCode === 1) !== (family === 4)) return [];
  const data = family === 4 ? Buffer.from(address.split('.').map(Number)) : sixteenBytes(address);
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc00c, 0); // the name of the question
  head.writeUInt16BE(typeCode, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt32BE(0, 6); // time to live
  head.writeUInt16BE(data.length, 10);
  return [Buffer.concat([head, data])];
}

function sixteenBytes(address: string): Buffer {
  const [front = '', back] = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, twoGroups).split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const tail = back === undefined ? [] : groups(back);
  const zeros = Array<string>(8 - groups(front).length - tail.length).fill('0');
  const all = [...groups(front), ...(back === undefined ? [] : zeros), ...tail];
  const bytes = Buffer.alloc(16);
  all.forEach((group, i) => {
    bytes.writeUInt16BE(Number.parseInt(group, 16), 2 * i);
  });
  return bytes;
}

function twoGroups(_all: string, a: string, b: string, c: string, d: string): string {
  return `${(Number(a) * 256 + Number(b)).toString(16)}:${(Number(c) * 256 + Number(d)).toString(16)}`;
}
