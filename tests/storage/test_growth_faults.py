"""Adding, removing and updating, killed at random moments; `benchmarks/growth_faults.py` does it hundreds of times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GROWTH_FAULTS = Path(__file__).parents[2] / "benchmarks" / "growth_faults.py"


def test_kills_lose_nothing_that_was_acknowledged() -> None:
    command = [sys.executable, str(GROWTH_FAULTS), "--kills", "5"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all held"), done.stdout + done.stderr
    assert done.stdout.startswith("growth: 5 kills, 5 times all held")
