"""What the build adds to pyproject.toml: a README whose links hold on an index page, and files beside the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# What an installed package finds in its folder `shipped`. Where a build has none of it, as that of the image, it goes
# without.
SHIPPED = ("docs", "results", "constraints.txt", "README.md", "CHANGELOG.md", "RESULTS.md")
# [text](target) and ![text](target) whose target is a file here; an address, or a place in this page, is none.
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def absolute_links(text: str, version: str, repository: str | None) -> str:
    """A README whose links lead to the repository at this version; without one, their words alone stay."""

    def replaced(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        if repository is None:
            return "" if mark else words
        view = "raw" if mark else "blob"
        return f"{mark}[{words}]({repository.rstrip('/')}/{view}/v{version}/{target})"

    return LINK.sub(replaced, text)


class ReadmeHook(MetadataHookInterface):
    """Gives the metadata the README with whole links."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, metadata["version"], repository),
        }


class ShippedHook(BuildHookInterface[Any]):
    """Puts documents and results into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name what is there; an editable install reads it where it lies."""
        if version == "editable":
            return
        for name in SHIPPED:
            if (Path(self.root) / name).exists():
                build_data["force_include"][str(Path(self.root) / name)] = f"ookg/shipped/{name}"
