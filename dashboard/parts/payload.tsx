// A payload, line by line as it was sent: searchable, with the places that a policy found lit up.
// Only the lines in view are in the page, so a payload of a million lines costs what a small one does.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { KIND, type Layout, type Line, layOut, lineAt, lineOf, linesWith } from '../core/tokens.ts';
import workerUrl from '../core/tokens-worker.ts?worker&url';
import { CopyButton } from './buttons.tsx';
import { VirtualRows } from './virtual-rows.tsx';

/** Characters past which a worker lays the text out. */
const WORKER_CHARACTERS = 256 * 1024;
/** Characters of one value that are shown until more are asked for. */
const SHOWN_CHARACTERS = 600;
const MORE_CHARACTERS = 20_000;
const LINE_PX = 20;
const VIEW_LINES_MAX = 28;

const CLASS: Record<number, string> = {
  [KIND.text]: 'tok-text',
  [KIND.number]: 'tok-number',
  [KIND.word]: 'tok-word',
};

export function Payload({ text, marked = [] }: { text: string; marked?: readonly string[] }) {
  const layout = useLayout(text);
  const [words, setWords] = useState('');
  const [at, setAt] = useState(0);
  const [whole, setWhole] = useState(-1);
  const lit = useMemo(
    () => new Set(layout === undefined ? [] : marked.map((pointer) => lineAt(layout, pointer)).filter((n) => n >= 0)),
    [layout, marked.join('\n')],
  );
  const found = useMemo(() => (layout === undefined ? [] : linesWith(layout, words)), [layout, words]);
  if (layout === undefined) return <p class="quiet">Laying out {text.length.toLocaleString('en')} characters …</p>;
  const first = found[at % Math.max(1, found.length)] ?? [...lit][0];
  const isFound = new Set(found);
  return (
    <div class="payload">
      <div class="bar">
        <label class="grow">
          <span class="hidden">Search in the payload</span>
          <input
            type="search"
            placeholder="Search in the payload"
            value={words}
            onInput={({ currentTarget }) => {
              setWords(currentTarget.value);
              setAt(0);
            }}
            onKeyDown={({ key }) => key === 'Enter' && setAt((n) => n + 1)}
          />
        </label>
        <output class="quiet">
          {words === '' ? `${text.length.toLocaleString('en')} characters` : `${found.length} lines`}
        </output>
        <CopyButton text={text} label="Copy payload" />
      </div>
      <VirtualRows
        count={layout.count}
        rowPx={LINE_PX}
        heightPx={Math.min(layout.count, VIEW_LINES_MAX) * LINE_PX + 10}
        label="Payload"
        {...(first === undefined ? {} : { showIndex: first })}
        row={(index) => {
          const line = lineOf(layout, index);
          const classes = ['line', lit.has(index) ? 'lit' : '', isFound.has(index) ? 'found' : ''].join(' ');
          return (
            <code class={classes} style={{ paddingLeft: `${line.depth * 16 + 8}px` }}>
              {line.key !== '' && <span class="tok-key">{line.key}</span>}
              {line.key !== '' && ': '}
              <Value layout={layout} line={line} onWhole={() => setWhole(index)} />
              {line.comma && ','}
              {lit.has(index) && <span class="hidden"> (matched by a policy)</span>}
            </code>
          );
        }}
      />
      {whole >= 0 && <Whole key={whole} layout={layout} line={lineOf(layout, whole)} onClose={() => setWhole(-1)} />}
    </div>
  );
}

function Value({ layout, line, onWhole }: { layout: Layout; line: Line; onWhole: () => void }) {
  const length = line.to - line.from;
  const shown = layout.text.slice(line.from, Math.min(line.to, line.from + SHOWN_CHARACTERS));
  return (
    <>
      <span class={CLASS[line.kind] ?? ''}>{shown}</span>
      {(length > SHOWN_CHARACTERS || shown.length > 90) && (
        <button type="button" class="link" onClick={onWhole}>
          … whole ({length.toLocaleString('en')})
        </button>
      )}
    </>
  );
}

/**
 * One value by itself, wrapped; a string with its line breaks. A piece at a time, since the longest has a million
 * characters.
 */
function Whole({ layout, line, onClose }: { layout: Layout; line: Line; onClose: () => void }) {
  const [shown, setShown] = useState(MORE_CHARACTERS);
  const value = layout.text.slice(line.from, line.to);
  const readable = line.kind === KIND.text ? unquoted(value) : value;
  return (
    <section class="whole" aria-label="Whole value">
      <div class="bar">
        <strong class="grow">{line.key === '' ? 'Value' : line.key}</strong>
        <CopyButton text={readable} label="Copy value" />
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      <pre tabIndex={0}>{readable.slice(0, shown)}</pre>
      {readable.length > shown && (
        <button type="button" onClick={() => setShown(shown + MORE_CHARACTERS)}>
          Show {Math.min(MORE_CHARACTERS, readable.length - shown).toLocaleString('en')} more of{' '}
          {(readable.length - shown).toLocaleString('en')}
        </button>
      )}
    </section>
  );
}

/** A string means the same decoded, unlike a number. */
function unquoted(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

function useLayout(text: string): Layout | undefined {
  const [layout, setLayout] = useState<Layout>();
  const small = useMemo(() => (text.length <= WORKER_CHARACTERS ? layOut(text) : undefined), [text]);
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => {
    if (small !== undefined) return undefined;
    setLayout(undefined);
    const worker = startWorker();
    worker.onmessage = ({ data }: MessageEvent<Pick<Layout, 'lines' | 'count'>>) => {
      if (latest.current === text) setLayout({ text, ...data });
      worker.terminate();
    };
    worker.postMessage(text);
    return () => worker.terminate();
  }, [text]);
  return small ?? layout;
}

type Policies = {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string };
};

let scripts: { createScriptURL(url: string): string } | undefined;

/** The page demands trusted types: the one script that it starts by address is named here. */
function startWorker(): Worker {
  const { trustedTypes } = globalThis as { trustedTypes?: Policies };
  scripts ??= trustedTypes?.createPolicy('gatehouse-worker', { createScriptURL: (url) => url });
  const url = new URL(workerUrl, location.href).href;
  return new Worker(scripts === undefined ? url : scripts.createScriptURL(url), { type: 'module' });
}
