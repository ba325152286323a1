// A part of a message: what was said, with its Markdown; a call of a tool with what it answered, folded; a thought;
// what came along. Long texts show their beginning, and the rest piece by piece.
// Invariant: no piece is longer than PIECE_CHARACTERS at a time, so that no task of the page grows with a text; what
// was unfolded stays so while the trace is open, although its row leaves the page.
import { useMemo, useState } from 'preact/hooks';
import type { ShownPart } from '../core/conversation-messages.ts';
import type { ConversationReader } from '../core/conversation-reader.ts';
import type { Markdown as Tree } from '../core/markdown.ts';
import { CopyButton } from './buttons.tsx';
import { Cut, Literal } from './literal.tsx';
import { Markdown } from './markdown.tsx';

/** A long text shows so much of itself at first. */
const HEAD = { characters: 1_200, lines: 20 };
const PIECE_CHARACTERS = 20_000;
const SUMMARY_CHARACTERS = 200;

type PartProps = { part: ShownPart; result?: ShownPart | undefined; place: string; reader: ConversationReader };

/** `place`: by which it is known what was unfolded. `result`: what a call was answered. */
export function Part({ part, result, place, reader }: PartProps) {
  switch (part.kind) {
    case 'text':
      return <Said part={part} place={place} reader={reader} />;
    case 'thought':
      return <Folded part={part} title="Thought" place={place} reader={reader} />;
    case 'refusal':
      return (
        <p>
          <span class="badge blocked">refused</span> <Literal text={part.text} lines />
        </p>
      );
    case 'media':
      return (
        <p class="part-media">
          <span class="badge">attached</span> <Literal text={part.text} />
        </p>
      );
    case 'call':
      return <Call part={part} result={result} place={place} reader={reader} />;
    case 'result':
      return <Folded part={part} title={resultTitle(part)} place={place} reader={reader} />;
    default:
      return <Folded part={part} title="Data" place={place} reader={reader} />;
  }
}

function resultTitle(part: ShownPart & { kind: 'result' }): string {
  return part.tool === '' ? 'Result' : `Result of ${part.tool}`;
}

function Said({ part, place, reader }: PartProps) {
  const { text, markdown } = part;
  const [isWhole, setWhole] = useState(reader.unfolded.has(place));
  const head = useMemo(() => (markdown === undefined ? undefined : headOf(markdown, text)), [part]);
  if (markdown === undefined || head === undefined) return <LongText part={part} place={place} reader={reader} />;
  const isCut = head.length < markdown.length;
  return (
    <div class="said">
      <Markdown trees={isWhole ? markdown : head} />
      {isCut && (
        <button
          type="button"
          class="link"
          aria-expanded={isWhole}
          onClick={() => {
            toggle(reader, place, !isWhole);
            setWhole(!isWhole);
          }}
        >
          {isWhole ? 'Show less' : `Show all ${text.length.toLocaleString('en')} characters`}
        </button>
      )}
    </div>
  );
}

/** The first blocks; undefined: the first of them is too long by itself. */
function headOf(blocks: readonly Tree[], text: string): readonly Tree[] | undefined {
  if (isShort(text)) return blocks;
  let characters = 0;
  let lines = 0;
  for (const [i, block] of blocks.entries()) {
    characters += charactersOf(block);
    lines += block.tag === 'codeblock' ? block.text!.split('\n').length : (block.children?.length ?? 0) / 4 + 1;
    if (characters > HEAD.characters || lines > HEAD.lines) return i === 0 ? undefined : blocks.slice(0, i);
  }
  return blocks;
}

function charactersOf({ text = '', children = [] }: Tree): number {
  return text.length + children.reduce((sum, one) => sum + charactersOf(one), 0);
}

function isShort(text: string): boolean {
  return text.length <= HEAD.characters && text.split('\n', HEAD.lines + 1).length <= HEAD.lines;
}

