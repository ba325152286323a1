// The ready policies that come with the service (policies/*.yaml), as bodies that create them (GET /v1/policies/ready).
// Read once, when they are first asked for; the reader of YAML is loaded then, too.
// Invariant: numbers keep the digits that they are written with.
// Failure: a file that cannot be read as policies is a mistake of ours, and rejects; without the folder there are none.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { PolicyCreate } from '../../../schemas/policy.ts';
import type { ReadyPolicy } from '../../../schemas/ready-policy.ts';
import { assetPath } from '../../process/assets.ts';

export class ReadyPolicyFiles {
  #known: Promise<ReadyPolicy[]> | undefined;

  list(): Promise<ReadyPolicy[]> {
    this.#known ??= readAll(assetPath('policies'));
    return this.#known;
  }
}

async function readAll(folder: string): Promise<ReadyPolicy[]> {
  if (!existsSync(folder)) return [];
  const { readPolicyFiles } = await import('../../common/policy-files.ts');
  const files = readdirSync(folder).filter((file) => file.endsWith('.yaml'));
  return files.sort().flatMap((file) =>
    readPolicyFiles([path.join(folder, file)]).map(({ policy }) => {
      const body = policy as PolicyCreate;
      return { file, name: body.name, description: body.description ?? '', policy: body };
    }),
  );
}
