"""Damaged inputs for the command line: `python -m fuzz`, or `make fuzz`.

Inputs have numbers, and a number is always the same input. It prints a table and each input that was not taken or
refused as it should be; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fuzz.inputs import write_inputs
from fuzz.runner import PROBLEMS, Outcome, run_case, run_cases


def main() -> int:
    """Run the inputs that the options say."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, metavar="N", help="how many (20,000)")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first one (0)")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="only these, and all that they say")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work there and leave the last input's files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = arguments.keep or Path(temporary)
        sound = Path(temporary) / "sound"
        scratch.mkdir(exist_ok=True, parents=True)
        write_inputs(sound)
        if arguments.only is not None:
            for number in arguments.only:
                show(run_case(number, sound, scratch.resolve()))
            return 0
        begun = time.monotonic()
        numbers = range(arguments.start, arguments.start + arguments.inputs)
        found = list(told(run_cases(numbers, sound, scratch.resolve()), len(numbers)))
    print(f"\n{len(found):,} inputs in {time.monotonic() - begun:.0f} s\n")
    print(summary(found))
    slowest = sorted(found, key=lambda outcome: -outcome.seconds)[:5]
    print("\nslowest: " + ", ".join(f"input {outcome.number} {outcome.seconds:.1f} s" for outcome in slowest))
    bad = [outcome for outcome in found if outcome.problem]
    places = Counter(outcome.place for outcome in bad)
    for place, count in places.most_common():
        numbers_there = [outcome.number for outcome in bad if outcome.place == place]
        print(f"\n{count} x {place}\n  inputs {', '.join(map(str, numbers_there[:8]))}; see them with --only N")
    return 1 if bad else 0


def told(outcomes: Iterator[Outcome], total: int) -> Iterator[Outcome]:
    """The same, with a line now and then."""
    shown = time.monotonic()
    for done, outcome in enumerate(outcomes, start=1):
        if outcome.problem:
            print(f"input {outcome.number} ({outcome.kind}): {outcome.place}", file=sys.stderr, flush=True)
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            print(f"{done:,} of {total:,}", file=sys.stderr, flush=True)
        yield outcome


def show(outcome: Outcome) -> None:
    """All there is to know of one input."""
    print(f"input {outcome.number} ({outcome.kind}): {outcome.description}")
    print(f"exit code {outcome.code}, {outcome.seconds:.2f} s, problem: {outcome.problem or 'none'}\n{outcome.text}")


def summary(found: list[Outcome]) -> str:
    """The table: a line for each kind of input."""
    columns = ("inputs", "accepted", "refused", *PROBLEMS, "most lines", "slowest, s")
    lines = [f"{'kind':<28}" + "".join(f"{column:>14}" for column in columns)]
    for kind in [*dict.fromkeys(outcome.kind for outcome in found), "all"]:
        of_kind = [outcome for outcome in found if kind in (outcome.kind, "all")]
        counts = Counter(outcome.problem or ("accepted" if outcome.code == 0 else "refused") for outcome in of_kind)
        cells: list[object] = [len(of_kind), *(counts[name] for name in columns[1:-2])]
        cells += [max(outcome.lines for outcome in of_kind), f"{max(outcome.seconds for outcome in of_kind):.1f}"]
        lines.append(f"{kind:<28}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
