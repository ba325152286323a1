// The screens: one line each. A new one is a file here, a line below, and a test; the palette and the navigation
// follow. The first is in the first load; what fewer people open comes when it is opened.
import type { ComponentType } from 'preact';
import { Overview } from './overview.tsx';

export type Screen = {
  path: string;
  title: string;
  /** Shown in the navigation. */
  listed: boolean;
  /** Found by the palette although it is not in the navigation. */
  found?: true;
  /** A key bound to an agent is refused there. */
  account?: true;
  /** The key behind `g` that goes there. */
  key?: string;
  load: () => Promise<ComponentType>;
};

export const SCREENS: readonly Screen[] = [
  { path: 'overview', title: 'Overview', listed: true, key: 'h', load: async () => Overview },
  { path: 'events', title: 'Events', listed: true, key: 'e', load: async () => (await import('./events.tsx')).Events },
  { path: 'event', title: 'Event', listed: false, load: async () => (await import('./event.tsx')).Event },
  {
    path: 'start',
    title: 'How to send',
    listed: false,
    found: true,
    load: async () => (await import('./start.tsx')).Start,
  },
  { path: 'traces', title: 'Traces', listed: true, key: 't', load: async () => (await import('./traces.tsx')).Traces },
  { path: 'trace', title: 'Trace', listed: false, load: async () => (await import('./trace.tsx')).Trace },
  { path: 'agents', title: 'Agents', listed: true, key: 'a', load: async () => (await import('./agents.tsx')).Agents },
  { path: 'agent', title: 'Agent', listed: false, load: async () => (await import('./agent.tsx')).AgentPage },
  {
    path: 'approvals',
    title: 'Approvals',
    listed: true,
    key: 'p',
    load: async () => (await import('./approvals.tsx')).Approvals,
  },
  {
    path: 'policies',
    title: 'Policies',
    listed: true,
    account: true,
    key: 'o',
    load: async () => (await import('./policies.tsx')).Policies,
  },
  {
    path: 'checks',
    title: 'Checks',
    listed: false,
    found: true,
    account: true,
    load: async () => (await import('./checks.tsx')).Checks,
  },
  {
    path: 'connections',
    title: 'Connections',
    listed: false,
    found: true,
    account: true,
    load: async () => (await import('./connections.tsx')).Connections,
  },
  {
    path: 'anomalies',
    title: 'Anomalies',
    listed: true,
    key: 'n',
    load: async () => (await import('./anomalies.tsx')).Anomalies,
  },
  {
    path: 'alerts',
    title: 'Alerts',
    listed: true,
    account: true,
    key: 'l',
    load: async () => (await import('./alerts.tsx')).Alerts,
  },
  {
    path: 'deliveries',
    title: 'Deliveries',
    listed: true,
    key: 'd',
    load: async () => (await import('./deliveries.tsx')).Deliveries,
  },
  { path: 'audit', title: 'Audit log', listed: true, key: 'u', load: async () => (await import('./audit.tsx')).Audit },
  {
    path: 'settings',
    title: 'Settings',
    listed: true,
    key: 's',
    load: async () => (await import('./settings.tsx')).Settings,
  },
];
