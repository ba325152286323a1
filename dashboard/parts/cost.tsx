// The cost of an event or a trace, in a row or among facts: as people read it, exact in its title.
import { shortAmount } from '../core/amounts.ts';

/** null: it says tokens, and what they cost is unknown. */
export function Cost({ of }: { of: string | null }) {
  if (of === null) return <span class="quiet">unknown cost</span>;
  return <span title={of}>{shortAmount(of)}</span>;
}
