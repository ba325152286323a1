// The types of the TypeScript client, from the schemas that the service validates with: what is reachable from a few of
// them in the API's description (`npm run docs` writes clients/typescript/src/api.ts, a test holds it).
import { describeApi } from '../src/http/openapi/document.ts';
import { makeRoutes } from '../src/http/routes.ts';
import { clientTypes } from '../test/support/openapi-client.ts';

export const CLIENT_TYPES = 'clients/typescript/src/api.ts';
const EXPORTED = ['Submission', 'Event', 'BatchResult', 'PolicyMatch', 'PolicyResult', 'Approval'];
const HEAD = '// Made by `npm run docs` of the schemas that the service validates with; not to be edited.\n';

export async function clientApi(): Promise<string> {
  const document = describeApi(makeRoutes({ metrics: true }));
  const all = document.components.schemas;
  const wanted = new Set(EXPORTED);
  for (const name of wanted)
    for (const [, other] of JSON.stringify(all[name]).matchAll(/#\/components\/schemas\/(\w+)/g)) wanted.add(other!);
  const schemas = Object.fromEntries([...wanted].sort().map((name) => [name, all[name]!]));
  const types = await clientTypes({ openapi: '3.1.0', info: document.info, paths: {}, components: { schemas } });
  const inner = /export interface components \{[\s\S]*?\n\}/.exec(types)![0];
  const aliases = EXPORTED.map((name) => `export type ${name} = components['schemas']['${name}'];\n`);
  return `${HEAD}${inner}\n${aliases.join('')}`;
}
