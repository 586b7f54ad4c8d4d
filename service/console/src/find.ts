// The search of the documentation, over titles and headings. Pure functions.

/** A page of the index: its path, its title, and its headings with their anchors. */
export type IndexRow = [path: string, title: string, headings: [text: string, anchor: string][]];

export interface Found {
  path: string;
  /** Title of the page. */
  title: string;
  /** The heading that matches; absent if it is the title. */
  heading?: string;
}

/** Maximum number of results. Our choice. */
export const RESULTS_MAX = 20;

/** Returns the rank of a text that contains all words; lower is better. Returns `undefined` if a word is missing. */
function rankOf(text: string, words: readonly string[]): number | undefined {
  const lower = text.toLowerCase();
  let rank = 0;
  for (const word of words) {
    const at = lower.indexOf(word);
    if (at < 0) return undefined;
    const isWhole = lower.length === word.length;
    const beginsWord = at === 0 || !/[\p{L}\p{N}]/u.test(lower[at - 1] ?? '');
    rank += isWhole ? 0 : at === 0 ? 1 : beginsWord ? 2 : 4;
  }
  return rank;
}

/**
 * Returns titles and headings that contain all words of the text, best first, at most `RESULTS_MAX`. For a heading,
 * some of the words may be in the title of its page.
 */
export function search(index: readonly IndexRow[], text: string): Found[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const ranked: { rank: number; found: Found }[] = [];
  for (const [path, title, headings] of index) {
    const ofTitle = rankOf(title, words);
    if (ofTitle !== undefined) ranked.push({ rank: ofTitle - 0.5, found: { path, title } });
    for (const [heading, anchor] of headings) {
      const own = words.filter((word) => heading.toLowerCase().includes(word));
      if (own.length === 0) continue;
      const rank = rankOf(heading, words) ?? rankOf(`${title} ${heading}`, words);
      if (rank === undefined) continue;
      const isOwn = own.length === words.length;
      ranked.push({ rank: rank + (isOwn ? 0 : 3), found: { path: `${path}#${anchor}`, title, heading } });
    }
  }
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, RESULTS_MAX)
    .map(({ found }) => found);
}
