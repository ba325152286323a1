// block_action: matches when its fields do. Blocks with `block` among its actions; `alert` alone notifies and lets
// pass.
import type { PolicyKind } from './policy-kind.ts';

export type BlockActionTerms = { type: 'block_action' };

export const blockAction: PolicyKind<BlockActionTerms> = {
  reserved: [],
  compile: () => ({ type: 'block_action' }),
};
