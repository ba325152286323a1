// Where people find a page of the dashboard (notifications, and answers that name an approval).
// Invariant: made of the operator's own address (GATEHOUSE_PUBLIC_URL) and of ids that we minted.
// Failure: without that setting the service does not know its public address, and there is none.

/** `publicUrl`: with the path that a proxy puts before ours. */
export function pagesOf(publicUrl: string): string {
  return `${publicUrl.replace(/\/+$/, '')}/ui`;
}

export function approvalPage(publicUrl: string, id: string): string {
  return `${pagesOf(publicUrl)}/approvals?id=${id}`;
}