function toggle(reader: ConversationReader, place: string, isUnfolded: boolean): void {
  if (isUnfolded) reader.unfolded.add(place);
  else reader.unfolded.delete(place);
}

/** As it is, its beginning first. */
function LongText({ part: { text, whole }, place, reader }: PartProps) {
  const [shown, setShown] = useState(reader.unfolded.has(place) ? PIECE_CHARACTERS : 0);
  const head = useMemo(
    () => (isShort(text) ? text : text.slice(0, HEAD.characters).split('\n').slice(0, HEAD.lines).join('\n')),
    [text],
  );
  const piece = shown === 0 ? head : text.slice(0, shown);
  const left = text.length - piece.length;
  return (
    <div class="part-text">
      <Literal text={piece.replace(/[\ud800-\udbff]$/, '')} lines />
      {left > 0 && (
        <button
          type="button"
          class="link"
          onClick={() => {
            reader.unfolded.add(place);
            setShown(shown + PIECE_CHARACTERS);
          }}
        >
          Show {Math.min(left, PIECE_CHARACTERS).toLocaleString('en')} more characters
        </button>
      )}
      {left <= 0 && whole !== undefined && (
        <p class="quiet">
          {(whole - text.length).toLocaleString('en')} more characters are in the payload: press <kbd>r</kbd>.
        </p>
      )}
    </div>
  );
}

/** Its contents are made when it is opened. */
function Folded({ part, title, place, reader }: PartProps & { title: string }) {
  const [isOpen, setOpen] = useState(reader.unfolded.has(place));
  const failed = part.kind === 'result' && part.failed;
  return (
    <details class={`part ${part.kind}`} open={isOpen} onToggle={({ currentTarget: { open } }) => onToggle(open)}>
      <summary>
        <span class="part-title">
          <Literal text={title} />
        </span>
        {failed && <span class="badge failed">failed</span>}
        {!isOpen && <Cut preview text={oneLine(part.text)} />}
      </summary>
      {isOpen && <LongText part={part} place={`${place}/text`} reader={reader} />}
    </details>
  );
  function onToggle(open: boolean): void {
    toggle(reader, place, open);
    setOpen(open);
  }
}

function Call({ part, result, place, reader }: PartProps) {
  const [isOpen, setOpen] = useState(reader.unfolded.has(place));
  const failed = result?.kind === 'result' && result.failed;
  const onToggle = (open: boolean) => {
    toggle(reader, place, open);
    setOpen(open);
  };
  return (
    <details class="part call" open={isOpen} onToggle={({ currentTarget: { open } }) => onToggle(open)}>
      <summary>
        <code class="part-title">
          <Literal text={part.kind === 'call' ? part.tool || 'a tool' : ''} />
        </code>
        {failed && <span class="badge failed">failed</span>}
        {!isOpen && <Cut preview text={summaryOf(part, result)} />}
      </summary>
      {isOpen && (
        <>
          <Detail title="Arguments" part={part} place={`${place}/arguments`} reader={reader} />
          {result !== undefined && <Detail title="Result" part={result} place={`${place}/result`} reader={reader} />}
        </>
      )}
    </details>
  );
}

function Detail({ title, part, place, reader }: PartProps & { title: string }) {
  return (
    <section class="part-detail" aria-label={title}>
      <div class="bar">
        <strong class="grow">{title}</strong>
        {part.text !== '' && part.whole === undefined && (
          <CopyButton text={part.text} label={`Copy ${title.toLowerCase()}`} />
        )}
      </div>
      {part.text === '' ? <p class="quiet">None</p> : <LongText part={part} place={place} reader={reader} />}
    </section>
  );
}

function summaryOf(part: ShownPart, result: ShownPart | undefined): string {
  const called = oneLine(part.text);
  return result === undefined || result.text === '' ? called : `${called} → ${oneLine(result.text)}`;
}

function oneLine(text: string): string {
  return text
    .slice(0, SUMMARY_CHARACTERS * 2)
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, SUMMARY_CHARACTERS);
}
