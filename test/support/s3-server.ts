// A server of S3's protocol that others wrote: that of moto (PyPI), on loopback, with one bucket. It takes any key.
// Objects live in its memory and go with it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';

export type S3Server = {
  /** `http://127.0.0.1:PORT` */
  url: string;
  bucket: string;
  put(name: string, body: Uint8Array | string): Promise<void>;
  get(name: string): Promise<Buffer>;
  remove(name: string): Promise<void>;
  names(): Promise<string[]>;
};

const READY_MS_MAX = 60_000;
const BUCKET = 'backups';
/** Without any it redirects to a page about itself. */
const headers = {
  authorization: 'AWS4-HMAC-SHA256 Credential=x/20261130/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x',
};

/** A reason why there is none on this machine; false: there is one. */
export function withoutS3(): string | false {
  const { status } = spawnSync('python3', ['-c', 'import moto.server, flask'], { stdio: 'ignore' });
  return status === 0 ? false : 'python3 has no moto[server] here';
}

export async function startS3(t: Test): Promise<S3Server> {
  const port = await freePort();
  const args = ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)];
  const child = spawn('python3', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said = (said + data.toString()).slice(-2_000);
  });
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const url = `http://127.0.0.1:${port}`;
  const ask = async (method: string, path: string, body?: Uint8Array | string) => {
    const answer = await fetch(`${url}/${BUCKET}${path}`, { method, headers, ...(body === undefined ? {} : { body }) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status}`);
    return Buffer.from(await answer.arrayBuffer());
  };
  for (const until = performance.now() + READY_MS_MAX; ; await sleep(100)) {
    if (child.exitCode !== null || performance.now() > until) throw new Error(`moto does not come up: ${said}`);
    if ((await ask('PUT', '').catch(() => undefined)) !== undefined) break;
  }
  return {
    ...{ url, bucket: BUCKET },
    put: async (name, body) => void (await ask('PUT', `/${name}`, body)),
    get: (name) => ask('GET', `/${name}`),
    remove: async (name) => void (await ask('DELETE', `/${name}`)),
    names: async () => {
      const names: string[] = [];
      for (let after = ''; ; ) {
        const page = (await ask('GET', `?list-type=2&start-after=${encodeURIComponent(after)}`)).toString();
        const found = [...page.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, name]) => name!);
        if (found.length === 0) return names;
        names.push(...found);
        after = found.at(-1)!;
      }
    },
  };
}
