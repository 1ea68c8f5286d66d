"""The script for `spark-submit`, as far as it needs no Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ookg.spark.__main__ import _in_one_line, main

ROOT = Path(__file__).parents[2]
PATHS = ["--triples", "t", "--model", "m", "--out", "o"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["embed", *PATHS[:4]], "the following arguments are required: --out"),
        (["embed", *PATHS, "--weights", "correlation"], "invalid choice: 'correlation'"),
        (["predict", *PATHS], "the following arguments are required: --questions"),
        (["predict", *PATHS, "--questions", "q", "--top", "x"], "invalid int value: 'x'"),
    ],
)
def test_wrong_use_is_one_line(line: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(line)
    assert end.value.code == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith("ookg: ")
    assert problem in printed


def test_what_a_worker_refuses_is_found_in_what_spark_reports() -> None:
    report = (
        "An exception was thrown\nTraceback (most recent call last):\n  File\nookg.errors.InputError: a; b\n SQLSTATE"
    )
    assert _in_one_line(RuntimeError(report)) == "a; b"
    assert _in_one_line(RuntimeError("\n[PATH_EXISTS] it exists\nat java")) == "[PATH_EXISTS] it exists"


def test_the_docs_name_every_option() -> None:
    documented = set(re.findall(r"--[a-z-]+", (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")))
    source = (ROOT / "src" / "ookg" / "spark" / "__main__.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"(--[a-z-]+)"', source)) <= documented
