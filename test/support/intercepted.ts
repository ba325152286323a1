// A real client with a word of the test's own between its callers and its methods: to count calls, to lose an answer,
// to die at a step.

type Call = { name: string; args: readonly unknown[]; go: () => unknown };

/** `answer`: what a call gives; `go` makes it. */
export function intercepted<T extends object>(client: T, answer: (call: Call) => unknown): T {
  return new Proxy(client, {
    get(target, name) {
      const method = Reflect.get(target, name) as unknown;
      if (typeof method !== 'function') return method;
      return (...args: unknown[]) =>
        answer({ name: String(name), args, go: () => method.apply(target, args) as unknown });
    },
  });
}
