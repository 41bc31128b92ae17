"""Follow every link of the built site: those inside must lead somewhere, others are listed.

python docs/check_links.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"href", "src"}


class Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Note where the tag leads, and what can lead to it."""
        for name, value in attributes:
            if name in LINKS and value:
                self.links.add(value)
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)


def broken_and_external(root):
    """Return (page, link) of every link that leads nowhere, and the links that lead out."""
    paths = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): Page(path) for path in paths}
    broken, external = [], set()
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme != "data":
                    external.add(link)
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages[target].anchors if target in pages else {""}
            fragment = unquote(parts.fragment)
            if not target.exists() or (target.suffix == ".html" and fragment not in known):
                broken.append((path.relative_to(root.resolve()).as_posix(), link))
    return broken, external, len(pages)


def main():
    """Print what was found; the exit code says whether anything is broken."""
    broken, external, n_pages = broken_and_external(Path(sys.argv[1]))
    print(f"{n_pages} pages, {len(broken)} broken links, {len(external)} links that lead out:")
    for link in sorted(external):
        print(f"  {link}")
    for page, link in broken:
        print(f"BROKEN {page}: {link}", file=sys.stderr)
    sys.exit(bool(broken) or not n_pages)


if __name__ == "__main__":
    main()
