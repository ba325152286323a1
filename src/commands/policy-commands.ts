// `gatehouse policies pull | plan | apply`: policies that are declared in files, over the API of a service
// (GATEHOUSE_URL, GATEHOUSE_API_KEY). `plan` shows what the files would change, `apply` changes it, all of it or
// nothing; `pull` writes what there is as a file.
// Invariant: what is applied is what was planned: the hash of the plan goes with it, and the service refuses any other.
// What would leave the owner without any policy is refused unless that is said (--allow-empty): a template or a
// redirect that failed leaves just such files.
// Exit status: 0 done, or there is nothing to do; 1 refused or failed; 2 called wrongly; 3 `plan`: there is something
// to do; 4 `apply`: the policies were changed since the plan, and the plan is shown as it is now. Texts of policies are
// printed as JSON: a name may hold what a terminal takes for a command.

import type { Agent } from '../../schemas/agent.ts';
import type { Policy } from '../../schemas/policy.ts';
import type { PlannedPolicy, PolicyPlan } from '../../schemas/policy-plan.ts';
import { exactJson } from '../common/exact-json.ts';
import { type FilePolicy, PolicyFileError, readPolicyFiles, textOfPolicies } from '../common/policy-files.ts';
import { ask, type Options, refusalOf, type ServiceAnswer, ServiceRefused } from './ask-service.ts';
import { UsageError } from './context.ts';

const DONE = 0;
const THERE_IS_SOMETHING_TO_DO = 3;
const CHANGED_SINCE = 4;
const PAGE = 100;
/** A name has up to 200 characters, which are up to 2,400 in a URL; a head may have 16 KiB. */
const NAMES_AT_ONCE = 5;

export async function policiesPull(options: Options): Promise<number> {
  const policies: Policy[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const { body } = await ask(options, 'GET', `/v1/policies?limit=${PAGE}${query}`);
    const { items, next_cursor } = body as { items: Policy[]; next_cursor: string | null };
    policies.push(...items);
    cursor = next_cursor;
  }
  const { owner } = options;
  const wanted = policies.filter((policy) => owner === undefined || policy.owner === owner).reverse();
  process.stdout.write(textOfPolicies(wanted, await agentNames(options, wanted)));
  return DONE;
}

export async function policiesPlan(options: Options, files: readonly string[]): Promise<number> {
  const declared = await read(options, files);
  const plan = await planOf(options, declared);
  show(plan, options);
  return isNothingToDo(plan) ? DONE : THERE_IS_SOMETHING_TO_DO;
}

export async function policiesApply(options: Options, files: readonly string[]): Promise<number> {
  const declared = await read(options, files);
  let hash = options['hash'];
  if (hash === undefined || declared.length === 0) {
    const plan = await planOf(options, declared);
    if (isNothingToDo(plan)) {
      show(plan, options);
      return DONE;
    }
    if (takesAllAway(plan) && options['allow-empty'] !== true) {
      show(plan, options);
      throw new ServiceRefused(
        'the files declare no policy, and all of the owner would be deleted: --allow-empty allows it',
      );
    }
    hash ??= plan.hash;
  }
  const { status, body } = await declare(options, declared, { hash });
  if (status !== 412) {
    show(body as PolicyPlan, options);
    return DONE;
  }
  const { plan } = body as { plan: PolicyPlan };
  show(plan, options);
  // Another has done the same, or it was done and its answer was lost.
  if (isNothingToDo(plan)) return DONE;
  process.stderr.write(
    'gatehouse: the policies were changed since the plan; this is the plan now, and nothing was changed\n',
  );
  return CHANGED_SINCE;
}

function read(options: Options, files: readonly string[]): Promise<FilePolicy[]> {
  const { owner } = options;
  if (typeof owner !== 'string' || owner === '')
    throw new UsageError('--owner is missing: whose policies the files declare');
  if (files.length === 0) throw new UsageError('FILE is missing');
  return withAgentIds(options, readPolicyFiles(files));
}

