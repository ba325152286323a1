// Asks a service over its API, with the address and the key of the command line (for the commands that plan and apply
// files).
// Failure: ServiceRefused, in words: no answer, a redirect, an error with the places of its mistakes in the files.
import type { ErrorDetail } from '../../schemas/error.ts';
import { exactJson, parseExact } from '../common/exact-json.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import { serviceToAsk } from './context.ts';

export type Options = Record<string, string | boolean | undefined>;
export type ServiceAnswer = { status: number; body: unknown };
/** The list that was sent: of each item the place in its file and its name. */
type Sent = { list: string; places: readonly { place: string; name: unknown }[] };

export class ServiceRefused extends UserFacingError {
  override name = 'ServiceRefused';
  /** The answer's; undefined: there was none. */
  readonly status: number | undefined;

  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

const DEADLINE_MS = 60_000;

/** Throws ServiceRefused. `ifMatch`: as the header has it. */
export async function ask(
  options: Options,
  method: string,
  path: string,
  body?: object,
  ifMatch?: string,
): Promise<ServiceAnswer> {
  const { url: base, key } = serviceToAsk(options['url']);
  const response = await fetch(`${base}${path}`, {
    method,
    // The key goes to this address and to no other.
    redirect: 'manual',
    headers: {
      ...{ authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
    },
    signal: AbortSignal.timeout(DEADLINE_MS),
    ...(body === undefined ? {} : { body: exactJson(body) }),
  }).catch(noAnswer(base));
  if (response.status >= 300 && response.status < 400)
    throw new ServiceRefused(
      `${base} redirects to ${response.headers.get('location')}: set GATEHOUSE_URL to it`,
      response.status,
    );
  const answer = { status: response.status, body: parsed(await response.text().catch(noAnswer(base))) };
  if (method === 'GET' && !response.ok) throw refusalOf(answer);
  return answer;
}

function noAnswer(base: string): (error: Error) => never {
  return (error) => {
    const { cause = error } = error as { cause?: Error };
    throw new ServiceRefused(`${base} gives no answer: ${(cause as Error).message}`);
  };
}

function parsed(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** Places in what was sent become those in the files. */
export function refusalOf(
  { status, body }: ServiceAnswer,
  { list, places }: Sent = { list: '', places: [] },
): ServiceRefused {
  const error = (body as { error?: { message: string; details?: ErrorDetail[] } } | undefined)?.error;
  if (error === undefined)
    return new ServiceRefused(
      `what answers there is not Gatehouse, or the path of the address is another one: status ${status}`,
      status,
    );
  const inList = new RegExp(`/${list}/(\\d+)`, 'g');
  const details = (error.details ?? []).map(({ path, message }) => {
    const [, i, rest = ''] = new RegExp(`^/${list}/(\\d+)(.*)$`).exec(path) ?? [];
    const of = i === undefined ? undefined : places[Number(i)];
    if (of === undefined) return `\n  ${path}: ${message}`;
    const other = message.replace(inList, (all, n: string) => places[Number(n)]?.place ?? all);
    return `\n  ${of.place}: ${JSON.stringify(of.name)} ${rest}: ${other}`;
  });
  return new ServiceRefused(`${error.message}${details.join('')}`, status);
}
