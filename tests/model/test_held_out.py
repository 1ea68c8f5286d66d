"""Triples that are held out, steps by the size of the graph, and a training that stops when more no longer pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ookg
from circle_graphs import SMALL, graph
from ookg.cli import main
from ookg.errors import InputError
from ookg.model.held_out import HeldOut
from ookg.models.embedding import Embedding
from ookg.research.reproduction.settings import PaperSettings
from ookg.training.loop import TrainingRun
from ookg.training.plan import TRIPLE_BYTES
from ookg.training.settings import PRESETS, TrainingSettings
from ookg.training.trainer import Trainer


def test_what_is_held_out_leaves_every_entity_and_relation_with_a_triple() -> None:
    triples = graph()
    held_out = HeldOut.of(triples.ids, replace(SMALL, held_out=40))
    assert held_out is not None
    assert len(held_out) == 40
    assert len(held_out.trained) == len(triples) - 40
    assert set(held_out.trained[:, [0, 2]].ravel()) == set(range(len(triples.entities)))
    assert set(held_out.trained[:, 1]) == set(range(len(triples.relations)))
    again, other = (HeldOut.of(triples.ids, replace(SMALL, held_out=40, seed=seed)) for seed in (0, 1))
    assert again is not None
    assert other is not None
    np.testing.assert_array_equal(held_out.trained, again.trained)
    assert not np.array_equal(held_out.trained, other.trained)


def test_reciprocal_ranks_are_those_that_are_counted_by_hand() -> None:
    triples = graph(20, 200)
    held_out = HeldOut.of(triples.ids, replace(SMALL, held_out=15))
    assert held_out is not None
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(len(triples.entities), 8, generator=generator)
    relations = torch.randn(len(triples.relations), 8, generator=generator)
    embedding, expected = Embedding(SMALL.geometry, vectors, relations), []
    true = {tuple(row) for row in triples.ids.tolist()}
    questions = held_out.questions
    asked = zip(questions.entity, questions.relation, questions.answer, questions.asks_tail, strict=True)
    for entity, relation, answer, asks_tail in asked:

        def gap(other: int) -> float:
            head, tail = (entity, other) if asks_tail else (other, entity)  # noqa: B023
            return float((vectors[head] + relations[relation] - vectors[tail]).abs().sum())  # noqa: B023

        rivals = [
            other
            for other in range(len(triples.entities))
            if ((entity, relation, other) if asks_tail else (other, relation, entity)) not in true
        ]
        expected.append(1 / (1 + sum(gap(other) < gap(answer) for other in rivals)))
    assert held_out.reciprocal_ranks(embedding) == pytest.approx(expected)


def test_steps_by_the_size_of_the_graph() -> None:
    settings = TrainingSettings()
    assert settings.steps == 0
    found = [settings.steps_for(size) for size in (100, 33_000, 100_000, 272_115, 483_142, 1_000_000, 10_000_000)]
    assert found == sorted(found)
    assert found[:3] == [2_000, 6_000, 7_820]
    assert found[3] == found[4] == 20_000  # FB15k-237 and FB15k
    assert found[-1] == 100_000
    assert all(steps % 20 == 0 for steps in found)
    for preset in PRESETS.values():
        assert preset.validated(100) == preset
    chosen = settings.validated(100_000)
    assert (chosen.held_out, chosen.validate_every, chosen.patience) == (1_000, chosen.steps // 20, 3)
    assert settings.validated(4_999).held_out == 0  # too few to say anything
    assert replace(settings, held_out=7).validated(100_000).held_out == 7
    assert settings.with_steps(100_000).held_out == 0  # a bare trainer has nothing to validate on


def test_published_results_keep_their_settings() -> None:
    stored = PaperSettings().to_dict()
    assert stored["steps"] == 20_000
    assert "held_out" not in stored
    assert PaperSettings().validated(100) == PaperSettings()


def test_no_steps_train_by_the_size_and_report_a_quality(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ookg.training.settings.FEWEST_STEPS", 200)
    for name in ("SMALL_PASSES", "PASSES", "LARGE_PASSES"):
        monkeypatch.setattr(f"ookg.training.settings.{name}", 1)
    monkeypatch.setattr("ookg.training.settings.FEWEST_HELD_OUT", 2)
    triples = graph()
    model = ookg.train(triples, replace(SMALL, steps=0))
    stored, provenance = model.checkpoint.settings, model.checkpoint.provenance
    assert (stored["steps"], stored["validate_every"]) == (200, 10)
    quality = provenance["quality"]
    assert (quality["figure"], quality["of"], quality["triples"]) == ("MRR", "held-out triples", len(triples) // 100)
    assert 0 < quality["value"] <= 1
    assert len(model.checkpoint.triples) == len(triples)  # what is held out is known all the same
    assert ookg.train(triples, SMALL).checkpoint.provenance["quality"] is None


def test_triples_to_validate_on_are_taken_before_any_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ookg.training.settings.FEWEST_STEPS", 40)
    for name in ("SMALL_PASSES", "PASSES", "LARGE_PASSES"):
        monkeypatch.setattr(f"ookg.training.settings.{name}", 1)
    triples = graph()
    model = ookg.train(triples, replace(SMALL, steps=0), valid=[*list(triples)[:20], ("nobody", "r0", "nothing")])
    assert model.checkpoint.settings.get("held_out", 0) == 0
    assert model.checkpoint.provenance["quality"]["of"] == "validation triples"
    assert model.checkpoint.provenance["quality"]["triples"] == 20  # and not those of entities that nobody knows


def run_with(figures: list[float], settings: TrainingSettings) -> TrainingRun:
    """A run whose validations give these figures, one after the other."""
    triples = torch.from_numpy(graph().ids)
    said = iter(figures)
    return TrainingRun(Trainer(triples, 60, 5, settings), None, lambda entities, relations: next(said))


def test_training_stops_when_nothing_is_gained_after_the_rate_has_dropped() -> None:
    settings = replace(SMALL, steps=200, lr_drops=(0.2,), validate_every=10, patience=2, held_out=10)
    # Nothing is gained from 20 on, but the rate drops at 40. Then 0.3 is the best at 50; 60 and 70 bring too little.
    run = run_with([0.1, 0.2, 0.2, 0.2, 0.3, 0.3, 0.3001, 0.9], settings)
    tables = run.run()
    assert run.trainer.step_number == 70
    assert tables.step == 70  # the best all the same
    assert [step for step, _ in tables.validations] == [10, 20, 30, 40, 50, 60, 70]


def test_training_goes_on_while_it_pays() -> None:
    settings = replace(SMALL, steps=100, validate_every=10, patience=2, held_out=10)
    assert run_with([number / 10 for number in range(1, 11)], settings).run().step == 100


def test_the_command_says_how_good_the_model_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join("\t".join(row) + "\n" for row in graph())
    (tmp_path / "graph.tsv").write_text(lines, encoding="utf-8")
    options = ["--dim", "4", "--steps", "20", "--batch", "8", "--negatives", "2", "--device", "cpu"]
    command = ["train", str(tmp_path / "graph.tsv"), "--out", str(tmp_path / "model"), *options]
    assert main([*command, "--held-out", "20", "--validate-every", "10"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("MRR 0.")
    assert last.endswith(" on 20 held-out triples")  # too few to choose evidence by
    assert main([*command, "--held-out", "30", "--overwrite"]) == 0
    *_, quality, evidence = capsys.readouterr().err.splitlines()
    assert quality.endswith(" on 30 held-out triples")
    assert evidence.startswith("MRR 0.")
    assert " with links" in evidence  # a step states the one back
    assert main([*command, "--overwrite"]) == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith("how good it is was not measured; ")
    assert main([*command, "--overwrite", "--validate-every", "5"]) == 2
    assert "give --valid FILE, or --held-out N" in capsys.readouterr().err


def test_numbers_that_cannot_be() -> None:
    for name in ("steps", "held_out"):
        with pytest.raises(InputError, match=f"{name} -1; it must be 0 or more"):
            SMALL.changed({name: -1})


def test_a_plan_counts_the_best_vectors_where_they_are_kept() -> None:
    triples = graph()
    valid = triples.select(np.arange(10))
    waiting = replace(SMALL, validate_every=10, patience=2)
    copy = 4 * (
        len(triples.entities) * SMALL.geometry.entity_width + len(triples.relations) * SMALL.geometry.relation_width
    )
    plain = ookg.plan_training(triples, waiting, device="cpu").memory_bytes  # it has nothing to validate on
    assert ookg.plan_training(triples, waiting, valid=valid, device="cpu").memory_bytes == plain + copy
    assert ookg.plan_training(triples, SMALL, valid=valid, device="cpu").memory_bytes == plain  # the last ones count
    held_out = ookg.plan_training(triples, replace(waiting, held_out=40), device="cpu")
    assert held_out.memory_bytes == plain + copy - 40 * TRIPLE_BYTES
