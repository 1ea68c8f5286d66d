"""The numbers that the paper prints, and how large it says its data sets are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Figures = Mapping[str, float]

LINK_PREDICTION_MEASURES = ("mrr", "hits@10", "hits@1")
CLASSIFICATION_MEASURES = ("accuracy",)

HEAD_10, TAIL_10 = "FB15k-Head-10", "FB15k-Tail-10"
LINK_PREDICTION_SETS = (HEAD_10, TAIL_10)
CLASSIFICATION_SETS = tuple(
    f"WN11-{position}-{size}" for position in ("Head", "Tail", "Both") for size in (1000, 3000, 5000)
)


def _ranks(mrr: float, hits_at_10: float, hits_at_1: float) -> Figures:
    return {"mrr": mrr, "hits@10": hits_at_10, "hits@1": hits_at_1}


# Table 1: FB15k-Head-10 and FB15k-Tail-10.
LINK_PREDICTION: Mapping[str, Mapping[str, Figures]] = {
    "GNN-LSTM": {HEAD_10: _ranks(0.254, 42.9, 16.2), TAIL_10: _ranks(0.219, 37.3, 14.3)},
    "GNN-MEAN": {HEAD_10: _ranks(0.310, 48.0, 22.2), TAIL_10: _ranks(0.251, 41.0, 17.1)},
    "LAN": {HEAD_10: _ranks(0.394, 56.6, 30.2), TAIL_10: _ranks(0.314, 48.2, 22.7)},
    "InvTransE": {HEAD_10: _ranks(0.462, 60.4, 38.5), TAIL_10: _ranks(0.357, 48.7, 29.0)},
    "InvRotatE": {HEAD_10: _ranks(0.453, 60.4, 36.9), TAIL_10: _ranks(0.362, 49.1, 29.3)},
}

# Table 2, and in full the last table of the appendix: accuracies in the order of CLASSIFICATION_SETS.
_ACCURACIES: Mapping[str, tuple[float | None, ...]] = {
    "ConvLayer": (None, None, None, None, None, None, 74.9, None, 64.6),
    "FCLEntity": (None, 82.6, None, None, 72.1, None, None, 68.6, None),
    "GNN-LSTM": (87.0, 83.5, 81.8, 82.9, 71.4, 63.1, 78.5, 71.6, 65.8),
    "GNN-MEAN": (87.3, 84.3, 83.3, 84.0, 75.2, 69.2, 83.0, 73.3, 68.2),
    "LAN": (88.8, 85.2, 84.2, 84.7, 78.8, 74.3, 83.3, 76.9, 70.6),
    "InvTransE": (89.2, 87.8, 87.0, 84.5, 80.1, 77.5, 86.3, 78.4, 74.6),
    "InvRotatE": (88.6, 86.9, 86.5, 84.7, 80.1, 75.8, 84.2, 75.0, 70.6),
}
TRIPLET_CLASSIFICATION: Mapping[str, Mapping[str, Figures]] = {
    method: {
        dataset: {} if value is None else {"accuracy": value}
        for dataset, value in zip(CLASSIFICATION_SETS, values, strict=True)
    }
    for method, values in _ACCURACIES.items()
}

# Table 3: InvTransE on FB15k-Head-10.
ABLATION: Mapping[str, Figures] = {
    "InvTransE (Full)": _ranks(0.462, 60.4, 38.5),
    "Up to 32 Neighbors": _ranks(0.447, 59.2, 37.2),
    "Up to 8 Neighbors": _ranks(0.386, 52.0, 31.3),
    "Only 1 Neighbor": _ranks(0.246, 37.9, 18.1),
    "Uniform Weights": _ranks(0.361, 52.0, 28.1),
}

# Growing graphs (Cui et al., AAAI 2023), as quoted in the literature: MRR after the last snapshot over the tests of all
# five, among the entities of the test's own snapshot.
CONTINUAL_SETS = ("ENTITY", "FACT", "HYBRID", "RELATION")
CONTINUAL_MEASURES = ("mrr", "mrr-snapshot", "seconds")
_CONTINUAL: Mapping[str, tuple[float, ...]] = {
    "LKGE (as printed)": (0.234, 0.210, 0.207, 0.192),
    "IncDE (as printed)": (0.253, 0.216, 0.224, 0.199),
    "Retraining (as printed)": (0.236, 0.206, 0.227, 0.219),
}
CONTINUAL: Mapping[str, Mapping[str, Figures]] = {
    method: {dataset: {"mrr-snapshot": value} for dataset, value in zip(CONTINUAL_SETS, values, strict=True)}
    for method, values in _CONTINUAL.items()
}


@dataclass(frozen=True)
class FewShotSet:
    """A few-shot data set with a number of given triples per newcomer.

    source: the data set's own name; also_true: a growing set with further true triples, which are no wrong answers
    """

    source: str
    shots: int
    also_true: str | None = None


# Newcomers with few triples (Baek et al., GEN, NeurIPS 2020), as printed there: FB15k-237, 3-shot. The tasks hold about
# a fifth of what FB15k-237 states of the newcomers. GEN's code counts nothing that FB15k-237 states as a wrong answer.
# ENTITY is FB15k-237 in snapshots: together they are the same 310,116 triples.
FEW_SHOT_SETS: Mapping[str, FewShotSet] = {
    "GEN-FB15k-237-3": FewShotSet("FB15k-237", 3, "ENTITY"),
    "GEN-FB15k-237-1": FewShotSet("FB15k-237", 1, "ENTITY"),
    "GEN-NELL-995-3": FewShotSet("NELL-995", 3),
}
WITH_ALSO_TRUE = "-also-true"  # at the end of a measure: what the other set states is no wrong answer
_COMPARED = ("mrr", "hits@1", "hits@10")
FEW_SHOT_MEASURES = (*_COMPARED, "mrr-known", "mrr-new", *(f"{name}{WITH_ALSO_TRUE}" for name in _COMPARED))
FEW_SHOT: Mapping[str, Mapping[str, Figures]] = {
    method: {"GEN-FB15k-237-3": {f"{name}{WITH_ALSO_TRUE}": figures[name] for name in _COMPARED}}
    for method, figures in {
        "I-GEN (as printed)": _ranks(0.367, 53.7, 28.1),
        "T-GEN (as printed)": _ranks(0.382, 56.5, 28.9),
    }.items()
}

# "Under similar configurations, LAN costs about 15 times the time of InvTransE to train a model."
TRAINING_TIME_RATIO = 15.0

# The table of data sets in the appendix: known entities |E| and new entities |E'|.
ENTITIES: Mapping[str, tuple[int, int]] = {
    "FB15k-Head-10": (10_336, 2_082),
    "FB15k-Tail-10": (10_603, 1_934),
    "WN11-Head-1000": (37_700, 340),
    "WN11-Head-3000": (36_646, 985),
    "WN11-Head-5000": (35_560, 1_638),
    "WN11-Tail-1000": (36_771, 811),
    "WN11-Tail-3000": (33_800, 1_874),
    "WN11-Tail-5000": (31_311, 2_589),
    "WN11-Both-1000": (36_277, 1_136),
    "WN11-Both-3000": (32_254, 2_805),
    "WN11-Both-5000": (28_979, 3_934),
}

# The ids in each data set's entities.dict, which are more: some entities are in no part. The authors' code gives each a
# row, trains only the known ones and draws negatives from all.
_ALL_IDS = {"FB15k-Head-10": 14_295, "FB15k-Tail-10": 14_222, "WN11": 38_194}


def untrained_ids(dataset: str) -> int:
    """The ids of a data set that are in no training triple."""
    everyone = _ALL_IDS.get(dataset) or _ALL_IDS[dataset.split("-", maxsplit=1)[0]]
    return everyone - ENTITIES[dataset][0]


def new_entity_ratio(dataset: str) -> float:
    """New entities among all entities of a data set, in percent: 100·|E'| / (|E| + |E'|)."""
    known, new = ENTITIES[dataset]
    return 100 * new / (known + new)
