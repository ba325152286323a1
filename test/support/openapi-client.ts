// Makes TypeScript of the API's description with openapi-typescript, the way its users do.
// The generator works with the JavaScript interface of the compiler, which TypeScript 7 no longer has: it is handed the
// TypeScript 5 that tshy brings (tap builds with it), and package.json's `overrides` keep npm from asking for one at
// the top.
import { createRequire, register } from 'node:module';
import { pathToFileURL } from 'node:url';

let registered = false;

/** The text of a module that exports `paths`, `components`, `webhooks`. */
export async function clientTypes(document: object): Promise<string> {
  if (!registered) {
    const tshy = createRequire(import.meta.resolve('tshy/package.json'));
    const compiler = pathToFileURL(tshy.resolve('typescript')).href;
    const hook = `export const resolve = (name, context, next) =>
      name === 'typescript' ? { url: '${compiler}', format: 'commonjs', shortCircuit: true } : next(name, context);`;
    register(`data:text/javascript,${encodeURIComponent(hook)}`);
    registered = true;
  }
  const { astToString, default: openapiTS } = await import('openapi-typescript');
  return astToString(await openapiTS(structuredClone(document) as Parameters<typeof openapiTS>[0]));
}
