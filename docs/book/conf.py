"""The book: docs/README.md lists its pages in their order."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
INDEX = ROOT / "docs/README.md"

project = "Baton"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Baton"
root_doc = "docs/README"


def parts():
    """Headings of the index, each with the pages that it links to."""
    for part in re.split(r"^## ", INDEX.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        links = re.findall(r"^\* \[[^\]]+\]\(([^)]+\.md)\)", text, flags=re.MULTILINE)
        yield title, [(INDEX.parent / link).resolve().relative_to(ROOT) for link in links]


PARTS = list(parts())
include_patterns = [str(INDEX.relative_to(ROOT)), *(str(page) for _, pages in PARTS for page in pages)]


def as_a_page(_app, docname, source):
    """Orders the book as the index. A link to an existing file that is not a page becomes its text."""
    page = ROOT / f"{docname}.md"

    def link(found):
        path = (page.parent / found["target"].partition("#")[0]).resolve()
        is_page = path.suffix == ".md" and str(path.relative_to(ROOT)) in include_patterns
        return found[0] if is_page or not path.exists() else found["words"]

    source[0] = re.sub(r"(?<!!)\[(?P<words>[^\]]+)\]\((?P<target>[\w./-]+\.\w+(?:#[\w-]+)?|[\w./-]+)\)", link, source[0])
    source[0] = source[0].replace("```rust,ignore", "```rust")
    if docname == root_doc:
        for title, pages in PARTS:
            names = "\n".join(f"/{page.with_suffix('')}" for page in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{names}\n```\n"


def setup(app):
    app.connect("source-read", as_a_page)
