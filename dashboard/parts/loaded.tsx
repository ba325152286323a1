// A part of the page that comes when it is needed: a screen, or what few see of one.
// Failure: the service may have been updated, and the part be gone; that is said, with a button that asks again.
import type { ComponentType } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { ApiError } from '../core/api.ts';
import { Problem } from './states.tsx';

export function Loaded({ load }: { load: () => Promise<ComponentType> }) {
  const [Component, setComponent] = useState<ComponentType>();
  const [error, setError] = useState<ApiError>();
  const begin = () => {
    setError(undefined);
    load().then(
      (found) => setComponent(() => found),
      () =>
        setError(
          new ApiError(
            0,
            'unreachable',
            'A part of the page could not be loaded. The service may have been updated: reload the page.',
          ),
        ),
    );
  };
  useLayoutEffect(begin, []); // what is loaded already is drawn without a picture of waiting
  if (error !== undefined) return <Problem error={error} retry={begin} />;
  return Component === undefined ? <p class="quiet waiting">Loading …</p> : <Component />;
}