/** `agent`, a name, becomes `agent_id`. Throws PolicyFileError with the place of each mistake. */
async function withAgentIds(options: Options, declared: readonly FilePolicy[]): Promise<FilePolicy[]> {
  const named = declared.filter(({ policy }) => 'agent' in policy);
  const mistakes = named.flatMap(({ place, policy }) => {
    if (typeof policy['agent'] !== 'string') return `${place}: \`agent\` must be the name of an agent`;
    return 'agent_id' in policy ? `${place}: \`agent\` and \`agent_id\` say the same: leave one out` : [];
  });
  if (mistakes.length > 0) throw new PolicyFileError(mistakes.join('\n'));
  const ids = await agentIds(options, new Set(named.map(({ policy }) => policy['agent'] as string)));
  const unknown = named.filter(({ policy }) => !ids.has(policy['agent'] as string));
  if (unknown.length > 0)
    throw new PolicyFileError(
      unknown.map(({ place, policy }) => `${place}: no agent is called ${JSON.stringify(policy['agent'])}`).join('\n'),
    );
  return declared.map(({ place, policy: { agent, ...policy } }) =>
    agent === undefined ? { place, policy } : { place, policy: { ...policy, agent_id: ids.get(agent as string) } },
  );
}

async function agentIds(options: Options, names: ReadonlySet<string>): Promise<Map<string, string>> {
  const all = [...names];
  const ids = new Map<string, string>();
  for (let from = 0; from < all.length; from += NAMES_AT_ONCE) {
    const asked = all.slice(from, from + NAMES_AT_ONCE).map((name) => `name=${encodeURIComponent(name)}`);
    const { body } = await ask(options, 'GET', `/v1/agents?limit=${NAMES_AT_ONCE}&${asked.join('&')}`);
    for (const { id, name } of (body as { items: Agent[] }).items) ids.set(name, id);
  }
  return ids;
}

/** Reads the names of the agents that policies are scoped to, by their ids. */
async function agentNames(options: Options, policies: readonly Policy[]): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  for (const id of new Set(policies.flatMap(({ agent_id: agent }) => agent ?? []))) {
    const { body } = await ask(options, 'GET', `/v1/agents/${id}`);
    names.set(id, (body as Agent).name);
  }
  return names;
}

async function planOf(options: Options, declared: readonly FilePolicy[]): Promise<PolicyPlan> {
  return (await declare(options, declared, { dry_run: true })).body as PolicyPlan;
}

async function declare(options: Options, declared: readonly FilePolicy[], how: object): Promise<ServiceAnswer> {
  const policies = declared.map(({ policy }) => policy);
  const answer = await ask(options, 'POST', '/v1/policies/apply', { owner: options['owner'], policies, ...how });
  if (answer.status === 200 || answer.status === 412) return answer;
  const places = declared.map(({ place, policy }) => ({ place, name: policy['name'] }));
  throw refusalOf(answer, { list: 'policies', places });
}

function isNothingToDo({ policies }: PolicyPlan): boolean {
  return policies.every(({ action }) => action === 'unchanged');
}

function takesAllAway({ policies }: PolicyPlan): boolean {
  return policies.length > 0 && policies.every(({ action }) => action === 'delete');
}

const SIGNS: Record<PlannedPolicy['action'], string> = {
  create: '+',
  update: '~',
  replace: '±',
  delete: '-',
  unchanged: ' ',
};

function show(plan: PolicyPlan, { json }: Options): void {
  process.stdout.write(json === true ? `${exactJson(plan)}\n` : `${linesOf(plan).join('\n')}\n`);
}

function linesOf({ owner, hash, applied, policies }: PolicyPlan): string[] {
  const lines = policies.flatMap(({ action, name, revision, drifted, hints, differences }) => {
    if (action === 'unchanged') return [];
    const at = revision === null ? '' : `, now at revision ${revision}`;
    const drift = drifted ? ', changed by hand since it was applied' : '';
    const first = `${SIGNS[action]} ${action} ${JSON.stringify(name)}${at}${drift}`;
    const noted = [first, ...hints.map((hint) => `    note: ${hint}`)];
    if (action === 'delete') return noted;
    return [...noted, ...differences.map(({ path, before, after }) => `    ${path}: ${sides(before, after)}`)];
  });
  const counts = Object.keys(SIGNS).map(
    (action) => `${policies.filter((one) => one.action === action).length} ${action}`,
  );
  return [...lines, `owner ${JSON.stringify(owner)}: ${counts.join(', ')}; ${applied ? 'applied' : `plan ${hash}`}`];
}

function sides(before: unknown, after: unknown): string {
  if (before === undefined) return exactJson(after);
  return `${exactJson(before)} -> ${after === undefined ? 'nothing' : exactJson(after)}`;
}
