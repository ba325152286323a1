// Ids: their form, and where what one names is shown, which its first letters say.
import { hrefOf } from './router.ts';

/** undefined: it is no id of anything that is shown. */
export function hrefOfId(id: string): string | undefined {
  return {
    evt: hrefOf('event', { id }),
    agt: hrefOf('agent', { id }),
    pol: hrefOf('policies', { id }),
    apr: hrefOf('approvals', { id }),
    ano: hrefOf('anomalies', { id }),
    dlv: hrefOf('deliveries', { id }),
    bkt: hrefOf('policies', { view: 'backtests', backtest: id }),
    log: hrefOf('audit', { id, submissions: 'all' }),
    alr: hrefOf('alerts'),
    chk: hrefOf('checks'),
    con: hrefOf('connections'),
    key: hrefOf('settings'),
    ses: hrefOf('settings'),
  }[/^([a-z]{3})_\w+$/.exec(id)?.[1] ?? ''];
}

/** Has it the form of an id of this service? */
export function isId(text: string): boolean {
  return /^[a-z]{3}_[0-9a-z]{26}$/.test(text);
}
