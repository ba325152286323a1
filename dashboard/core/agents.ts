// Names of agents, for screens that show ids. One read for all of them; of an account with more than it gives, the rest
// go by id.
import { type Read, useRead } from './queries.ts';
import type { Agent, Page } from './types.ts';

export function useAgents(): Read<Page<Agent>> {
  return useRead<Page<Agent>>('v1/agents?limit=100', { behind: true });
}

export function useAgentNames(): ReadonlyMap<string, string> {
  const { value } = useAgents();
  return new Map((value?.items ?? []).map(({ id, name }) => [id, name]));
}
