"""Small few-shot data sets for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

KNOWN, VALID, TEST, RELATIONS = 20, 4, 6, 3


def few_shot_rows(seed: int = 0) -> dict[str, list[str]]:
    """Known entities e0 to e19; newcomers v0 to v3 and t0 to t5 with five or six triples, the second one a loop of t0.

    The last triple of t1 is with t2, and that of t2 with x, which is in no other triple.
    """
    rng = np.random.default_rng(seed)
    known = [f"e{n}\tr{n % RELATIONS}\te{(n * 7 + 1) % KNOWN}" for n in range(KNOWN)] + ["e0\tr0\te0", "e3\tr0\te3"]
    ends = rng.integers(0, KNOWN, (80, 2)).tolist()
    known += [f"e{head}\tr{1 + (head + tail) % 2}\te{tail}" for head, tail in ends if head != tail]
    known = list(dict.fromkeys(known))
    tasks: dict[str, list[str]] = {}
    for name, size in (("v", VALID), ("t", TEST)):
        lines = []
        for number in range(size):
            newcomer = f"{name}{number}"
            others = rng.permutation(KNOWN)[: 5 + number % 2].tolist()
            own = [
                f"{newcomer}\t{newcomer}\tr{other % RELATIONS}\te{other}"
                if other % 2
                else f"{newcomer}\te{other}\tr{other % RELATIONS}\t{newcomer}"
                for other in others
            ]
            if newcomer == "t0":
                own.insert(1, "t0\tt0\tr0\tt0")
            if newcomer in ("t1", "t2"):
                own.append("t1\tt2\tr1\tt1" if newcomer == "t1" else "t2\tt2\tr2\tx")
            lines += own
        tasks[name] = lines
    return {"in-graph": known[:-10], "train-tasks": known[-10:], "valid-tasks": tasks["v"], "test-tasks": tasks["t"]}


def write_few_shot_set(folder: Path, seed: int = 0) -> Path:
    """The same as a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, lines in few_shot_rows(seed).items():
        (folder / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder
