// Markdown of a caller on the page, from the tree of core/markdown.ts. No HTML is made, and nothing acts: links and
// pictures are words with their addresses. What cannot be seen is named, as everywhere (parts/literal.tsx).
import type { ComponentChildren } from 'preact';
import type { Markdown as Tree } from '../core/markdown.ts';
import { Literal } from './literal.tsx';

export function Markdown({ trees }: { trees: readonly Tree[] }) {
  return (
    <>
      {trees.map((tree, i) => (
        <Node key={i} tree={tree} />
      ))}
    </>
  );
}

function Node({ tree: { tag, text = '', children = [] } }: { tree: Tree }): ComponentChildren {
  const inner = <Markdown trees={children} />;
  switch (tag) {
    case 'paragraph':
      return <p>{inner}</p>;
    case 'heading':
      return (
        <p class="md-heading">
          <strong>{inner}</strong>
        </p>
      );
    case 'strong':
      return <strong>{inner}</strong>;
    case 'em':
      return <em>{inner}</em>;
    case 'del':
      return <del>{inner}</del>;
    case 'blockquote':
      return <blockquote>{inner}</blockquote>;
    case 'list':
      return <ul>{inner}</ul>;
    case 'ordered':
      return <ol>{inner}</ol>;
    case 'item':
      return <li>{inner}</li>;
    case 'table':
      return <Table rows={children} />;
    case 'code':
      return (
        <code>
          <Literal text={text} lines />
        </code>
      );
    case 'codeblock':
      return (
        <pre class="md-code">
          <Literal text={text} lines />
        </pre>
      );
    case 'address':
      return (
        <span class="md-address">
          <Literal text={text} lines />
        </span>
      );
    case 'break':
      return <br />;
    case 'rule':
      return <hr />;
    default:
      return text === '' ? inner : <Literal text={text} lines />;
  }
}

function Table({ rows }: { rows: readonly Tree[] }) {
  return (
    <div class="md-table">
      <table>
        <tbody>
          {rows.map(({ children: cells = [] }, i) => (
            <tr key={i}>
              {cells.map(({ tag, children = [] }, at) =>
                tag === 'head' ? (
                  <th key={at} scope="col">
                    <Markdown trees={children} />
                  </th>
                ) : (
                  <td key={at}>
                    <Markdown trees={children} />
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
