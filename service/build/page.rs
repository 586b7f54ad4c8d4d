//! Renders one page: converts its Markdown to HTML, collects its headings, and adds the header, navigation and footer.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::summary::{Entry, Summary, resolve};

/// Linked files that are not pages but that the service serves, each with the path at which the service serves it.
const SERVED: [(&str, &str); 1] = [("docs/openapi.json", "/openapi.json")];

/// Deepest level of headings that the search can find.
const SEARCHED: HeadingLevel = HeadingLevel::H3;

pub(crate) struct Heading {
    level: HeadingLevel,
    text: String,
    anchor: String,
}

/// Body of a rendered page, and its headings.
pub(crate) struct Page {
    body: String,
    headings: Vec<Heading>,
}

/// Renders a page. HTML in the Markdown is shown as text, because the content security policy permits neither inline
/// scripts nor inline styles.
pub(crate) fn render(markdown: &str, entry: &Entry, summary: &Summary) -> Page {
    let mut renderer =
        Renderer { entry, summary, links: Vec::new(), table: Table::default(), anchors: BTreeMap::new() };
    let mut headings = Vec::new();
    let mut events = Vec::new();
    let mut parser = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    while let Some(event) = parser.next() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let content: Vec<_> =
                    parser.by_ref().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_)))).collect();
                let text = text_of(&content);
                let anchor = renderer.anchor(&text);
                events.push(Event::Html(format!("<{level} id=\"{}\">", escape(&anchor)).into()));
                events.extend(content.into_iter().filter_map(|event| renderer.event(event)));
                events.push(Event::Html(format!("</{level}>\n").into()));
                headings.push(Heading { level, text, anchor });
            }
            Event::Start(Tag::Image { .. }) => {
                // The package does not contain images, so their descriptions are shown instead.
                let alternative: Vec<_> =
                    parser.by_ref().take_while(|event| !matches!(event, Event::End(TagEnd::Image))).collect();
                let text = escape(&text_of(&alternative));
                events.push(Event::InlineHtml(format!("<span class=\"picture\">{text}</span>").into()));
            }
            other => events.extend(renderer.event(other)),
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter());
    Page { body, headings }
}

/// Converts the parser's events of one page.
struct Renderer<'a> {
    entry: &'a Entry,
    summary: &'a Summary,
    /// For each link whose end has not been reached, the outermost first: true if it is rendered as a link.
    links: Vec<bool>,
    table: Table,
    /// Number of headings found so far with each anchor.
    anchors: BTreeMap<String, usize>,
}

/// State of the table that is being rendered.
#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

