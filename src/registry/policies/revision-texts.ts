// What a revision of a policy says, as texts, and their hash (between a change of a policy, the journal's way into
// table `policy_revisions`, and the verification of the audit log). The hash is in the change's audit entry, and so in
// the chain: a revision whose text is changed later is found.
// Invariant: the pipelines make the same texts of the journal entry as the change made of its records; both come here.
import { createHash } from 'node:crypto';
import { differencesOf } from '../../common/differences.ts';
import { exactJson, parseExact } from '../../common/exact-json.ts';

/** The fields that changed, as the audit entry has them. Without `before` nothing is compared. */
type Changed = { before?: unknown; after?: unknown };

/** `record`: null: deleted. */
export function revisionTexts(record: object | null, { before, after }: Changed) {
  return {
    differences: exactJson(before === undefined ? [] : differencesOf(before, after)),
    record: record === null ? '' : exactJson(record),
  };
}

/** For the audit entry of the change: SHA-256 in hex of both texts, a line feed between them. */
export function revisionSha256(record: object | null, { before, after }: Changed): { revision_sha256: string } {
  // As the journal hands them on: what has no value is not there.
  const handed = parseExact(exactJson({ record, before, after })) as Changed & { record: object | null };
  const texts = revisionTexts(handed.record, handed);
  const sha256 = createHash('sha256').update(`${texts.differences}\n${texts.record}`).digest('hex');
  return { revision_sha256: sha256 };
}
