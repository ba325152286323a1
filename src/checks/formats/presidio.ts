// Presidio's analyzer (`POST /analyze`): a text goes out, what was found in it comes back, with a score each. Texts are
// parted by an empty line, since only newer versions take several. Whatever is found is a match; labels are the types.
import { type CheckFormat, labelsIn, listIn, objectIn, scoreIn } from './format.ts';

export const presidio: CheckFormat = {
  request({ language = 'en' }, { texts }) {
    return JSON.stringify({ text: texts.join('\n\n'), language });
  },
  verdict(answer) {
    const found = listIn(answer).map(objectIn);
    return {
      match: found.length > 0,
      score: Math.max(0, ...found.map(({ score }) => scoreIn(score))),
      labels: labelsIn(found.map((one) => one['entity_type'])),
    };
  },
};
