// What is where no event has ever come: how to send the first.
import { Empty, serviceUrl } from './states.tsx';

export function NoEvents() {
  const url = serviceUrl();
  const curl = `AGENT=$(curl -s -X POST ${url}/v1/agents -H "Authorization: Bearer $GATEHOUSE_KEY" -H 'Content-Type: application/json' -d '{"name":"first-agent"}' | sed 's/.*"id":"\\(agt_[^"]*\\)".*/\\1/')
curl -X POST ${url}/v1/agents/$AGENT/events -H "Authorization: Bearer $GATEHOUSE_KEY" -H 'Content-Type: application/json' -d '{"type":"prompt","payload":{"prompt":"Hello"}}'`;
  return (
    <Empty title="No events yet" curl={curl}>
      <p>
        An agent sends its events over HTTP. Register one and send the first, with a key that may write in{' '}
        <code>GATEHOUSE_KEY</code>:
      </p>
    </Empty>
  );
}
