// Turns a migration file into statements: fills in what depends on the deployment and cuts at the semicolons
// (migrate.ts runs them). Pure text. `{{database}}`; `{{on_cluster}}`; `{{engine:Name}}` or
// `{{engine:Name:arguments}}`; `{{deduplication_window:N}}`; `{{retention_days}}`. With a cluster every table becomes
// Replicated…, made on all its nodes, and the window becomes the replicated one. An unknown placeholder throws: it
// would otherwise reach the server as SQL.

export type TemplateOptions = { database: string; cluster: string | undefined; retentionDays: number };

/** Keeper path by shard and table; `{shard}` and `{replica}` are macros of the server's own configuration. */
const REPLICA_PATH = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'";

export function renderSql(text: string, options: TemplateOptions): string {
  return text.replace(/\{\{([a-z_]+)((?::[^}:]+)*)\}\}/g, (whole, name: string, rest: string) => {
    const [first = '', second = ''] = rest.split(':').slice(1);
    switch (name) {
      case 'database':
        return options.database;
      case 'on_cluster':
        return options.cluster === undefined ? '' : ` ON CLUSTER '${options.cluster}'`;
      case 'engine':
        return options.cluster === undefined
          ? `${first}(${second})`
          : `Replicated${first}(${[REPLICA_PATH, second].filter(Boolean).join(', ')})`;
      case 'deduplication_window':
        return `${options.cluster === undefined ? 'non_replicated' : 'replicated'}_deduplication_window = ${first}`;
      case 'retention_days':
        return String(options.retentionDays);
      default:
        throw new Error(`unknown placeholder ${whole}`);
    }
  });
}

/** Statements end with a semicolon at the end of a line. */
export function splitStatements(sql: string): string[] {
  return sql
    .replace(/^--.*$/gm, '')
    .split(/;[ \t]*(?:\n|$)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}
