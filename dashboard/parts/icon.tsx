// Icons of one kept set, drawn in the colour of the text beside them, which says the same: a screen reader has no use
// for them. Each is named where it is imported, so that the build keeps no other.

import {
  Activity,
  Bell,
  Bot,
  CircleCheckBig,
  Gauge,
  type IconNode,
  List,
  Route,
  ScrollText,
  Send,
  Settings,
  ShieldCheck,
} from 'lucide';
import { h } from 'preact';

/** The icons of the screens that the navigation lists, by their paths. */
const OF_SCREENS: Readonly<Record<string, IconNode>> = {
  overview: Gauge,
  events: List,
  traces: Route,
  agents: Bot,
  approvals: CircleCheckBig,
  policies: ShieldCheck,
  anomalies: Activity,
  alerts: Bell,
  deliveries: Send,
  audit: ScrollText,
  settings: Settings,
};

export function ScreenIcon({ path }: { path: string }) {
  const icon = OF_SCREENS[path];
  return icon === undefined ? null : <Icon of={icon} />;
}

function Icon({ of }: { of: IconNode }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      {of.map(([shape, attributes]) => h(shape, attributes))}
    </svg>
  );
}
