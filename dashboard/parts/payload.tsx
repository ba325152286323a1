// A payload, line by line: for reading, its strings as what they say (escapes decoded, JSON inside of a string laid out),
// or token by token as it was sent. Searchable in both, with the places that a policy found lit up.
// Only the lines in view are in the page, so a payload of a million lines costs what a small one does.
// Invariant: whatever is not on screen of a value is behind a button at its place, at any width. A string with breaks
// of lines stands in a block of its own, so that it cannot pass for lines of the payload.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { place, setParams } from '../core/router.ts';
import { KIND, type Layout, type Line, layOut, lineAt, lineOf, meaningOf, readable } from '../core/tokens.ts';
import workerUrl from '../core/tokens-worker.ts?worker&url';
import { startWorker } from '../core/worker.ts';
import { CopyButton } from './buttons.tsx';
import { Literal } from './literal.tsx';
import { VirtualRows } from './virtual-rows.tsx';

/** Characters past which a worker lays the text out. */
const WORKER_CHARACTERS = 256 * 1024;
/** A value that is longer than both together shows so much of its beginning, and of its end. */
const HEAD = { characters: 1_600, lines: 24 };
const TAIL = { characters: 400, lines: 6 };
const MORE_CHARACTERS = 20_000;
const LINE_PX = 20;
const VIEW_LINES_MAX = 28;

const CLASS: Record<number, string> = {
  [KIND.text]: 'tok-text',
  [KIND.number]: 'tok-number',
  [KIND.word]: 'tok-word',
};

/** `what`: what the text is of, where that is no payload. */
type PayloadProps = { text: string; marked?: readonly string[]; what?: string };
/** A value, or a key, that is shown whole. */
type Opened = { title: string; token: string };

export function Payload(props: PayloadProps) {
  return <Lines key={props.text} {...props} />;
}

function Lines({ text, marked = [], what = 'payload' }: PayloadProps) {
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const [whole, setWhole] = useState<Opened>();
  const { layout, found } = useLines(text, words);
  const asSent = place.value.params.get('text') === 'sent';
  const lit = useMemo(
    () => new Set(layout === undefined ? [] : marked.map((pointer) => lineAt(layout, pointer)).filter((n) => n >= 0)),
    [layout, marked.join('\n')],
  );
  const isFound = useMemo(() => new Set(found), [found]);
  if (layout === undefined) return <p class="quiet">Laying out {text.length.toLocaleString('en')} characters …</p>;
  const first = found?.[at % Math.max(1, found.length)] ?? [...lit][0];
  return (
    <div class="payload">
      <div class="bar">
        <label class="grow">
          <span class="hidden">Search in the {what}</span>
          <input
            type="search"
            placeholder="Search"
            value={words}
            onInput={({ currentTarget }) => {
              setWords(currentTarget.value);
              setAt(0);
            }}
            onKeyDown={({ key }) => key === 'Enter' && setAt((n) => n + 1)}
          />
        </label>
        <output class="quiet">
          {words === '' ? `${text.length.toLocaleString('en')} characters` : linesText(found?.length)}
        </output>
        <button
          type="button"
          aria-pressed={asSent}
          title="Token by token, without decoding anything"
          onClick={() => setParams({ text: asSent ? undefined : 'sent' }, { replace: true })}
        >
          As sent
        </button>
        <CopyButton text={text} label={`Copy ${what}`} />
      </div>
      <VirtualRows
        key={String(asSent)}
        count={layout.count}
        rowPx={LINE_PX}
        heightPx={VIEW_LINES_MAX * LINE_PX}
        wraps
        label="Payload"
        {...(first === undefined ? {} : { showIndex: first })}
        row={(index) => {
          const line = lineOf(layout, index);
          const classes = ['line', lit.has(index) ? 'lit' : '', isFound.has(index) ? 'found' : ''].join(' ');
          return (
            <code class={classes} style={{ paddingLeft: `min(${line.depth * 16 + 8}px, 40%)` }}>
              <Tokens text={layout.text} line={line} asSent={asSent} onWhole={setWhole} />
              {lit.has(index) && <span class="hidden"> (matched by a policy)</span>}
            </code>
          );
        }}
      />
      {whole !== undefined && (
        <Whole key={whole.title + whole.token.length} {...whole} asSent={asSent} onClose={() => setWhole(undefined)} />
      )}
    </div>
  );
}

function linesText(count: number | undefined): string {
  if (count === undefined) return 'Searching …';
  return count === 1 ? '1 line' : `${count.toLocaleString('en')} lines`;
}

type TokensProps = { text: string; line: Line; asSent: boolean; onWhole: (whole: Opened) => void };

