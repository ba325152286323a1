// The verification of the audit chains as a job: ordered, watched and stopped here, run by a backtests process
// (src/audit/verification-worker.ts). GET /v1/audit-logs/verify answers at once, and is cut off after 8 s.
import { VerificationJob, VerificationOrder } from '../../../schemas/audit-verification.ts';
import { parseExactTime } from '../../../schemas/time.ts';
import { validationFailed } from '../../common/validation.ts';
import { answering } from '../../registry/commit.ts';
import { found, json, NO_CONTENT, notFound } from '../answers/reply.ts';
import { jsonBody, type Route, route } from '../route.ts';

const PATH = '/v1/audit-logs/verification';
const WHAT = 'verification';

export const auditVerificationRoutes: Route[] = [
  route({
    method: 'POST',
    path: PATH,
    needs: 'configure',
    bound: 'refused',
    body: jsonBody(VerificationOrder, 'order'),
    idempotency: 'refused',
    operation: {
      id: 'orderAuditVerification',
      tag: 'Audit log',
      summary: 'Verify the audit chain in the background',
      description:
        'Whatever its size: GET says how far it is. An account has one verification; this one takes the place of the one before, also of one that runs.',
      answers: { 202: { description: 'The verification, as it waits to be run', schema: VerificationJob } },
      bodyExample: { from: '2026-01-01T00:00:00Z' },
    },
    async handle({ account, body }, { verifications, checkpoints }) {
      const { from, to, checkpoint, public_key: key } = body;
      const fromMs = from === undefined ? null : Math.ceil(parseExactTime(from)!);
      // What has not arrived yet cannot be verified, and is not said to be.
      const toMs = to === undefined ? null : Math.min(Date.now(), Math.floor(parseExactTime(to)!));
      if (fromMs !== null && toMs !== null && toMs < fromMs)
        throw validationFailed('Nothing lies between.', [{ path: '/to', message: 'must not be before from' }]);
      const remembered = checkpoint === undefined ? {} : { checkpoint: checkpoints.read(account, checkpoint, key) };
      return json(
        202,
        await answering(() => verifications.order(account, { fromMs, toMs, ...remembered }, Date.now())),
      );
    },
  }),
  route({
    method: 'GET',
    path: PATH,
    needs: 'read',
    bound: 'refused',
    operation: {
      id: 'getAuditVerification',
      tag: 'Audit log',
      summary: 'Get the verification that was ordered last',
      description: 'Its `share` says how far it is; once it is `done`, `valid` says whether all is well.',
      answers: { 200: { description: 'The verification', schema: VerificationJob } },
      errors: ['not_found'],
    },
    async handle({ account }, { verifications }) {
      return json(200, found(await answering(() => verifications.get(account, Date.now())), WHAT));
    },
  }),
  route({
    method: 'DELETE',
    path: PATH,
    needs: 'configure',
    bound: 'refused',
    operation: {
      id: 'removeAuditVerification',
      tag: 'Audit log',
      summary: 'Stop and remove the verification that was ordered last',
      description: 'One that runs ends within its present part, mostly some seconds. Nothing of it is kept.',
      answers: { 204: { description: 'Removed' } },
      errors: ['not_found'],
    },
    async handle({ account }, { verifications }) {
      if (!(await answering(() => verifications.remove(account)))) throw notFound(WHAT);
      return NO_CONTENT;
    },
  }),
];
