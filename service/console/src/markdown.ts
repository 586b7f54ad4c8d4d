// What a decider may say in Markdown: how an answer is told to be a page, and what its links mean. Pure; drawn by views/markdown.tsx.
import { Lexer, type Token } from 'marked';

/** Returns the Markdown of an answer that is a page: an object with a text `markdown`. */
export function markdownOf(result: unknown): string | undefined {
  const { markdown } = (result ?? {}) as { markdown?: unknown };
  return typeof markdown === 'string' ? markdown : undefined;
}

/** Reads Markdown; what cannot be read is one text. */
export function tokensOf(markdown: string): Token[] {
  try {
    return Lexer.lex(markdown);
  } catch {
    return [{ type: 'text', raw: markdown, text: markdown }];
  }
}

export type Link =
  | { to: 'signal' | 'update' | 'query'; name: string; input: string }
  /** A page, here or elsewhere. */
  | { to: 'page'; href: string };

/**
 * Returns what a link means: `signal:NAME`, `update:NAME` and `query:NAME`, each with `?INPUT` where it has one, the name and the
 * input percent-encoded or not; or a page. `undefined` for everything else, such as scripts, which is no link then.
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
