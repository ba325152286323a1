// What is made when it is first asked for, and then kept. A failure is thrown, and it is made again the next time.
export function lazily<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
