// How to send as one agent: the same event by a shell, by TypeScript, by Python, with this service's address and the
// agent's id. No key stands in them: it is read from the environment.
import { useState } from 'preact/hooks';
import { CopyButton } from './buttons.tsx';
import { serviceUrl } from './states.tsx';

type Snippet = { name: string; text: (url: string, agent: string) => string; note: string };

const SNIPPETS: readonly Snippet[] = [
  {
    name: 'curl',
    note: 'The answer says whether the event is allowed, blocked, or waits for an approval.',
    text: (url, agent) =>
      `curl -X POST ${url}/v1/agents/${agent}/events \\
  -H "Authorization: Bearer $GATEHOUSE_KEY" -H 'Content-Type: application/json' \\
  -d '{"type":"prompt","payload":{"prompt":"Hello"}}'`,
  },
  {
    name: 'TypeScript',
    note: 'A function that is guarded is asked about before it runs: one that is blocked throws, and has not run.',
    text: (url, agent) =>
      `import { Gatehouse } from '@gatehouse/client';

const gh = new Gatehouse({
  url: ${JSON.stringify(url)},
  key: process.env.GATEHOUSE_KEY!,
  agent: '${agent}',
});
const refund = gh.guard('refund', async ({ order }: { order: number }) => \`refunded \${order}\`);
console.log(await refund({ order: 7 }));
gh.record({ type: 'completion', payload: { response: 'done', tokens_used: 42 } });
await gh.flush();`,
  },
  {
    name: 'Python',
    note: 'A function that is guarded is asked about before it runs: one that is blocked raises, and has not run.',
    text: (url, agent) =>
      `import os
from gatehouse import Gatehouse

gh = Gatehouse(${JSON.stringify(url)}, os.environ["GATEHOUSE_KEY"], agent="${agent}")

@gh.guard("refund")
def refund(order):
    return "refunded %d" % order

print(refund(order=7))
gh.record("completion", {"response": "done", "tokens_used": 42})
gh.flush()`,
  },
];

export function SendAs({ agentId }: { agentId: string }) {
  const [shown, setShown] = useState(SNIPPETS[0]!);
  const text = shown.text(serviceUrl(), agentId);
  return (
    <section class="card" aria-label="Send as this agent">
      <h2>Send as this agent</h2>
      <p class="quiet">
        With a key that may write in <code>GATEHOUSE_KEY</code>. {shown.note}
      </p>
      <div class="bar">
        {SNIPPETS.map((one) => (
          <button key={one.name} type="button" aria-pressed={one === shown} onClick={() => setShown(one)}>
            {one.name}
          </button>
        ))}
        <span class="grow" />
        <CopyButton text={text} label="Copy" />
      </div>
      <pre class="snippet" tabIndex={0} role="group" aria-label={`${shown.name} that sends as this agent`}>
        {text}
      </pre>
    </section>
  );
}
