// The page of the dashboard that shows the subject of a notification (for the deliveries;
// GATEHOUSE_PUBLIC_URL).
// Invariant: made of the operator's own address and of ids that we minted, never of words of a caller: channels send it
// as it is, where they break every address that a name or a message holds.
// Failure: without that setting the service does not know its public address, and there is no link.
import type { Signal } from '../../schemas/signal.ts';
import { approvalPage, pagesOf } from '../../src/common/page-address.ts';

const ID = /^[a-z]{3}_[0-9a-z]{26}$/;

/** The page for a signal: of what has to be decided, else of the event, else of the agent. undefined: no page. */
export function linkOf(publicUrl: string | undefined, { agent, event, approval }: Signal): string | undefined {
  if (publicUrl === undefined) return undefined;
  const ids = [agent, event?.id, approval?.id].filter((id) => id !== null && id !== undefined);
  if (!ids.every((id) => ID.test(id))) return undefined;
  if (approval !== undefined) return approvalPage(publicUrl, approval.id);
  const pages = pagesOf(publicUrl);
  if (agent === null) return undefined;
  return event === undefined ? `${pages}/agents?q=${agent}` : `${pages}/event?agent_id=${agent}&id=${event.id}`;
}