impl Renderer<'_> {
    fn event<'e>(&mut self, event: Event<'e>) -> Option<Event<'e>> {
        Some(match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let target = self.target(&dest_url);
                self.links.push(target.is_some());
                Event::Start(Tag::Link { link_type, dest_url: target?.into(), title, id })
            }
            Event::End(TagEnd::Link) => {
                let is_kept = self.links.pop().unwrap_or(true);
                return is_kept.then_some(event);
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split([',', ' ']).next().unwrap_or_default().to_owned(),
                    CodeBlockKind::Indented => "text".to_owned(),
                };
                // Code blocks can receive the keyboard focus, because the keyboard scrolls only an element that has the
                // focus.
                Event::Html(format!("<pre tabindex=\"0\"><code class=\"language-{}\">", escape(&language)).into())
            }
            Event::End(TagEnd::CodeBlock) => Event::Html("</code></pre>\n".into()),
            // The library would align cells with inline styles, which the content security policy forbids.
            Event::Start(Tag::Table(alignments)) => {
                self.table = Table { alignments, column: 0, is_head: false };
                Event::Html("<div class=\"scroll\" tabindex=\"0\"><table>\n".into())
            }
            Event::End(TagEnd::Table) => Event::Html("</tbody></table></div>\n".into()),
            Event::Start(Tag::TableHead) => {
                (self.table.is_head, self.table.column) = (true, 0);
                Event::Html("<thead><tr>".into())
            }
            Event::End(TagEnd::TableHead) => {
                self.table.is_head = false;
                Event::Html("</tr></thead>\n<tbody>\n".into())
            }
            Event::Start(Tag::TableRow) => {
                self.table.column = 0;
                Event::Html("<tr>".into())
            }
            Event::End(TagEnd::TableRow) => Event::Html("</tr>\n".into()),
            Event::Start(Tag::TableCell) => Event::Html(self.table.cell().into()),
            Event::End(TagEnd::TableCell) => Event::Html(if self.table.is_head { "</th>" } else { "</td>" }.into()),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => return None,
            Event::Html(text) | Event::InlineHtml(text) => {
                if text.trim_start().starts_with("<!--") {
                    return None;
                }
                Event::Text(text)
            }
            other => other,
        })
    }

    /// Returns the address of a link. Returns `None` if the target is a file that the service does not serve.
    fn target(&self, target: &str) -> Option<String> {
        if target.starts_with('#') || target.contains("://") || target.starts_with("mailto:") {
            return Some(target.to_owned());
        }
        let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
        let file = resolve(&self.entry.file, file);
        let served = SERVED.iter().find(|(name, _)| *name == file).map(|(_, path)| *path);
        let path = self.summary.path(&file).or(served)?;
        Some(anchor.map_or_else(|| path.to_owned(), |anchor| format!("{path}#{anchor}")))
    }

    /// Returns the anchor of a heading, in the form in which GitHub generates anchors.
    fn anchor(&mut self, text: &str) -> String {
        let lower = text.to_lowercase();
        let kept = lower.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        let anchor: String = kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect();
        let times = self.anchors.entry(anchor.clone()).or_default();
        *times += 1;
        if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
    }
}

impl Table {
    /// Returns the start tag of the next table cell.
    fn cell(&mut self) -> String {
        let is_right = self.alignments.get(self.column) == Some(&Alignment::Right);
        self.column += 1;
        let name = if self.is_head { "th" } else { "td" };
        if is_right { format!("<{name} class=\"right\">") } else { format!("<{name}>") }
    }
}

/// Returns the plain text of inline content.
fn text_of(events: &[Event<'_>]) -> String {
    let text = events.iter().map(|event| match event {
        Event::Text(text) | Event::Code(text) => text,
        Event::SoftBreak | Event::HardBreak => " ",
        _ => "",
    });
    text.collect()
}

/// Escapes text for use in HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the text as a JSON string.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

impl Page {
    /// Returns the page's entry in the search index: its path, its title, and its headings with their anchors.
    pub(crate) fn search_row(&self, entry: &Entry) -> String {
        let headings = self.headings.iter().skip(1).filter(|heading| heading.level <= SEARCHED);
        let headings: Vec<_> =
            headings.map(|heading| format!("[{},{}]", quote(&heading.text), quote(&heading.anchor))).collect();
        format!("[{},{},[{}]]", quote(&entry.path), quote(&entry.title), headings.join(","))
    }

    /// Returns the list of headings that is shown next to the page.
    fn contents(&self) -> String {
        let sections: Vec<_> = self.headings.iter().filter(|heading| heading.level == HeadingLevel::H2).collect();
        if sections.len() < 2 {
            return String::new();
        }
        let mut list = String::from("<nav class=\"contents\" aria-label=\"On this page\"><h2>On this page</h2><ul>\n");
        for Heading { text, anchor, .. } in sections {
            let _ = writeln!(list, "<li><a href=\"#{}\">{}</a></li>", escape(anchor), escape(text));
        }
        list + "</ul></nav>"
    }
}

/// Parts that all pages have in common: header, navigation and footer.
pub(crate) struct Frame<'a> {
    pub(crate) summary: &'a Summary,
    pub(crate) version: &'a str,
}

