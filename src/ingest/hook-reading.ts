// Reads what a product with hooks has sent, to the events that it means: questions of a few bytes on the loop that
// answers, whole conversations of up to 10 MB in the judging thread (judging-thread.ts), which hands them over part by
// part, since copying them at once would hold that loop as well (before http's inference-judging.ts).
// Failure: ServiceError. A message that cannot be an event says so by its `fault`, so that those before it are judged.
import type Type from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import type { EventType } from '../../schemas/closed-sets.ts';
import { InferenceHook } from '../../schemas/decision-points.ts';
import { ServiceError } from '../common/errors.ts';
import { ObjectText } from '../common/object-text.ts';
import { dropOptionalNulls } from '../common/optional-nulls.ts';
import { errorDetails, validationFailed } from '../common/validation.ts';
import { NotUnderstood } from '../hooks/hook-form.ts';
import { type InferenceMessage, type InferenceRequest, payloadsOf, readInference } from '../hooks/inference-hook.ts';
import { parseMarked } from './json.ts';

/** `payload`: the text of an object. */
type ReadEvent = { type: EventType; payload: string };
/** `fault`: why it cannot be judged; left out: it can. */
export type ReadMessage = { digest: string; events: readonly ReadEvent[]; fault?: string };
export type ReadConversation = Omit<InferenceRequest, 'messages' | 'context'> & { messages: readonly ReadMessage[] };

/** Handed over at once: a few milliseconds of copying. */
const PART_CHARACTERS = 512 * 1024;
const PART_MESSAGES = 100;
/**
 * The keys of a conversation, whose other bounds need a third of them. A key of its own costs 100 times what the byte
 * of a text does, so 10 MB of them would hold for seconds the thread that all accounts share.
 */
const KEYS_MAX = 100_000;

const validator = Compile(InferenceHook);

/** The body as it came. `keysMax`: in all its objects. Throws ServiceError malformed_json, validation_failed. */
export function bodyOf(
  body: Buffer,
  schema: Type.TSchema,
  valid: Validator,
  bounds: { keysMax?: number } = {},
): ObjectText {
  const { value, text } = parseMarked(body, 'one', bounds);
  if (!valid.Check(value)) dropOptionalNulls(schema, value);
  if (!valid.Check(value)) throw validationFailed('The question does not fit its schema.', errorDetails(valid, value));
  return ObjectText.of(text)!;
}

/** `seed`: what the hashes of messages begin with. `bytesMax`: of an event. Throws ServiceError. */
export function readConversation(body: Buffer, seed: string, bytesMax: number): ReadConversation {
  try {
    const { messages, context, ...head } = readInference(
      bodyOf(body, InferenceHook, validator, { keysMax: KEYS_MAX }),
      seed,
    );
    return { ...head, messages: messages.map((message) => readMessage(message, context, bytesMax)) };
  } catch (error) {
    throw error instanceof NotUnderstood ? new ServiceError('validation_failed', `${error.message}.`) : error;
  }
}

function readMessage(
  { digest, said }: InferenceMessage,
  context: InferenceRequest['context'],
  bytesMax: number,
): ReadMessage {
  try {
    const events = said.flatMap((one) =>
      payloadsOf(one, context, bytesMax).map((payload) => ({ type: one.type, payload })),
    );
    return { digest, events };
  } catch (error) {
    if (!(error instanceof NotUnderstood)) throw error;
    return { digest, events: [], fault: error.message };
  }
}

/** In their order; a message is whole. */
export function* inParts(messages: readonly ReadMessage[]): Generator<ReadMessage[]> {
  let part: ReadMessage[] = [];
  let characters = 0;
  for (const message of messages) {
    const length = message.events.reduce((sum, { payload }) => sum + payload.length, 0);
    if (part.length === PART_MESSAGES || (part.length > 0 && characters + length > PART_CHARACTERS)) {
      yield part;
      [part, characters] = [[], 0];
    }
    part.push(message);
    characters += length;
  }
  if (part.length > 0) yield part;
}
