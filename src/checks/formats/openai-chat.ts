// A judge behind the chat completions API, which most servers of models have. It answers a JSON object as our own form
// has it, or as Llama Guard does: `safe`, or `unsafe` and a line of categories.
// Texts are parted by an empty line. The answer is the model's, so what it says besides is nonsense, not safe; places
// are passed over, since models do not count characters.
import {
  type CheckFormat,
  type CheckVerdict,
  labelsIn,
  listIn,
  NO_SPANS,
  Nonsense,
  objectIn,
  verdictIn,
} from './format.ts';

export const openaiChat: CheckFormat = {
  request({ model, prompt }, { texts }) {
    const told = prompt === undefined ? [] : [{ role: 'system', content: prompt }];
    const messages = [...told, { role: 'user', content: texts.join('\n\n') }];
    return JSON.stringify({ model, messages, temperature: 0, stream: false });
  },
  verdict(answer) {
    const [choice] = listIn(objectIn(answer)['choices']);
    const { content } = objectIn(objectIn(choice)['message']);
    if (typeof content !== 'string') throw new Nonsense();
    return said(content.trim());
  },
};

function said(text: string): CheckVerdict {
  const fenced = /^```(?:json)?\s*(\{[\s\S]*\})\s*```$/.exec(text)?.[1] ?? text;
  if (fenced.startsWith('{')) return verdictIn(parsed(fenced));
  const [word, categories = '', ...rest] = text.split(/\s*\n\s*/);
  if (rest.length > 0) throw new Nonsense();
  if (word === 'safe' && categories === '') return { match: false, score: null, labels: [], spans: NO_SPANS };
  if (word !== 'unsafe') throw new Nonsense();
  return {
    match: true,
    score: null,
    labels: labelsIn(categories.split(',').map((label) => label.trim())),
    spans: NO_SPANS,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Nonsense();
  }
}