function Tokens({ text, line: { key, from, to, kind, comma }, asSent, onWhole }: TokensProps) {
  const value = text.slice(from, to);
  return (
    <>
      {key !== '' && (
        <>
          <Token token={key} class="tok-key" asSent={asSent} onWhole={() => onWhole({ title: 'Key', token: key })} />
          {': '}
        </>
      )}
      <Token
        token={value}
        after={comma ? ',' : ''}
        class={CLASS[kind] ?? ''}
        asSent={asSent}
        onWhole={() => onWhole({ title: key === '' ? 'Value' : meaningOf(key).slice(0, 80), token: value })}
      />
    </>
  );
}

/** `after`: on its last line. */
type TokenProps = { token: string; after?: string; class: string; asSent: boolean; onWhole: () => void };

function Token({ token, after = '', class: colour, asSent, onWhole }: TokenProps) {
  const isText = token[0] === '"';
  const content = useMemo(() => contentOf(token, asSent), [token, asSent]);
  const [head, tail] = useMemo(() => endsOf(content), [content]);
  const quote = isText && '"';
  return (
    <span class={head.includes('\n') ? `${colour} block` : colour}>
      {quote}
      <Literal text={head} lines />
      {tail !== undefined && (
        <>
          <button type="button" class="link" onClick={onWhole}>
            … show the whole ({content.length.toLocaleString('en')} characters) …
          </button>
          <Literal text={tail} lines />
        </>
      )}
      {quote}
      {after !== '' && <span class="tok-after">{after}</span>}
    </span>
  );
}

function contentOf(token: string, asSent: boolean): string {
  if (token[0] !== '"') return token;
  return asSent ? token.slice(1, -1) : readable(token);
}

/** The text, or its beginning and its end where it is too long. */
function endsOf(text: string): [string, string?] {
  const most = HEAD.characters + TAIL.characters;
  if (text.length <= most && text.split('\n', HEAD.lines + TAIL.lines + 1).length <= HEAD.lines + TAIL.lines)
    return [text];
  const head = text.slice(0, HEAD.characters).split('\n').slice(0, HEAD.lines).join('\n');
  const tail = text.slice(-TAIL.characters).split('\n').slice(-TAIL.lines).join('\n');
  return [head.replace(/[\ud800-\udbff]$/, ''), tail.replace(/^[\udc00-\udfff]/, '')];
}

/** By itself, a piece at a time, since the longest has a million characters. */
function Whole({ title, token, asSent, onClose }: Opened & { asSent: boolean; onClose: () => void }) {
  const [shown, setShown] = useState(MORE_CHARACTERS);
  const box = useRef<HTMLPreElement>(null);
  const content = useMemo(() => contentOf(token, asSent), [token, asSent]);
  useEffect(() => {
    box.current?.focus({ preventScroll: true });
    box.current?.parentElement?.scrollIntoView({ block: 'nearest' });
  }, []);
  return (
    <section class="whole" aria-label="Whole value">
      <div class="bar">
        <strong class="grow">
          <Literal text={title} />
        </strong>
        <CopyButton text={asSent ? token : meaningOf(token)} label="Copy value" />
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      <pre ref={box} tabIndex={0}>
        <Literal text={content.slice(0, shown)} lines />
      </pre>
      {content.length > shown && (
        <button type="button" onClick={() => setShown(shown + MORE_CHARACTERS)}>
          Show {Math.min(MORE_CHARACTERS, content.length - shown).toLocaleString('en')} more of{' '}
          {(content.length - shown).toLocaleString('en')}
        </button>
      )}
    </section>
  );
}

type Answer = Pick<Layout, 'lines' | 'count'> | { words: string; found: readonly number[] };
type Found = { words: string; lines: readonly number[] };

/** `found` undefined: still looked for. One text for as long as it is mounted. */
function useLines(text: string, words: string): { layout: Layout | undefined; found: readonly number[] | undefined } {
  const small = useMemo(() => (text.length <= WORKER_CHARACTERS ? layOut(text) : undefined), []);
  const [large, setLarge] = useState<Layout>();
  const [found, setFound] = useState<Found>({ words: '', lines: [] });
  const worker = useRef<Worker>(undefined);
  const ask = (question?: { words: string }) => {
    if (worker.current === undefined) {
      worker.current = startWorker(workerUrl);
      worker.current.onmessage = ({ data }: MessageEvent<Answer>) => {
        if ('found' in data) setFound({ words: data.words, lines: data.found });
        else if (small === undefined) setLarge({ text, ...data });
      };
      worker.current.postMessage({ text });
    }
    if (question !== undefined) worker.current.postMessage(question);
  };
  useEffect(() => {
    if (small === undefined) ask();
    return () => worker.current?.terminate();
  }, []);
  useEffect(() => {
    if (words !== '') ask({ words });
  }, [words]);
  return { layout: small ?? large, found: words === '' ? [] : found.words === words ? found.lines : undefined };
}
