// OpenAI's moderation API, and what copies it: a result for each text, with the categories that it falls under. The
// score is the highest of any category of any text.
import { type CheckFormat, labelsIn, listIn, NO_SPANS, Nonsense, objectIn, scoreIn } from './format.ts';

export const openaiModeration: CheckFormat = {
  request({ model }, { texts }) {
    return JSON.stringify({ ...(model === undefined ? {} : { model }), input: texts });
  },
  verdict(answer, texts) {
    const results = listIn(objectIn(answer)['results']).map(objectIn);
    if (results.length !== texts.length) throw new Nonsense();
    const categories = results.flatMap((result) => Object.entries(objectIn(result['categories'])));
    // A category that a model does not know is null.
    const scores = results
      .flatMap((result) => Object.values(objectIn(result['category_scores'])))
      .filter((score) => score !== null);
    if (results.some(({ flagged }) => typeof flagged !== 'boolean')) throw new Nonsense();
    return {
      match: results.some(({ flagged }) => flagged === true),
      score: Math.max(0, ...scores.map(scoreIn)),
      labels: labelsIn(categories.filter(([, holds]) => holds === true).map(([name]) => name)),
      spans: NO_SPANS,
    };
  },
};
