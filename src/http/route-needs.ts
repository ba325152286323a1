// What a route asks of a key (between the table of routes and authentication).
import type { Permission } from '../../schemas/closed-sets.ts';

/** A permission; the scope `admin`, which no permission represents: keys and account settings; `any`: whatever key. */
export type Need = Permission | 'admin' | 'any';
