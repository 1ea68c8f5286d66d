"""Docstrings on the site: a line that explains an argument (`name: what it is`) begins on a line of its own."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ARGUMENT = re.compile(r"(?<=\S)\n(?=[a-z_0-9]+(?:, [a-z_0-9]+)*: )")


class Lines(Extension):
    """Ends the line before an argument, in the words of Markdown."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Of every module, class and function."""
        del kwargs
        if obj.docstring is not None:
            obj.docstring.value = ARGUMENT.sub("  \n", obj.docstring.value)
