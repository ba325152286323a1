// The table of routes: every path that the service answers, in the order in which its description lists them.
// Everything about a route follows from its row (route.ts); a path that is not here is 404.
import { accountRoutes } from './handlers/account-routes.ts';
import { adminAccountRoutes } from './handlers/admin-account-routes.ts';
import { agentRoutes } from './handlers/agent-routes.ts';
import { alertRoutes } from './handlers/alert-routes.ts';
import { anomalyRoutes } from './handlers/anomaly-routes.ts';
import { apiKeyRoutes } from './handlers/api-key-routes.ts';
import { approvalRoutes } from './handlers/approval-routes.ts';
import { auditLogRoutes } from './handlers/audit-log-routes.ts';
import { auditVerificationRoutes } from './handlers/audit-verification-routes.ts';
import { backtestRoutes } from './handlers/backtest-routes.ts';
import { budgetRoutes } from './handlers/budget-routes.ts';
import { checkRoutes } from './handlers/check-routes.ts';
import { connectionRoutes } from './handlers/connection-routes.ts';
import { decisionPointRoutes } from './handlers/decision-points/decision-point-routes.ts';
import { deliveryRoutes } from './handlers/delivery-routes.ts';
import { eventCountRoutes } from './handlers/event-count-routes.ts';
import { eventRoutes } from './handlers/event-routes.ts';
import { feedRoutes } from './handlers/feed-routes.ts';
import { healthRoutes, metricsRoute } from './handlers/health-routes.ts';
import { holdRoutes } from './handlers/hold-routes.ts';
import { outgoingFeedRoutes } from './handlers/outgoing-feed-routes.ts';
import { overviewRoutes } from './handlers/overview-routes.ts';
import { policyRevisionRoutes } from './handlers/policy-revision-routes.ts';
import { policyRoutes } from './handlers/policy-routes.ts';
import { policyShadowRoutes } from './handlers/policy-shadow-routes.ts';
import { priceRoutes } from './handlers/price-routes.ts';
import { sessionRoutes } from './handlers/session-routes.ts';
import { spanRoutes } from './handlers/span-routes.ts';
import { streamRoutes } from './handlers/stream-routes.ts';
import { traceRoutes } from './handlers/trace-routes.ts';
import { usageRoutes } from './handlers/usage-routes.ts';
import { viewRoutes } from './handlers/view-routes.ts';
import { openApiRoute } from './openapi/document.ts';
import type { Route } from './route.ts';

type RouteOptions = {
  /** false where `/metrics` is served on a port of its own. */
  metrics: boolean;
  /** By which the service is reached, where that is known. */
  publicUrl?: string | undefined;
};

export function makeRoutes({ metrics, publicUrl }: RouteOptions): Route[] {
  const routes = [
    ...agentRoutes,
    ...eventRoutes,
    ...eventCountRoutes,
    ...overviewRoutes,
    ...spanRoutes,
    ...decisionPointRoutes,
    ...traceRoutes,
    ...policyRoutes,
    ...policyRevisionRoutes,
    ...backtestRoutes,
    ...policyShadowRoutes,
    ...alertRoutes,
    ...deliveryRoutes,
    ...approvalRoutes,
    ...anomalyRoutes,
    ...auditVerificationRoutes,
    ...auditLogRoutes,
    ...apiKeyRoutes,
    ...sessionRoutes,
    ...viewRoutes,
    ...usageRoutes,
    ...holdRoutes,
    ...connectionRoutes,
    ...checkRoutes,
    ...outgoingFeedRoutes,
    ...priceRoutes,
    ...budgetRoutes,
    ...accountRoutes,
    ...adminAccountRoutes,
    ...streamRoutes,
    ...feedRoutes,
    ...healthRoutes,
    ...(metrics ? [metricsRoute] : []),
  ];
  return [...routes, openApiRoute(routes, publicUrl)];
}
