// Starts the workers of the page. The page demands trusted types: scripts that it starts by address are named here, and
// no other file makes a policy.

type Policy = { createScriptURL(url: string): string };
type Policies = { createPolicy(name: string, rules: Policy): Policy };

let scripts: Policy | undefined;

/** `address`: what a `?worker&url` import says. */
export function startWorker(address: string): Worker {
  const { trustedTypes } = globalThis as { trustedTypes?: Policies };
  scripts ??= trustedTypes?.createPolicy('gatehouse-worker', { createScriptURL: (url) => url });
  const url = new URL(address, location.href).href;
  return new Worker(scripts === undefined ? url : scripts.createScriptURL(url), { type: 'module' });
}
