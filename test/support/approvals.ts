// Approvals as tests wait for them: an event that is pending is in the list a little later.
import type { Api } from './api.ts';

/** Until the list of those that wait has it. */
export async function untilListed(api: Api, id: string): Promise<void> {
  await api.until(
    () => api.get('/v1/approvals?status=pending&limit=100'),
    ({ json }) => json.items.some((one: { id: string }) => one.id === id),
  );
}
