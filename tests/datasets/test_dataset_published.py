from __future__ import annotations

import os
import re

import pytest

from ookg.datasets.folder import load_dataset
from ookg.datasets.published import published_set, published_sets
from ookg.datasets.summary import statistics

needs_data = pytest.mark.skipif(not os.environ.get("OOKG_DATA"), reason="OOKG_DATA is not set: no published data sets")

# train, valid, aux, test, relations, entities and new entities of the paper's table; all new entities in test
PAPER = {
    "FB15k-Head-10": (108_854, 11_339, 249_798, 2_811, 1_170, 10_336, 2_082, 2_102),
    "FB15k-Tail-10": (99_783, 10_190, 261_341, 2_987, 1_126, 10_603, 1_934, 1_947),
    "WN11-Head-1000": (108_197, 4_561, 1_938, 955, 11, 37_700, 340, 343),
    "WN11-Head-3000": (99_963, 4_068, 5_311, 2_686, 11, 36_646, 985, 1_010),
    "WN11-Head-5000": (92_309, 3_688, 8_048, 4_252, 11, 35_560, 1_638, 1_706),
    "WN11-Tail-1000": (96_968, 3_864, 6_674, 852, 11, 36_771, 811, 817),
    "WN11-Tail-3000": (78_812, 2_851, 12_824, 2_061, 11, 33_800, 1_874, 1_917),
    "WN11-Tail-5000": (68_040, 2_258, 15_414, 2_968, 11, 31_311, 2_589, 2_678),
    "WN11-Both-1000": (93_683, 3_625, 7_875, 873, 11, 36_277, 1_136, 1_136),
    "WN11-Both-3000": (71_618, 2_436, 14_453, 2_242, 11, 32_254, 2_805, 2_805),
    "WN11-Both-5000": (58_923, 1_788, 16_660, 3_218, 11, 28_979, 3_934, 3_934),
}
UNTRAINED = {"FB15k-Head-10": (16_090, 80), "FB15k-Tail-10": (21_271, 194)}  # aux and test triples
WITHOUT_NEIGHBOR = {"WN11-Head-5000": 68, "WN11-Tail-3000": 43, "WN11-Tail-5000": 89, "WN11-Both-1000": 0}


def test_the_eleven_in_the_order_of_the_paper() -> None:
    assert list(published_sets()) == list(PAPER)


def test_each_has_its_six_sums() -> None:
    files = {"train.txt", "valid.txt", "aux.txt", "test.txt", "entities.dict", "relations.dict"}
    for published in published_sets().values():
        assert set(published.sums) == files
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in published.sums.values())


def test_tasks_and_remote_folders() -> None:
    tasks = {name: published.task for name, published in published_sets().items()}
    assert [name for name, task in tasks.items() if task == "link-prediction"] == ["FB15k-Head-10", "FB15k-Tail-10"]
    assert published_sets()["FB15k-Head-10"].remote_folder == "FB15k_OOKB_head10"
    assert published_sets()["WN11-Both-3000"].remote_folder == "WN11_OOKB_both3000"


def test_names_in_any_case() -> None:
    assert published_set("fb15K-HEAD-10") == published_sets()["FB15k-Head-10"]
    assert published_set("FB15k") is None


@needs_data
@pytest.mark.parametrize("name", PAPER)
def test_statistics_are_the_papers(name: str) -> None:
    dataset = load_dataset(name)
    numbers = statistics(dataset)
    counted = (numbers.train, numbers.valid, numbers.aux, numbers.test, numbers.relations, numbers.entities)
    assert (*counted, numbers.new_entities, numbers.new_entities_in_test) == PAPER[name]
    assert (numbers.aux_untrained, numbers.test_untrained) == UNTRAINED.get(name, (0, 0))
    assert numbers.new_without_neighbor == WITHOUT_NEIGHBOR.get(name, numbers.new_without_neighbor)
    assert numbers.task == dataset.task == published_sets()[name].task
