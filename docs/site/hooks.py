"""What the site has beside docs/: README as its first page, and RESULTS, CHANGELOG and CONTRIBUTING as pages.

They lie at the top of the repository, where readers of the code look for them, and link into docs/; pages of docs/ link
back to them. Here both kinds of links are turned into those of the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "RESULTS.md": "results.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's top."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_linked(text, source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to the repository's top into links to its pages."""
    source = page.file.src_uri
    return markdown if source in PAGES.values() else _linked(markdown, f"docs/{source}")


def _linked(text: str, source: str) -> str:
    """The text of a file of the repository with the links of the site."""
    folder = (ROOT / source).parent
    page = PAGES.get(source) or source.removeprefix("docs/")

    def link(match: re.Match[str]) -> str:
        before, target, anchor, after = match.group(1), match.group(2), match.group(3) or "", match.group(4)
        place = (folder / target).resolve()
        if "://" in target or not place.is_relative_to(ROOT) or not place.exists():
            return match.group(0)
        name = place.relative_to(ROOT).as_posix()
        if name in PAGES:
            target = PAGES[name]
        elif name.startswith("docs/"):
            target = name.removeprefix("docs/")
        else:  # a file that is no page: its name stays, without a link
            return "]"
        return f"{before}{relpath(target, str(Path(page).parent))}{anchor}{after}"

    return LINK.sub(link, text)
