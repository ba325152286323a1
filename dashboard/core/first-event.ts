// The shortest ways to send a first event, as texts to copy (for screens/start.tsx). They are those of docs/joining.md.
// Invariant: each runs as it is, in bash or as the file that it names, once the lines of `settingsOf` have the key of
// the person; the key itself is in none of them.
import { quoted, wordOf } from './curl.ts';

export const WAYS = ['curl', 'typescript', 'python', 'opentelemetry', 'claude-code', 'mcp'] as const;
export type Way = (typeof WAYS)[number];
/** `what` says where the text goes, and what it does. */
type Step = { what: string; text: string };
/** Who sends: `id` where the key is bound to an agent, which is registered then. */
type Sender = { name: string; id?: string };

export const WAY_TITLES: Record<Way, string> = {
  curl: 'curl',
  typescript: 'TypeScript',
  python: 'Python',
  opentelemetry: 'OpenTelemetry',
  'claude-code': 'Claude Code',
  mcp: 'MCP',
};
/** Stands where the key goes. */
const KEY = 'gth_…';
const HEADERS = `-H "Authorization: Bearer $GATEHOUSE_API_KEY" -H 'Content-Type: application/json'`;
const CHECKOUT: Step = { what: 'Where the folder of Gatehouse is:', text: 'export CHECKOUT=/path/to/gatehouse' };
const COMMAND: Step = {
  what: 'Once, on this machine: make the command gatehouse from the folder of Gatehouse.',
  text: '(cd "$CHECKOUT" && npm link)',
};

/** The shell settings that all ways use: address and key. `url`: of the service. */
export function settingsOf(url: string): string {
  return `export GATEHOUSE_URL=${wordOf(url)}\nexport GATEHOUSE_API_KEY=${KEY}`;
}

export function stepsOf(way: Way, url: string, sender: Sender): Step[] {
  switch (way) {
    case 'curl':
      return [{ what: 'Register an agent, and send its first event:', text: curlText(sender) }];
    case 'typescript':
      return [
        CHECKOUT,
        {
          what: 'Build the client, and install it in the folder of your program:',
          text: '(cd "$CHECKOUT" && npm run build:client)\nnpm install "$CHECKOUT/clients/typescript"',
        },
        { what: 'Record what an agent did:', text: typescriptText(sender) },
      ];
    case 'python':
      return [
        CHECKOUT,
        { what: 'Copy the client beside your program:', text: 'cp "$CHECKOUT/clients/python/gatehouse.py" .' },
        { what: 'Record what an agent did:', text: pythonText(sender) },
      ];
    case 'opentelemetry':
      return [
        {
          what: 'Point the exporter of a program that has OpenTelemetry to this service (HTTP, not gRPC):',
          text: 'export OTEL_EXPORTER_OTLP_ENDPOINT="$GATEHOUSE_URL"\nexport OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20$GATEHOUSE_API_KEY"',
        },
        { what: 'Or send one span by hand:', text: spanText(sender) },
      ];
    case 'claude-code':
      return [
        CHECKOUT,
        COMMAND,
        {
          what: '.claude/settings.json of your repository. Start Claude Code in the same shell; it asks before each tool.',
          text: hookText(sender),
        },
      ];
    case 'mcp':
      return [
        CHECKOUT,
        COMMAND,
        {
          what: 'The configuration of your agent: in place of node my-server.mjs stands the command of your MCP server. The first event comes with the first list of its tools.',
          text: mcpText(url, sender),
        },
      ];
  }
}

function curlText({ id }: Sender): string {
  const register =
    id === undefined
      ? `AGENT=$(curl -s "$GATEHOUSE_URL/v1/agents" ${HEADERS} \\
  -d '{"name": "first-agent"}' | grep -o 'agt_[0-9a-z]*' | head -1)`
      : `AGENT=${id}`;
  return `${register}
curl "$GATEHOUSE_URL/v1/agents/$AGENT/events" ${HEADERS} \\
  -d '{"type": "prompt", "payload": {"prompt": "Hello"}}'`;
}

function typescriptText({ name }: Sender): string {
  return `cat > first-event.mjs <<'END'
import { Gatehouse } from '@gatehouse/client';

const { GATEHOUSE_URL: url, GATEHOUSE_API_KEY: key } = process.env;
const gatehouse = new Gatehouse({ url, key, agent: ${JSON.stringify(name)} });
gatehouse.record({ type: 'prompt', payload: { prompt: 'Hello' } });
console.log(await gatehouse.flush());
END
node first-event.mjs`;
}

function pythonText({ name }: Sender): string {
  return `cat > first_event.py <<'END'
from gatehouse import Gatehouse
import os

gh = Gatehouse(os.environ["GATEHOUSE_URL"], os.environ["GATEHOUSE_API_KEY"], agent=${JSON.stringify(name)})
gh.record("prompt", {"prompt": "Hello"})
print(gh.close())
END
python3 first_event.py`;
}

/** The time and ids are the shell's to fill in: between two pieces in single quotes. */
function spanText({ name }: Sender): string {
  const attribute = (key: string, value: string) =>
    `{"key": ${JSON.stringify(key)}, "value": {"stringValue": ${JSON.stringify(value)}}}`;
  const random = (bytes: number) => `'$(od -An -N${bytes} -tx1 /dev/urandom | tr -d ' \\n')'`;
  const owner = quoted(attribute('service.name', name)).slice(1, -1);
  return `curl "$GATEHOUSE_URL/v1/traces" ${HEADERS} -d '{"resourceSpans": [{
  "resource": {"attributes": [${owner}]},
  "scopeSpans": [{"spans": [{
    "traceId": "${random(16)}", "spanId": "${random(8)}", "name": "execute_tool get_weather",
    "startTimeUnixNano": "'$(date +%s)'000000000", "endTimeUnixNano": "'$(date +%s)'500000000",
    "attributes": [
      ${attribute('gen_ai.operation.name', 'execute_tool')},
      ${attribute('gen_ai.tool.name', 'get_weather')},
      ${attribute('gen_ai.tool.call.arguments', '{"city": "Paris"}')}]}]}]}]}'`;
}

function hookText({ name }: Sender): string {
  const command = JSON.stringify(`gatehouse hook --agent ${wordOf(name)} --timeout 55`);
  return `{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [
  {"type": "command", "timeout": 60, "command": ${command}}]}]}}`;
}

function mcpText(url: string, { name }: Sender): string {
  return `{"mcpServers": {"my-server": {
  "command": "gatehouse",
  "args": ["mcp", "--agent", ${JSON.stringify(name)}, "--name", "my-server", "--", "node", "my-server.mjs"],
  "env": {"GATEHOUSE_URL": ${JSON.stringify(url)}, "GATEHOUSE_API_KEY": "${KEY}"}}}}`;
}
