// The report of a shadow: what it may hold, and how much of it.
import t from 'tap';
import { Compile } from 'typebox/compile';
import { SHADOW_REPORT_ROWS_MAX, type ShadowCounts, ShadowReport } from '../../schemas/shadow-report.ts';

const none: ShadowCounts = {
  ...{ newly_blocked: 0, no_longer_blocked: 0, newly_pending: 0, no_longer_pending: 0 },
  ...{ newly_matched: 0, no_longer_matched: 0, same: 0, skipped: 0, same_outcome: 0 },
};
const report: ShadowReport = {
  ...{ policy_id: 'pol_1', revision: 1, since_revision: 1, shadow_of: null },
  ...{ from: '2026-11-20T00:00:00.000Z', to: '2026-11-21T00:00:00.000Z', counts: { ...none, skipped: 1 } },
  by_day: [{ day: '2026-11-20', ...none, skipped: 1 }],
  by_agent: [{ agent_id: 'agt_1', ...none, skipped: 1 }],
  by_tool: [{ tool: null, ...none, skipped: 1 }],
  samples: [],
};

t.test('an event that was skipped is counted, and is no sample', async (t) => {
  const form = Compile(ShadowReport);
  t.ok(form.Check(report));
  const sample = {
    ...{ event_id: 'evt_1', agent_id: 'agt_1', timestamp: '2026-11-20T00:00:00.000Z', tool: null },
    ...{ did: 'not_matched', would: 'blocked', change: 'newly_blocked', outcome: 'allowed' },
  };
  t.ok(form.Check({ ...report, samples: Array.from({ length: SHADOW_REPORT_ROWS_MAX }, () => sample) }));
  t.notOk(form.Check({ ...report, samples: [{ ...sample, would: 'skipped' }] }));
});
