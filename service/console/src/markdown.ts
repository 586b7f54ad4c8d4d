// Markdown in the answers of deciders: how an answer is recognized as a page, and the meaning of its links. Pure
// functions. `views/markdown.tsx` draws the page.
import { Lexer, type Token } from 'marked';

/** Returns the Markdown of an answer that is a page: an object with a text `markdown`. */
export function markdownOf(result: unknown): string | undefined {
  const { markdown } = (result ?? {}) as { markdown?: unknown };
  return typeof markdown === 'string' ? markdown : undefined;
}

/** Parses Markdown. If parsing fails, returns the whole text as one token. */
export function tokensOf(markdown: string): Token[] {
  try {
    return Lexer.lex(markdown);
  } catch {
    return [{ type: 'text', raw: markdown, text: markdown }];
  }
}

export type Link =
  | { to: 'signal' | 'update' | 'query'; name: string; input: string }
  /** A page of the console or of another site. */
  | { to: 'page'; href: string };

/**
 * Returns the meaning of a link. `signal:NAME`, `update:NAME` and `query:NAME` may be followed by `?INPUT`. Name and
 * input may be percent-encoded. Other links may lead to a page. Returns `undefined` for anything else, such as a
 * script, which is then not a link.
 */
export function linkOf(href: string): Link | undefined {
  const parts = href.match(/^(signal|update|query):([^?]*)(?:\?(.*))?$/s);
  if (parts) {
    const name = decoded(parts[2] ?? '');
    if (name === '') return undefined;
    return { to: parts[1] as 'signal' | 'update' | 'query', name, input: decoded(parts[3] ?? '') };
  }
  if (/^https?:\/\//i.test(href) || href.startsWith('/console/')) return { to: 'page', href };
  return undefined;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