impl Frame<'_> {
    /// Returns the complete HTML of a page.
    pub(crate) fn html(&self, entry: &Entry, page: &Page) -> String {
        let body = format!("{}\n{}", page.body, self.neighbors(entry));
        self.document(&entry.title, Some(entry), &body, &page.contents())
    }

    /// Returns the page that is shown for paths that do not exist.
    pub(crate) fn missing(&self) -> String {
        let body = "<h1>Page not found</h1>\n<p>The documentation has no page at this address. \
            Search for it, or see <a href=\"/docs/\">all pages</a>.</p>";
        self.document("Page not found", None, body, "")
    }

    fn document(&self, title: &str, entry: Option<&Entry>, body: &str, contents: &str) -> String {
        let navigation = self.navigation(entry);
        let version = escape(self.version);
        let title = escape(title);
        format!(
            r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} · Baton</title>
<link rel="stylesheet" href="/console/docs.css">
<link rel="icon" href="/console/icon.svg" type="image/svg+xml">
<script type="module" src="/console/docs.js"></script>
</head>
<body>
<header class="top">
<a class="skip" href="#docs-main">Skip to content</a>
<a class="brand" href="/docs/">Baton <span>documentation</span></a>
<div class="find" role="search" hidden>
<label class="unseen" for="docs-search">Search the documentation</label>
<input id="docs-search" type="search" placeholder="Search titles and headings" autocomplete="off" spellcheck="false" aria-controls="docs-found">
<kbd aria-hidden="true">/</kbd>
<div id="docs-found" role="status"></div>
</div>
<span class="grow"></span>
<a href="/console/">Console</a>
<button id="docs-theme" type="button" hidden></button>
</header>
<div class="frame">
<nav class="pages" aria-label="Pages">
<details id="docs-pages" open><summary>Pages</summary>
{navigation}</details>
</nav>
<main id="docs-main" tabindex="-1">
{body}
<footer>Baton {version}</footer>
</main>
<aside>{contents}</aside>
</div>
</body>
</html>
"##
        )
    }

    /// Returns the list of all pages. The last part has many pages. If the current page is not one of them, only the
    /// heading of this part is shown.
    fn navigation(&self, here: Option<&Entry>) -> String {
        let is_here = |entry: &Entry| here.is_some_and(|here| here.path == entry.path);
        let mut list = String::new();
        let last = self.summary.parts.len().saturating_sub(1);
        for (number, part) in self.summary.parts.iter().enumerate() {
            let title = escape(&part.title);
            if number == last && !part.entries.iter().any(is_here) {
                let anchor = part.title.to_lowercase();
                let _ = writeln!(list, "<h2><a href=\"/docs/#{}\">{title}</a></h2>", escape(&anchor));
                continue;
            }
            let _ = writeln!(list, "<h2>{title}</h2>\n<ul>");
            for entry in &part.entries {
                let current = if is_here(entry) { " aria-current=\"page\"" } else { "" };
                let _ = writeln!(list, "<li><a href=\"{}\"{current}>{}</a></li>", entry.path, escape(&entry.title));
            }
            list.push_str("</ul>\n");
        }
        list
    }

    /// Returns links to the previous and the next page.
    fn neighbors(&self, entry: &Entry) -> String {
        let all: Vec<_> = self.summary.entries().collect();
        let at = all.iter().position(|one| one.path == entry.path).unwrap_or_default();
        let link = |entry: Option<&&Entry>, rel: &str, label: &str| {
            entry.map_or_else(String::new, |entry| {
                format!("<a rel=\"{rel}\" href=\"{}\"><span>{label}</span> {}</a>", entry.path, escape(&entry.title))
            })
        };
        let previous = link(at.checked_sub(1).and_then(|at| all.get(at)), "prev", "Previous");
        let next = link(all.get(at + 1), "next", "Next");
        format!("<nav class=\"neighbors\" aria-label=\"Neighboring pages\">{previous}{next}</nav>")
    }
}
