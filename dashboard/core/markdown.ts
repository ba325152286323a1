// Markdown as a tree of plain values, from the tokens of the package marked: its lexer alone, never its HTML. Runs in
// conversation-worker.ts; parts/markdown.tsx makes elements of the tree.
// Invariant: a tree holds nothing that acts. HTML is text, a link is its text with its address, a picture is its words
// with its address. A tree has at most NODES_MAX nodes and LEVELS_MAX levels.
// Failure: undefined where a text is longer, larger or deeper than that, or the lexer gives up; it is shown as it is.
import { lexer, type Token } from 'marked';

/** `tag`: what it is, of a closed set; '' is text. */
export type Markdown = { tag: Tag; text?: string; children?: Markdown[] };
type Tag = '' | keyof typeof TAGS | 'code' | 'codeblock' | 'address' | 'break' | 'rule' | 'row' | 'head' | 'cell';

/** The lexer's time rises with the square of some texts: 20,000 characters of `_a_` take 2 s, of prose 10 ms. */
const CHARACTERS_MAX = 20_000;
const NODES_MAX = 2_000;
const LEVELS_MAX = 12;

/** The elements of tokens that hold other tokens. */
const TAGS = {
  ...{ paragraph: 1, heading: 1, strong: 1, em: 1, del: 1, blockquote: 1, list: 1, ordered: 1, item: 1, table: 1 },
} as const;

type Any = Token & {
  tokens?: Any[];
  items?: Any[];
  header?: { tokens: Any[] }[];
  rows?: { tokens: Any[] }[][];
  ordered?: boolean;
  href?: string;
  text?: string;
  checked?: boolean;
  autolink?: boolean;
};

class TooLarge extends Error {}

/** undefined: it is shown as it is. */
export function markdownOf(text: string): Markdown[] | undefined {
  if (text.length > CHARACTERS_MAX) return undefined;
  try {
    const left = { nodes: NODES_MAX };
    return blocksOf(lexer(text) as Any[], left, 0);
  } catch (error) {
    if (error instanceof TooLarge || error instanceof RangeError) return undefined;
    throw error;
  }
}

type Left = { nodes: number };

function blocksOf(tokens: readonly Any[], left: Left, level: number): Markdown[] {
  if (level > LEVELS_MAX) throw new TooLarge();
  return tokens.flatMap((token) => {
    if (--left.nodes < 0) throw new TooLarge();
    return nodesOf(token, left, level + 1);
  });
}

const NAMES: Record<string, Tag> = {
  ...{ paragraph: 'paragraph', heading: 'heading', strong: 'strong', em: 'em', del: 'del', blockquote: 'blockquote' },
};

function nodesOf(token: Any, left: Left, level: number): Markdown[] {
  const inner = () => blocksOf(token.tokens ?? [], left, level);
  const tag = NAMES[token.type];
  if (tag !== undefined) return [{ tag, children: inner() }];
  switch (token.type) {
    case 'space':
    case 'def':
      return token.type === 'def' ? [{ tag: 'paragraph', children: [{ tag: '', text: token.raw.trimEnd() }] }] : [];
    case 'code':
      return [{ tag: 'codeblock', text: token.text ?? '' }];
    case 'codespan':
      return [{ tag: 'code', text: token.text ?? '' }];
    case 'br':
      return [{ tag: 'break' }];
    case 'hr':
      return [{ tag: 'rule' }];
    case 'link':
      return linkOf(token, inner);
    case 'image':
      return [{ tag: 'address', text: `[picture] ${token.text ?? ''} (${token.href ?? ''})` }];
    case 'checkbox':
      return [{ tag: '', text: token.checked === true ? '[x] ' : '[ ] ' }];
    case 'list':
      return [{ tag: token.ordered === true ? 'ordered' : 'list', children: itemsOf(token, left, level) }];
    case 'table':
      return [{ tag: 'table', children: rowsOf(token, left, level) }];
    case 'text':
      return token.tokens === undefined ? [{ tag: '', text: token.text ?? '' }] : inner();
    default:
      // HTML, and whatever a later version of the lexer finds, stays what was sent
      return [{ tag: '', text: token.type === 'escape' ? (token.text ?? '') : token.raw }];
  }
}

function linkOf(token: Any, inner: () => Markdown[]): Markdown[] {
  const href = token.href ?? '';
  if (token.text === href || token.raw === token.text) return [{ tag: 'address', text: token.text ?? href }];
  return [...inner(), { tag: 'address', text: ` (${href})` }];
}

function itemsOf(token: Any, left: Left, level: number): Markdown[] {
  return (token.items ?? []).map((item) => {
    if (--left.nodes < 0) throw new TooLarge();
    return { tag: 'item', children: blocksOf(item.tokens ?? [], left, level + 1) };
  });
}

function rowsOf(token: Any, left: Left, level: number): Markdown[] {
  const row = (cells: readonly { tokens: Any[] }[], tag: 'head' | 'cell'): Markdown => {
    left.nodes -= cells.length;
    if (left.nodes < 0) throw new TooLarge();
    return { tag: 'row', children: cells.map((cell) => ({ tag, children: blocksOf(cell.tokens, left, level + 1) })) };
  };
  return [row(token.header ?? [], 'head'), ...(token.rows ?? []).map((cells) => row(cells, 'cell'))];
}
