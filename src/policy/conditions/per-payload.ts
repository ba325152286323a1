// Remembers what is made of the payload that is being judged, so that the many conditions of an account make it once
// (used by expressions and schemas). Events are judged one after the other, each with all its rules, so the last
// payload is enough.

type PayloadWithText = { payload: object; payloadText: string };

export function perPayload<E extends PayloadWithText, T>(make: (event: E) => T): (event: E) => T {
  let last: { payload: object; made: T } | undefined;
  return (event) => {
    if (last?.payload !== event.payload) last = { payload: event.payload, made: make(event) };
    return last.made;
  };
}
