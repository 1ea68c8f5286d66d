"""What is in the wheel and in the source distribution, and what the package says of itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ookg.cli import main
from ookg.system.extras import EXTRAS, missing
from ookg.system.shipped import shipped

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling")
    from hatchling.builders.wheel import WheelBuilder

    built = next(
        iter(WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]))
    )
    return zipfile.ZipFile(built)


def in_git(*folders: str) -> set[str]:
    """The files of some folders that git knows; those that there are, where there is no git."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, check=True, capture_output=True).stdout
        names = [name for name in listed.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        places = [place for folder in folders for place in (ROOT / folder).rglob("*") if place.is_file()]
        names = [str(place.relative_to(ROOT)) for place in places]
    return {name for name in names if "__pycache__" not in name and (ROOT / name).is_file()}


def test_the_wheel_is_complete(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {name.removeprefix("src/") for name in in_git("src")} <= names
    assert {f"ookg/shipped/{name}" for name in in_git("docs", "results", "constraints.txt")} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


def test_the_source_distribution_is_complete(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    from hatchling.builders.sdist import SdistBuilder

    with tarfile.open(
        next(iter(SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    ) as file:
        names = {name.split("/", 1)[1] for name in file.getnames()}
    wanted = in_git("src", "tests", "benchmarks", "docs", "results")
    files = ("constraints.txt", "hatch_build.py", "Makefile", "RESULTS.md", "LICENSE", "pyproject.toml")
    assert wanted | set(files) <= names


def test_the_description_has_no_link_that_an_index_cannot_follow(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(wheel.read(name))
    description = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "A knowledge graph keeps growing" in description
    targets = re.findall(r"\]\(([^)\s]+)\)", description)
    assert targets
    assert not [target for target in targets if not target.startswith(("https://", "#"))]


def test_links_lead_to_the_repository_at_this_version() -> None:
    pytest.importorskip("hatchling")
    sys.path.insert(0, str(ROOT))
    try:
        from hatch_build import absolute_links
    finally:
        sys.path.remove(str(ROOT))
    text = "![a](docs/a.svg) [b](docs/b.md#c) [d](https://e.org/f) [g](#h)"
    there = absolute_links(text, "1.2", "https://e.org/ookg")
    assert there.startswith(
        "![a](https://e.org/ookg/raw/v1.2/docs/a.svg) [b](https://e.org/ookg/blob/v1.2/docs/b.md#c)"
    )
    assert absolute_links(text, "1.2", None) == " b [d](https://e.org/f) [g](#h)"


def test_what_is_claimed_is_what_is_tested() -> None:
    systems = [one for one in PROJECT["classifiers"] if one.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    versions = [one.rsplit(" ", 1)[1] for one in PROJECT["classifiers"] if "Python :: 3." in one]
    pythons = re.findall(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    assert [f"python{version}" for version in versions] == pythons
    assert all(address.startswith("https://") for address in PROJECT["urls"].values())


def test_hints_name_packages_of_the_extra() -> None:
    for extra, packages in EXTRAS.items():
        wanted = {str(Requirement(line).name) for line in PROJECT["optional-dependencies"][extra]}
        assert {Requirement(package).name for package in packages} == wanted
    assert str(missing("a", "b", "postgres")) == (
        "a needs b; install it with `pip install 'psycopg[binary]'` (the extra 'postgres' of ookg)"
    )


def test_no_hint_asks_an_index_for_this_package() -> None:
    """It is on none; and every extra that is named exists."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md")]
    asked = {path: re.findall(r"pip install (?:-e )?'?(\.|ookg)?\[?([a-z,]+)?\]?", path.read_text()) for path in files}
    for path, hints in asked.items():
        for package, extras in hints:
            assert package != "ookg", path
            if package == ".":
                assert set(filter(None, extras.split(","))) <= set(PROJECT["optional-dependencies"]), path


def test_results_are_found_without_a_folder_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shipped("results") == ROOT / "results"
    assert shipped("nothing of the kind") is None
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "--from-results", "--table", "link-prediction", "--dataset", "FB15k-Head-10"]) == 0
    assert "InvTransE" in capsys.readouterr().out


def test_an_installed_package_finds_them_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ookg.system.shipped.PACKAGE", tmp_path / "site-packages" / "ookg")
    assert shipped("results") is None
    (tmp_path / "site-packages" / "ookg" / "shipped" / "results").mkdir(parents=True)
    assert shipped("results") == tmp_path / "site-packages" / "ookg" / "shipped" / "results"
