from __future__ import annotations

import asyncio
from pathlib import Path

from fuzz.requests import run

REQUESTS = 400  # of the 10,000 of `make fuzz-service`


def test_malformed_requests_are_refused_in_one_form(directory: Path) -> None:
    statuses, wrong = asyncio.run(run(directory, range(REQUESTS)))
    assert wrong == {}
    assert statuses[200] > REQUESTS // 10
    assert statuses[422] > REQUESTS // 10
    assert statuses[404] > 0
