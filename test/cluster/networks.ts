// Two networks beside the test's own, as two machines: what runs in one reaches the other and the test, until the cable
// between the two is cut. By network namespaces of Linux; needs root and iproute2.
import { execFileSync } from 'node:child_process';
import type { Test } from 'tap';
import type { Place } from '../support/redis.ts';

type Networks = { one: Place; other: Place; cut: () => void };

function ip(...words: string[]): void {
  execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] });
}

export function canMakeNetworks(): boolean {
  const name = `gh-try-${process.pid}`;
  try {
    ip('netns', 'add', name);
    ip('netns', 'del', name);
    return true;
  } catch {
    return false;
  }
}

export function makeNetworks(t: Test): Networks {
  const [one, other] = [1, 2].map((n) => ({ name: `gh-${process.pid}-${n}`, link: `gh${process.pid}${n}`, net: n }));
  for (const { name, link, net } of [one!, other!]) {
    ip('netns', 'add', name);
    t.teardown(() => ip('netns', 'del', name));
    ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'out', 'netns', name);
    ip('addr', 'add', `10.77.${net}.1/24`, 'dev', link);
    ip('link', 'set', link, 'up');
    ip('-n', name, 'addr', 'add', `10.77.${net}.2/24`, 'dev', 'out');
    for (const up of ['out', 'lo']) ip('-n', name, 'link', 'set', up, 'up');
  }
  ip('-n', one!.name, 'link', 'add', 'cable', 'type', 'veth', 'peer', 'name', 'cable', 'netns', other!.name);
  for (const { name, net } of [one!, other!]) {
    ip('-n', name, 'addr', 'add', `10.77.3.${net}/24`, 'dev', 'cable');
    ip('-n', name, 'link', 'set', 'cable', 'up');
  }
  ip('-n', one!.name, 'route', 'add', '10.77.2.2/32', 'via', '10.77.3.2', 'src', '10.77.1.2');
  ip('-n', other!.name, 'route', 'add', '10.77.1.2/32', 'via', '10.77.3.1', 'src', '10.77.2.2');
  const place = ({ name, net }: { name: string; net: number }): Place => ({
    host: `10.77.${net}.2`,
    run: ['ip', 'netns', 'exec', name],
  });
  return { one: place(one!), other: place(other!), cut: () => ip('-n', one!.name, 'link', 'set', 'cable', 'down') };
}
