// Checks where an alert may deliver to (before an alert is kept, and again before each attempt).
// E-mail: one plain addr-spec and nothing else, since mail libraries have been led astray by every other form.
// Webhooks and chat: a URL that src/egress lets through. Names are looked up, and their addresses checked, at each
// connection by the sender: a name proves nothing here.

import type { Channel } from '../../../schemas/closed-sets.ts';
import { unreachable } from '../../common/errors.ts';
import { targetUrl } from '../../egress/target-url.ts';

const MAIL_CHARACTERS_MAX = 254;
const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+";
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const ADDR_SPEC = new RegExp(
  `^(${ATOM}(?:\\.${ATOM})*)@(?:${LABEL}\\.)+(?:[A-Za-z]{2,63}|[xX][nN]--[A-Za-z0-9-]{1,59})$`,
);
const LOCAL_PART_MAX = 64;

/** The mistake in the target, for the caller; undefined: none. `allowedHosts`: names the operator lets through. */
export function targetProblem(channel: Channel, target: string, allowedHosts: ReadonlySet<string>): string | undefined {
  switch (channel) {
    case 'email':
      return isMailAddress(target) ? undefined : 'must be one plain e-mail address';
    case 'chat_app':
    case 'webhook':
      return webProblem(target, allowedHosts);
    default:
      return unreachable(channel);
  }
}

/** One plain addr-spec: no name, no quotes, no comment, no list, no address literal. */
export function isMailAddress(text: string): boolean {
  if (text.length > MAIL_CHARACTERS_MAX) return false;
  const local = ADDR_SPEC.exec(text)?.[1];
  return local !== undefined && local.length <= LOCAL_PART_MAX;
}

function webProblem(text: string, allowedHosts: ReadonlySet<string>): string | undefined {
  const url = targetUrl(text, allowedHosts);
  return typeof url === 'string' ? url : undefined;
}
