// Saved views: save, list, delete.
import { SavedView, ViewCreate } from '../../../schemas/view.ts';
import type { Route } from '../route.ts';
import { resourceRoutes } from './resource-routes.ts';

const views = resourceRoutes(
  { one: 'view', many: 'views', bound: 'refused', schema: SavedView },
  (registry) => registry.views,
);

export const viewRoutes: Route[] = [
  views.create({
    body: ViewCreate,
    summary: 'Save a view',
    description: 'A list of the dashboard with its filters under a name. An account has at most 100.',
    bodyExample: { name: 'blocked today', screen: 'events', query: 'outcome=blocked&range=24h' },
  }),
  views.list({ summary: 'List saved views', description: 'Newest first.' }),
  views.remove({ description: 'Of the name alone: what it showed stays.' }),
];
