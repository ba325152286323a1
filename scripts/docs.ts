// `npm run docs`: writes the tables of README.md that are made from code, between their markers.
//   <!-- settings:begin --> … <!-- settings:end -->   from SETTINGS in src/config.ts
//   <!-- endpoints:begin --> … <!-- endpoints:end --> from the routes in src/http/routes.ts
//   <!-- errors:begin --> … <!-- errors:end -->       from ERRORS in src/errors.ts
// A test fails when README and code disagree; this mends it. What is outside the markers is never touched.
import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { assetPath } from '../src/assets.ts';
import { SETTINGS } from '../src/config.ts';
import { ERRORS } from '../src/errors.ts';
import { SCOPE_OF } from '../src/http/route.ts';
import { makeRoutes } from '../src/http/routes.ts';

const TABLES: Record<string, () => string> = {
  settings: settingsTable,
  endpoints: endpointsTable,
  errors: errorsTable,
};
/** Each has one place in README. */
export const TABLE_NAMES = Object.keys(TABLES);

/** The text with every generated table in it as the code has it now. */
export function withTables(text: string): string {
  return Object.entries(TABLES).reduce(
    (result, [name, render]) =>
      result.replace(
        new RegExp(`(<!-- ${name}:begin -->\n)[^]*?(<!-- ${name}:end -->)`, 'g'),
        (_all, begin: string, end: string) => `${begin}${render()}${end}`,
      ),
    text,
  );
}

function settingsTable(): string {
  const rows = Object.values(SETTINGS).map(({ env, default: value, description }) => [
    `\`${env}\``,
    value === undefined ? '' : `\`${value}\``,
    description,
  ]);
  return table(['Variable', 'Default', 'Meaning'], rows);
}

/** In the order in which the API's description lists them. */
function endpointsTable(): string {
  const rows = makeRoutes({ metrics: true }).map(({ method, path, needs, operation }) => [
    method,
    `\`${path}\``,
    needs === null ? '' : `\`${SCOPE_OF[needs]}\``,
    needs === null || needs === 'admin' ? '' : `\`${needs}\``,
    operation.summary,
  ]);
  return table(['Method', 'Path', 'Scope', 'Permission', 'Purpose'], rows);
}

/** One row a status and code, in the order of the statuses. */
function errorsTable(): string {
  const rows = Object.entries(ERRORS).map(([code, { status, when }]) => [String(status), `\`${code}\``, when]);
  return table(['Status', 'Code', 'When'], rows);
}

function table(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.map(escapeCell).join(' | ')} |`);
  return `${lines.join('\n')}\n`;
}

function escapeCell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const file = assetPath('README.md');
  const before = readFileSync(file, 'utf8');
  const after = withTables(before);
  if (after !== before) writeFileSync(file, after);
  process.stdout.write(after === before ? 'README.md is up to date\n' : 'README.md: tables written\n');
}
