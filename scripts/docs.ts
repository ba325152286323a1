// `npm run docs`: writes what pages of docs have from code, between their markers.
//   <!-- settings:begin --> … <!-- settings:end -->   from SETTINGS in src/process/config.ts
//   <!-- endpoints:begin --> … <!-- endpoints:end --> from the routes in src/http/routes.ts
//   <!-- errors:begin --> … <!-- errors:end -->       from ERRORS in src/common/errors.ts
//   <!-- detectors:begin --> … <!-- detectors:end -->  from the corpora of test/policy/corpus
//   <!-- fail-closed:begin --> … <!-- fail-closed:end --> from WAYS in test/fail-closed/table.ts
//   <!-- metrics:begin --> … <!-- metrics:end -->     from METRICS in src/metrics/metrics.ts
//   clients/typescript/src/api.ts                     from schemas, by way of the API's description
//   <!-- alerts:begin --> … <!-- alerts:end -->       from ops/prometheus-alerts.yaml
// A test fails when a page and the code disagree; this mends it. What is outside the markers is never touched.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { ERRORS } from '../src/common/errors.ts';
import { SCOPE_OF } from '../src/http/route.ts';
import { makeRoutes } from '../src/http/routes.ts';
import { METRICS, type MetricSpec } from '../src/metrics/metrics.ts';
import { assetPath } from '../src/process/assets.ts';
import { SETTINGS } from '../src/process/config.ts';
import { failClosedSections } from '../test/fail-closed/table.ts';
import { measured } from '../test/policy/corpus/measure.ts';
import { CLIENT_TYPES, clientApi } from './client-types.ts';

const TABLES: Record<string, () => string> = {
  settings: settingsTable,
  endpoints: endpointsTable,
  errors: errorsTable,
  detectors: detectorsTable,
  'fail-closed': failClosedSections,
};
/** Page -> the tables that it has. */
export const TABLES_OF: Record<string, string[]> = {
  'docs/api.md': ['endpoints', 'errors'],
  'docs/settings.md': ['settings'],
  'docs/policy-reference.md': ['detectors'],
  'docs/fail-closed.md': ['fail-closed'],
};

/** The text with every generated table in it as the code has it now. */
export function withTables(text: string): string {
  return Object.entries(TABLES).reduce((result, [name, render]) => between(result, name, render), text);
}

/** The text of docs/monitoring.md with the alerts and metrics as they are now. */
export function withMonitoring(text: string): string {
  return between(between(text, 'alerts', alertSections), 'metrics', metricsTable);
}

function between(text: string, name: string, render: () => string): string {
  return text.replace(
    new RegExp(`(<!-- ${name}:begin -->\n)[^]*?(<!-- ${name}:end -->)`, 'g'),
    (_all, begin: string, end: string) => `${begin}${render()}${end}`,
  );
}

function detectorsTable(): string {
  const rows = measured().map(
    ({ detector, precision, recall, texts }) =>
      `| \`${detector}\` | ${texts} | ${precision.toFixed(2)} | ${recall.toFixed(2)} |\n`,
  );
  return `| detector | texts | precision | recall |\n|---|---|---|---|\n${rows.join('')}`;
}

/** Lines of at most 120 columns, as the other pages have them. */
function wrapped(prose: string): string {
  return prose.replace(/(.{1,120})(?: |$)/g, '$1\n').trimEnd();
}

export type AlertRule = Record<
  'alert' | 'expr' | 'for' | 'severity' | 'summary' | 'description' | 'runbook_url',
  string
>;

/** The rules of ops/prometheus-alerts.yaml, which is written with one key a line and texts as in JSON. */
export function alertRules(): AlertRule[] {
  const text = readFileSync(assetPath('ops/prometheus-alerts.yaml'), 'utf8');
  return text
    .split(/^ {6}- (?=alert: )/m)
    .slice(1)
    .map((rule) => {
      const lines = [...rule.matchAll(/^ *(\w+): (.+)$/gm)];
      return Object.fromEntries(lines.map(([, key, value]) => [key, unquoted(value!)]));
    });
}

function unquoted(value: string): string {
  if (value.startsWith("'")) return value.slice(1, -1).replaceAll("''", "'");
  return value.startsWith('"') ? (JSON.parse(value) as string) : value;
}

function alertSections(): string {
  return alertRules()
    .map(
      (rule) =>
        `### ${rule.alert}\n\n${rule.severity}, after ${rule.for}:\n\n\`\`\`promql\n${rule.expr}\n\`\`\`\n\n${wrapped(rule.description)}\n`,
    )
    .join('\n');
}

function metricsTable(): string {
  const rows = Object.entries<MetricSpec>(METRICS).map(([name, { kind, labels, of = 'every', help }]) => [
    `\`${name}${labels.length === 0 ? '' : `{${labels.join(',')}}`}\``,
    kind,
    of,
    help,
  ]);
  return table(['Metric', 'Kind', 'Process', 'Meaning'], rows);
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
    needs === null || needs === 'admin' || needs === 'operator' ? '' : `\`${needs}\``,
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
  for (const page of Object.keys(TABLES_OF)) write(page, withTables);
  write('docs/monitoring.md', withMonitoring);
  const types = await clientApi();
  write(CLIENT_TYPES, () => types);
}

function write(name: string, render: (text: string) => string): void {
  const file = assetPath(name);
  const before = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const after = render(before);
  if (after !== before) writeFileSync(file, after);
  process.stdout.write(after === before ? `${name} is up to date\n` : `${name}: written\n`);
}
