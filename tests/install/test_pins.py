"""The pins in constraints.txt agree with what the pinned packages require of one another.

`make pins` asks pip and the package index; this needs neither. It follows the requirements of the package, its extras
and its build through the metadata of what is installed here, and through `not_installed.toml` for what need not be.
"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Agreement:
    """Where pins disagree, which of them are asked for, and whose requirements are not known here."""

    problems: tuple[str, ...]
    asked: frozenset[str]
    unknown: frozenset[str]


def pinned() -> dict[str, str]:
    """The version of each pin."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pins = dict(line.split("==") for line in lines if line)
    assert len(pins) == len([line for line in lines if line]), "a package is pinned twice"
    return pins


@cache
def recorded() -> dict[str, list[str]]:
    """`name==version` and what its metadata requires, for what need not be installed."""
    return tomllib.loads((Path(__file__).parent / "not_installed.toml").read_text())


@cache
def installed() -> dict[str, metadata.Distribution]:
    return {canonicalize_name(found.name): found for found in metadata.distributions()}


def is_installed(name: str, version: str) -> bool:
    """Whether this version is installed; a pin without a local version admits every build, as in pip."""
    return name in installed() and SpecifierSet(f"=={version}").contains(installed()[name].version, prereleases=True)


def required_by(name: str, version: str) -> list[str] | None:
    """What this version requires, by all its builds that are known here; none when it is not known."""
    found = list(recorded()[f"{name}=={version}"]) if f"{name}=={version}" in recorded() else None
    if is_installed(name, version):
        found = (found or []) + (installed()[name].requires or [])
    return found


def entry_points() -> list[Requirement]:
    """What `make` has pip install: the package's own requirements, those of its extras and of its build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    # A backend asks for `editables` when it is run, so no metadata has it.
    lines = [*project["project"]["dependencies"], *project["build-system"]["requires"], "editables"]
    return [Requirement(line) for line in [*lines, *(line for extra in extras for line in extra)]]


def agreement(pins: dict[str, str], python: str) -> Agreement:
    """Follow every requirement that holds on Linux with this Python, from pin to pin."""
    linux = {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
    environment: dict[str, str] = {**linux, "python_version": python, "python_full_version": f"{python}.0"}
    problems: list[str] = []
    unknown: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [("ookg", "", requirement) for requirement in entry_points()]
    while waiting:
        source, extra, requirement = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({**environment, "extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        version = pins.get(name)
        if version is None:
            problems.append(f"{source} requires {requirement}, which is not pinned")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            problems.append(f"{source} requires {requirement}, pinned is {name}=={version}")
        lines = required_by(name, version)
        if lines is None:
            unknown.add(name)
        for asked in {"", *requirement.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, asked))
            waiting += [(f"{name}=={version}", asked, Requirement(line)) for line in lines or []]
    return Agreement(tuple(sorted(set(problems))), frozenset(name for name, _ in seen), frozenset(unknown))


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned_to_a_version_that_satisfies_it(python: str) -> None:
    assert agreement(pinned(), python).problems == ()


@pytest.mark.parametrize("python", PYTHONS)
def test_every_pin_is_asked_for_and_its_metadata_known(python: str) -> None:
    pins = pinned()
    found = agreement(pins, python)
    if found.unknown:
        pytest.skip(f"not installed in the pinned version, so not followed: {', '.join(sorted(found.unknown))}")
    assert set(pins) == found.asked


def test_a_pin_that_the_ordinary_build_of_torch_does_not_admit_is_found() -> None:
    pins = pinned()
    problems = agreement(pins | {"triton": "3.9.0"}, "3.11").problems
    assert len(problems) == 1
    assert problems[0].startswith(f"torch=={pins['torch']} requires triton=={pins['triton']}")
    assert problems[0].endswith("pinned is triton==3.9.0")


def test_a_missing_pin_is_found_behind_an_extra_too() -> None:
    pins = pinned()
    del pins["nvidia-nvtx"]
    problems = agreement(pins, "3.11").problems
    assert len(problems) == 1
    assert problems[0].startswith(f"cuda-toolkit=={pins['cuda-toolkit']} requires nvidia-nvtx")
    assert problems[0].endswith("which is not pinned")


def test_the_record_is_of_the_pinned_versions() -> None:
    pins = {f"{name}=={version}" for name, version in pinned().items()}
    assert set(recorded()) <= pins, "not_installed.toml is of other versions; its first lines say where it comes from"


def test_the_record_is_what_the_installed_metadata_says() -> None:
    for pin, lines in recorded().items():
        name, version = pin.split("==")
        # The CPU build of torch has a local version (2.13.0+cpu) and requires less.
        if is_installed(name, version) and "+" not in installed()[name].version:
            actual = {str(Requirement(line)) for line in installed()[name].requires or []}
            assert {str(Requirement(line)) for line in lines} <= actual, pin


@pytest.mark.parametrize("python", PYTHONS)
def test_the_pinned_versions_support_this_python(python: str) -> None:
    here = {name: installed()[name].metadata for name, version in pinned().items() if is_installed(name, version)}
    assert "torch" in here
    asked = {name: about["Requires-Python"] for name, about in here.items() if "Requires-Python" in about}
    assert {name: versions for name, versions in asked.items() if f"{python}.1" not in SpecifierSet(versions)} == {}


def test_what_is_installed_is_what_is_pinned() -> None:
    pins = pinned()
    other = [
        f"{name} {installed()[name].version} (pinned {version})"
        for name, version in pins.items()
        if name in installed() and not is_installed(name, version)
    ]
    if other and not (Path(sys.prefix) / ".installed").exists():
        pytest.skip(f"an environment that `make` did not set up has other versions: {', '.join(other)}")
    assert other == [], "`make clean` removes the environment, the next `make` sets it up anew"
