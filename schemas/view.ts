// The saved view: a list of the dashboard with its filters, range, order and columns, under a name, for all people of
// the account. What its screen makes of the query is the dashboard's business.

import Type from 'typebox';
import { VIEW_SCREENS } from './closed-sets.ts';
import { Name, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

/** The query of an address, behind its `?`: printable, without blanks and `#`. */
const Query = Type.String({ maxLength: 2000, pattern: '^[!"$-~]*$' });
const query = about(
  Query,
  "The query string of the screen's address, without `?`: at most 2,000 characters, encoded as in an address.",
  'outcome=blocked&range=24h',
);

export const ViewCreate = Type.Object(
  {
    name: about(Name, '1 to 200 characters; unique among the views of the account.', 'blocked today'),
    screen: about(Type.Enum([...VIEW_SCREENS]), 'The screen of the dashboard that it is of.'),
    query,
  },
  { additionalProperties: false },
);
export type ViewCreate = Type.Static<typeof ViewCreate>;

export const SavedView = Type.Object({
  id: about(Type.String(), 'Id of the view.', exampleId('viw')),
  name: about(Type.String(), 'Unique among the views of the account.', 'blocked today'),
  screen: about(Type.Enum([...VIEW_SCREENS]), 'The screen of the dashboard that it is of.'),
  query,
  created_at: about(ResponseTime, 'When it was saved.'),
});
export type SavedView = Type.Static<typeof SavedView>;
