// Takes the rows of the present filters away as a file: the browser saves what the service streams.
import type { ComponentChildren } from 'preact';
import { fileUrl, read } from '../core/api.ts';

export function ExportMenu({ path, name }: { path: string; name: string }) {
  const as = (format: string) => `${path}${path.includes('?') ? '&' : '?'}format=${format}`;
  return (
    <details class="menu">
      <summary>Export</summary>
      <div class="choices">
        <FileLink path={as('csv')} name={`${name}.csv`}>
          CSV
        </FileLink>
        <FileLink path={as('ndjson')} name={`${name}.ndjson`}>
          NDJSON
        </FileLink>
      </div>
    </details>
  );
}

type FileLinkProps = { path: string; name: string; isButton?: boolean; children: ComponentChildren };

/** The browser alone learns that a file was refused, so the page asks for itself whether its session goes on. */
export function FileLink({ path, name, isButton = false, children }: FileLinkProps) {
  const ask = () => void read('v1/session').catch(() => undefined);
  return (
    <a class={isButton ? 'button' : ''} href={fileUrl(path)} download={name} onClick={ask}>
      {children}
    </a>
  );
}
