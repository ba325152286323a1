// What is where there is nothing to show yet: waiting, an error with a way on, an empty list that teaches.
// Invariant: nothing turns forever. Every call has a deadline (core/api.ts), and every error has a button that asks
// again.
import type { ComponentChildren } from 'preact';
import type { ApiError } from '../core/api.ts';
import { CopyButton } from './buttons.tsx';
import { Literal } from './literal.tsx';

type Reading = { error: ApiError | undefined; waiting: boolean; incomplete: boolean; retry: () => void };

export function Problem({ error, retry }: { error: ApiError; retry?: (() => void) | undefined }) {
  return (
    <div class="problem" role="alert">
      <p>
        <strong>
          <Literal text={error.message} />
        </strong>{' '}
        {adviceOf(error)}
      </p>
      {error.details.length > 0 && (
        <ul>
          {error.details.map(({ path, message }) => (
            <li key={path + message}>
              <code>
                <Literal text={path} />
              </code>{' '}
              <Literal text={message} />
            </li>
          ))}
        </ul>
      )}
      {error.requestId !== '' && (
        <p class="quiet">
          Request <code>{error.requestId}</code>
        </p>
      )}
      {retry !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

function adviceOf({ status, code }: ApiError): string {
  if (code === 'unreachable') return 'Is it running, and is this machine connected? Nothing is lost.';
  if (code === 'timeout') return 'Ask for a shorter time or fewer filters, or try again.';
  if (status === 503)
    return 'Events are still taken and kept; this page shows them once ClickHouse answers again. The operator finds more in the log of the service.';
  if (status === 403) return 'The key that you signed in with may not do this.';
  return '';
}

/**
 * Around what a read gives: `children` are shown as soon as there is something, or `empty` in their place, with the
 * banner or the error above.
 */
export function Reading({
  of,
  empty,
  children,
}: {
  of: Reading;
  empty?: ComponentChildren | false;
  children: ComponentChildren;
}) {
  return (
    <>
      {of.incomplete && (
        <p class="banner" role="status">
          Some events that were just recorded may be missing: they are still on their way into the store.{' '}
          <button type="button" class="link" onClick={of.retry}>
            Look again
          </button>
        </p>
      )}
      {of.error !== undefined && <Problem error={of.error} retry={of.retry} />}
      {of.waiting && of.error === undefined && <p class="quiet waiting">Loading …</p>}
      {!of.waiting && (empty || children)}
    </>
  );
}

/** Below a list that is read page by page. */
export function More({ of }: { of: { hasMore: boolean; total: number; more: () => void } }) {
  if (!of.hasMore) return null;
  return (
    <button type="button" onClick={of.more}>
      More of {of.total.toLocaleString('en')}
    </button>
  );
}

/** `curl`: a command that works as it is, but for the key. */
export function Empty({ title, children, curl }: { title: string; children?: ComponentChildren; curl?: string }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
      {curl !== undefined && (
        <>
          <pre tabIndex={0}>{curl}</pre>
          <CopyButton text={curl} label="Copy the command" />
        </>
      )}
    </div>
  );
}

/** The service's address as commands need it. */
export function serviceUrl(): string {
  return new URL('..', location.href).href.replace(/\/$/, '');
}
