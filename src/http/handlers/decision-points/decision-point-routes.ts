// The routes of all decision points: tools that ask in a form of their own whether something may be done.
import type { Route } from '../../route.ts';
import { authZenRoute } from './authzen-route.ts';
import { hookRoutes } from './hook-routes.ts';
import { inferenceRoute } from './inference-route.ts';
import { liteLlmRoute } from './litellm-route.ts';
import { opaRoute } from './opa-route.ts';

export const decisionPointRoutes: Route[] = [...hookRoutes, opaRoute, authZenRoute, inferenceRoute, liteLlmRoute];
