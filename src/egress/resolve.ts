// Turns the name of a target's host into addresses (between the check of a URL and the connection; guarded-https.ts).
// Names that users gave go to the name servers by c-ares, which can be stopped: `getaddrinfo` cannot, and its few
// threads, once they wait for a name server that an attacker made slow on purpose, would keep every other target
// waiting, too. Names that the operator allowed go by `getaddrinfo`, which knows /etc/hosts and the search domains of
// an intranet.
// Invariant: the result is of this moment; nothing is cached, so the connection uses these addresses
// alone.
import { lookup, Resolver } from 'node:dns/promises';

/** Two tries of one and two seconds at each name server. */
const TRY_MS = 1_000;
const TRIES = 2;

export type Resolve = (host: string, over: AbortSignal) => Promise<string[]>;

/**
 * By the name servers of this machine, or those given (`127.0.0.1:5353`). A resolver a question: resolv.conf may
 * change.
 */
export function byNameServers(servers?: readonly string[]): Resolve {
  return async (host, over) => {
    const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
    if (servers !== undefined) resolver.setServers(servers);
    const stop = () => resolver.cancel();
    over.addEventListener('abort', stop, { once: true });
    try {
      const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
      if (four.status === 'rejected' && six.status === 'rejected') throw four.reason;
      return [...(four.status === 'fulfilled' ? four.value : []), ...(six.status === 'fulfilled' ? six.value : [])];
    } finally {
      over.removeEventListener('abort', stop);
    }
  };
}

/** As every program of this machine would. */
export const bySystem: Resolve = async (host) => {
  const found = await lookup(host, { all: true, verbatim: false });
  return found.map(({ address }) => address);
};
