// Draws Markdown as elements, never as HTML. HTML in the Markdown is shown as text, images as their alternative text,
// and links only if their kind is known.
import type { Token, Tokens } from 'marked';
import type { ComponentChildren, JSX } from 'preact';
import { type Link, linkOf, tokensOf } from '../markdown';
import { visible } from '../words';

/** Draws a link to a signal, an update or a query. */
export type DrawLink = (link: Exclude<Link, { to: 'page' }>, label: ComponentChildren) => JSX.Element;

/** Maximum depth of nested lists and quotes. Deeper content is shown as plain text. Our choice. */
const LEVELS_MAX = 16;

export function Markdown({ text, drawLink }: { text: string; drawLink: DrawLink }): JSX.Element {
  const all = (tokens: readonly Token[] | undefined, level: number): ComponentChildren =>
    (tokens ?? []).map((token) => one(token, level));
  const one = (token: Token, level: number): ComponentChildren => {
    if (level > LEVELS_MAX) return visible(token.raw);
    const inner = (): ComponentChildren => all((token as { tokens?: Token[] }).tokens, level + 1);
    switch (token.type) {
      case 'space':
      case 'def':
        return null;
      case 'heading': {
        // The page already has a heading of level 1.
        const Heading =
          (token as Tokens.Heading).depth === 1 ? 'h2' : (token as Tokens.Heading).depth === 2 ? 'h3' : 'h4';
        return <Heading>{inner()}</Heading>;
      }
      case 'paragraph':
        return <p>{inner()}</p>;
      case 'blockquote':
        return <blockquote>{inner()}</blockquote>;
      case 'hr':
        return <hr />;
      case 'code':
        return (
          <pre tabIndex={0}>
            <code>{visible((token as Tokens.Code).text)}</code>
          </pre>
        );
      case 'list':
        return list(token as Tokens.List, level);
      case 'table':
        return table(token as Tokens.Table, level);
      case 'strong':
        return <strong>{inner()}</strong>;
      case 'em':
        return <em>{inner()}</em>;
      case 'del':
        return <del>{inner()}</del>;
      case 'codespan':
        return <code>{visible((token as Tokens.Codespan).text)}</code>;
      case 'br':
        return <br />;
      case 'checkbox':
        return (token as Tokens.Checkbox).checked ? '☑ ' : '☐ ';
      case 'link':
        return link(token as Tokens.Link, inner());
      case 'image':
        return `[${visible((token as Tokens.Image).text)}]`;
      case 'text':
        return (token as Tokens.Text).tokens ? inner() : visible((token as Tokens.Text).text);
      case 'escape':
        return visible((token as Tokens.Escape).text);
      default:
        return visible(token.raw);
    }
  };
  const list = ({ ordered, start, items }: Tokens.List, level: number): JSX.Element => {
    const drawn = items.map((item) => <li>{all(item.tokens, level + 1)}</li>);
    return ordered ? <ol start={Number(start) || 1}>{drawn}</ol> : <ul>{drawn}</ul>;
  };
  const table = ({ header, rows }: Tokens.Table, level: number): JSX.Element => {
    const cells = (of: Tokens.TableCell[], Cell: 'th' | 'td'): JSX.Element[] =>
      of.map(({ tokens, align }) => <Cell class={align === 'right' ? 'right' : ''}>{all(tokens, level + 1)}</Cell>);
    return (
      <div class="scrolls" tabIndex={0} role="group" aria-label="Table">
        <table class="grid">
          <thead>
            <tr>{cells(header, 'th')}</tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>{cells(row, 'td')}</tr>
            ))}
          </tbody>
        </table>
      </div>
    );
  };
  const link = ({ href }: Tokens.Link, label: ComponentChildren): ComponentChildren => {
    const known = linkOf(href);
    if (!known) return label;
    if (known.to !== 'page') return drawLink(known, label);
    const isHere = known.href.startsWith('/');
    return (
      <a
        class="link"
        href={known.href}
        title={known.href}
        {...(isHere ? {} : { target: '_blank', rel: 'noopener noreferrer' })}
      >
        {label}
      </a>
    );
  };
  return <div class="markdown">{all(tokensOf(text), 0)}</div>;
}
