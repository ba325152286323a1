// Presidio's analyzer (`POST /analyze`): a text goes out, what was found in it comes back, with a score each. Texts are
// parted by an empty line, since only newer versions take several. Whatever is found is a match; labels are the types.
import { type CheckFormat, labelsIn, listIn, objectIn, scoreIn } from './format.ts';
import { FoundPlaces } from './found-places.ts';

const PARTED_BY = '\n\n';

export const presidio: CheckFormat = {
  request({ language = 'en' }, { texts }) {
    return JSON.stringify({ text: texts.join(PARTED_BY), language });
  },
  verdict(answer, texts) {
    const found = listIn(answer).map(objectIn);
    return {
      match: found.length > 0,
      score: Math.max(0, ...found.map(({ score }) => scoreIn(score))),
      labels: labelsIn(found.map((one) => one['entity_type'])),
      spans: new FoundPlaces(texts).ofJoined(found, PARTED_BY),
    };
  },
};
