// Takes the rows of the present filters away as a file: the browser saves what the service streams.
export function ExportMenu({ path, name }: { path: string; name: string }) {
  const address = (format: string) => `../${path}${path.includes('?') ? '&' : '?'}format=${format}`;
  return (
    <details class="menu">
      <summary>Export</summary>
      <div class="choices">
        <a href={address('csv')} download={`${name}.csv`}>
          CSV
        </a>
        <a href={address('ndjson')} download={`${name}.ndjson`}>
          NDJSON
        </a>
      </div>
    </details>
  );
}
