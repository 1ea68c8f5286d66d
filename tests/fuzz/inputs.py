"""The sound inputs that are damaged: a folder for each kind, the same bytes every time."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file

from fuzz.foreign_inputs import IMPORTERS, N, R, write_foreign
from fuzz.version_1 import as_version_1
from ookg.evaluation.ranks import QuestionRanks
from ookg.evidence.combined import RankingWeights
from ookg.graph.known import KnownGraph
from ookg.graph.rdf import rdf_syntax
from ookg.graph.tables import write_table
from ookg.graph.triples import Triples, as_triples, read_triples, write_triples
from ookg.graph.vectors import write_vectors
from ookg.model.train import _digest
from ookg.models.embedding import Embedding
from ookg.newcomers.refinement import RefineSettings
from ookg.simulation.choice import NewcomerChoice
from ookg.simulation.judge import FittedJudge
from ookg.simulation.trust import Calibration, Expectation
from ookg.storage.checkpoint import MODEL_FILE, STATE_FILE, Checkpoint, load_checkpoint, save_checkpoint
from ookg.storage.names import add_names
from ookg.storage.network import StoredNetwork, write_network
from ookg.storage.sqlite_journal import SqliteJournal
from ookg.training.loop import TrainingRun
from ookg.training.network import NetworkSettings, RelationNetwork
from ookg.training.settings import TrainingSettings
from ookg.training.trainer import Trainer

SETTINGS = TrainingSettings(dim=4, steps=4, batch=8, negatives=2, margin=4.0, lr=0.05)
TRAINING = ("--dim", "4", "--steps", "4", "--batch", "8", "--negatives", "2", "--margin", "4", "--lr", "0.05")
MODEL = "@model/model"  # @ is the folder of all sound inputs
IRI = "http://x/"
GROWN = "transr"  # the model that has a journal and an earlier version


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    folder: the sound files, copied for each case; files: patterns of those that are damaged
    commands: command lines that read them, one of which is run in the copy
    """

    name: str
    folder: str
    commands: Sequence[tuple[str, ...]]
    files: tuple[str, ...] = ("**/*",)


TRIPLE_FILES = ("tsv", "csv", "tsv.gz", "csv.zst", "txt.bz2", "parquet", "nt", "nq", "ttl", "trig", "rdf", "nt.gz")

NAME_FILES = ("tsv", "csv.gz", "parquet")

TABLE_FILES = ("parquet", "csv", "jsonl")


def kinds() -> list[Kind]:
    """Every kind of input that is read from files."""
    found = [_triples(ending) for ending in TRIPLE_FILES]
    claims = ("classify", MODEL, "claims.tsv", "--valid", "valid.csv", "--given", "@triples/graph.tsv", "--no-judge")
    found.append(Kind("labelled claims", "claims", [claims, (*claims, "--json")]))
    found.append(
        Kind(
            "predicates",
            "claims",
            [("embed", "@iris/model", "@triples/graph.nt", "--predicates", "p.txt", "--out", "v.parquet")],
            ("p.txt",),
        )
    )
    found.append(
        Kind(
            "--config",
            "settings",
            [("train", "@triples/graph.tsv", "--out", "m", "--config", "settings.toml", "--steps", "4")],
        )
    )
    for name in ("model", "rotate", "transr"):
        growing = _growing_commands() if name == GROWN else []
        found.append(Kind(f"model directory, {name}", name, [*_model_commands(), *growing]))
    for ending in NAME_FILES:
        name, train = f"names.{ending}", ("train", "@triples/graph.tsv", "--out", "m", *TRAINING)
        commands = [("names", "model", name), ("names", "model", name, "--replace"), (*train, "--names", name)]
        found.append(Kind(f"names, {ending}", "names", commands, (name,)))
    resume = ("train", "@triples/graph.tsv", "--out", "run", "--resume", *TRAINING)
    found.append(Kind("training state", "state", [resume, (*resume, "--overwrite")]))
    evaluate = ("evaluate", MODEL, "--dataset", "data")
    found.append(
        Kind(
            "data set folder",
            "dataset",
            [
                ("datasets", "stats", "data"),
                ("train", "data", "--out", "m", *TRAINING),
                evaluate,
                (*evaluate, "--json"),
            ],
        )
    )
    grown = ("evaluate", MODEL, "--dataset", "grown")
    found.append(Kind("growing data set", "growing", [("datasets", "stats", "grown"), grown, (*grown, "--json")]))
    few = ("evaluate", MODEL, "--dataset", "few", "--shots", "1")
    trained = ("train", "few", "--out", "m", *TRAINING)
    found.append(Kind("few-shot data set", "few-shot", [("datasets", "stats", "few"), few, (*few, "--json"), trained]))
    reproduce = ("reproduce", "--from-results", "--out", "results")
    listed = ("reproduce", "--list", "--out", "results", "--table", "link-prediction", "--dataset", "FB15k-Head-10")
    found.append(Kind("results", "results", [reproduce, (*reproduce, "--json"), listed], ("results/**/*",)))
    found.append(Kind("Markdown of reproduce", "results", [(*reproduce, "--markdown", "page.md")], ("page.md",)))
    for ending in TABLE_FILES:
        name = f"ranks.{ending}"
        found.append(Kind(f"ranks, {ending}", "tables", [("compare", name, "@tables/ranks.csv")], (name,)))
        name, given = f"questions.{ending}", ("--given", "@triples/graph.tsv")
        asking = ("predict", MODEL, *given, "--questions", name, "--out", "answers.parquet")
        found.append(Kind(f"questions, {ending}", "tables", [asking], (name,)))
        name = f"vectors.{ending}"
        asking = ("predict", MODEL, "--vectors", name, "--head", "v0", "--relation", "r0")
        found.append(Kind(f"vectors, {ending}", "tables", [asking], (name,)))
    return found + [_importer(name, line) for name, line in IMPORTERS.items()]


def _triples(ending: str) -> Kind:
    name = f"graph.{ending}"
    is_rdf = rdf_syntax(Path(name)) is not None
    model, prefix = ("@iris/model", IRI) if is_rdf else (MODEL, "")
    question = ("predict", model, "--given", name, "--head", f"{prefix}new0", "--relation", f"{prefix}r0")
    commands = [
        ("datasets", "split", name, "--out", "split"),
        ("train", name, "--out", "m", *TRAINING),
        ("embed", model, name, "--out", "v.parquet"),
        question,
        (*question, "--refine", "--refine-steps", "3"),
        ("export", model, "--out", "out", "--given", name, "--format", "npy"),
        ("train", name, "--out", "m", "--literals", *TRAINING),
    ]
    if not is_rdf:
        commands.append(("import", "arrays", "@import/arrays-npy", "--out", "m", "--triples", name))
    return Kind(f"triples, {ending}", "triples", commands, (name,))


def _model_commands() -> list[tuple[str, ...]]:
    given = ("--given", "@triples/graph.tsv")
    question = ("predict", "model", *given, "--head", "new0", "--relation", "r0")
    return [
        ("embed", "model", "@triples/graph.tsv", "--out", "v.parquet"),
        (*question, "--explain"),
        ("predict", "model", "--tail", "e1", "--relation", "r1"),
        (*question, "--refine", "--json"),
        (*question, "--refine", "--refine-steps", "3", "--combine"),
        ("classify", "model", "@claims/claims.tsv", "--valid", "@claims/valid.csv", *given),
        ("evaluate", "model", "--dataset", "@dataset/data"),
        ("export", "model", "--out", "out", "--format", "word2vec"),
        ("export", "model", "--out", "out", "--format", "pykeen", *given),
        ("determinacy", "model", "--top", "2"),
        ("tune", "model", "--quick", "--trials", "1", "--sample", "6"),
        ("audit", "model", "--quick", "--sample", "6"),
    ]  # fmt: skip


def _growing_commands() -> list[tuple[str, ...]]:
    return [
        ("history", "model"),
        ("status", "model", "--json"),
        ("add", "model", "@triples/graph.tsv"),
        ("remove", "model", "--entity", "new0"),
        ("update", "model", "--steps", "2"),
        ("rollback", "model"),
        ("check", "model"),
        ("predict", "model", "--head", "new0", "--relation", "r0"),
    ]


def _importer(name: str, line: tuple[str, ...]) -> Kind:
    command = ("import", *line, "--out", "out")
    commands = [command] if "--triples" in line else [command, (*command, "--triples", "@triples/graph.tsv")]
    return Kind(f"import {name}", f"import/{name}", commands)


def write_inputs(folder: Path) -> None:
    """Write all sound inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    known = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(*(rng.integers(0, n, 60) for n in (N, R, N)), strict=True)]
    known += [(f"e{n}", f"r{n % R}", f"e{(n + 1) % N}") for n in range(N)]
    new = [("new0", "r0", "e1"), ("e2", "r1", "new0"), ("new1", "r2", "e3"), ("new1", "r0", "new0")]
    graph = as_triples(known)
    _write_triples(folder / "triples", as_triples([*known[:20], *new]))
    _write_claims(folder / "claims", known)
    _write_tables(folder / "tables", known)
    parts = {"train": known, "valid": known[:5], "aux": new[:3], "test": [("new0", "r2", "e5"), ("e6", "r0", "new1")]}
    for name, rows in parts.items():
        write_triples(folder / "dataset" / "data" / f"{name}.txt", as_triples(rows))
    snapshots = [(known[:30], known[30:35]), (known[35:], [("e0", "r0", "e1")])]
    for number, (train, test) in enumerate(snapshots):
        for name, rows in (("train", train), ("valid", test[:2]), ("test", test)):
            write_triples(folder / "growing" / "grown" / str(number) / f"{name}.txt", as_triples(rows))
    _write_few_shot(folder / "few-shot" / "few", known, new)
    (folder / "settings").mkdir()
    lines = [f"{name} = {json.dumps(value)}" for name, value in SETTINGS.to_dict().items()]
    (folder / "settings" / "settings.toml").write_text("\n".join(["# a comment", *lines]) + "\n")
    for name, model in (("model", "transe"), ("rotate", "rotate"), ("transr", "transr")):
        _write_model(folder / name / "model", graph, model, version=1 if model == "rotate" else 2)
    _grow(folder / GROWN / "model")
    _write_names(folder / "names", folder / "model" / "model")
    _write_model(folder / "iris" / "model", as_triples([[f"{IRI}{label}" for label in row] for row in known]), "transe")
    _write_state(folder / "state" / "run", folder / "triples" / "graph.tsv")
    _write_results(folder / "results")
    write_foreign(folder / "import")


def _write_few_shot(folder: Path, known: list[tuple[str, str, str]], new: list[tuple[str, str, str]]) -> None:
    """Two newcomers, the second in valid-tasks alone."""
    write_triples(folder / "in-graph.txt", as_triples(known[:40]))
    write_triples(folder / "train-tasks.txt", as_triples(known[40:]))
    for part, newcomer, rows in (("test", "new0", new[:2]), ("valid", "new1", new[2:])):
        lines = ["\t".join((newcomer, *row)) for row in [*rows, (newcomer, "r1", "e4")]]
        (folder / f"{part}-tasks.txt").write_text("\n".join(lines) + "\n")


def _write_triples(folder: Path, triples: Triples) -> None:
    folder.mkdir()
    for ending in ("tsv", "csv", "csv.zst", "parquet", "tsv.gz", "txt.bz2"):
        write_triples(folder / f"graph.{ending}", triples)
    nodes = [tuple(f"<http://x/{label}>" for label in triple) for triple in triples]
    lines = [f"{h} {r} {t} ." for h, r, t in nodes]
    odd = ['_:b0 <http://x/r0> "a \\"text\\""@en .', '<http://x/e1>  <http://x/r1> "\\u00e9" . # odd']
    text = "\n".join([*lines, *odd]) + "\n"
    turtle = "@prefix x: <http://x/> .\n" + "\n".join(
        f"x:{h} x:{r} x:{t} ; x:r1 [ x:r0 x:{h} ] ." for h, r, t in triples
    )
    items = "".join(
        f'<rdf:Description rdf:about="http://x/{h}"><x:{r} rdf:resource="http://x/{t}"/></rdf:Description>\n'
        for h, r, t in triples
    )
    names = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x/"'
    contents = {
        "nt": text,
        "nq": "\n".join(line[:-1] + "<http://x/graph> ." for line in lines) + "\n",
        "ttl": turtle,
        "trig": f"@prefix x: <http://x/> .\nx:g {{ {turtle.split(chr(10), 1)[1]} }}\n",
        "rdf": f'<?xml version="1.0"?>\n<rdf:RDF {names}>\n{items}</rdf:RDF>\n',
    }
    for ending, content in contents.items():
        (folder / f"graph.{ending}").write_text(content)
    (folder / "graph.nt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _write_claims(folder: Path, known: list[tuple[str, str, str]]) -> None:
    folder.mkdir()
    false = [(h, r, f"e{(int(t[1:]) + 5) % N}") for h, r, t in known[:15]]
    rows = [(*triple, "1") for triple in known[:15]] + [(*triple, "-1") for triple in false]
    new = [("new0", "r0", "e4", "1"), ("e5", "r2", "new1", "0")]
    (folder / "claims.tsv").write_text("".join("\t".join(row) + "\n" for row in [*rows[::2], *new]))
    header = "head,relation,tail,label\n"
    (folder / "valid.csv").write_text(header + "".join(",".join(row) + "\n" for row in rows))
    (folder / "p.txt").write_text("http://x/r0\n<http://x/r1>\n")


def _write_tables(folder: Path, known: list[tuple[str, str, str]]) -> None:
    questions = {"head": ["new0", None, "e1", None], "relation": ["r0", "r1", None, None]}
    questions |= {"tail": [None, "e2", None, None], "entity": [None, None, None, "e3"]}
    ranks = QuestionRanks(
        ["e1", "e1", "e2"], ["r0"] * 3, ["e3", "e3", "e4"], np.array([True, False, True]),
        np.array([1.0, 2.5, 7.0]), np.array([3, 1, 2]),
    )  # fmt: skip
    for ending in TABLE_FILES:
        ranks.write(folder / f"ranks.{ending}")
        write_table(folder / f"questions.{ending}", pa.table(questions))
        write_vectors(folder / f"vectors.{ending}", "entity", ["v0", "v1"], torch.arange(8.0).view(2, SETTINGS.dim) / 8)
    rows = [(f"e{n}", f"r{n % R}", f"e{(n + 5) % N}") for n in range(N)]
    write_triples(folder / "held-out.tsv", as_triples([row for row in rows if row not in known]))


def _write_model(folder: Path, graph: Triples, model: str, version: int = 2) -> None:
    generator = torch.Generator().manual_seed(0)
    settings = SETTINGS.changed({"model": model})
    geometry = settings.geometry
    sizes = len(graph.entities), len(graph.relations)
    tables = (
        torch.randn(rows, width, generator=generator)
        for rows, width in zip(sizes, (geometry.entity_width, geometry.relation_width), strict=True)
    )
    expectation = Expectation((0.1, 0.2, 0.3, 0.4, 0.5), 0.1, 0.2)
    choice = NewcomerChoice(
        power=2.0,
        refine=RefineSettings(steps=3, negatives=2) if model != "transr" else None,
        best="combined",
        ranking={"refined": RankingWeights()},
        calibration={"closed form": Calibration(expectation, expectation, 5, 2.0, 7)},
        simulation={"seed": 0},
        judge=FittedJudge(("x", "y"), (0.0, 0.5), (1.0, 2.0), (0.1, 0.2, 0.3), {}, "head", "0" * 64, {"claims": 4}),
    )
    provenance = {"ookg": "0.1.0", "training_triples": "0" * 16, "step": 4, "validations": [[2, 0.5]], "seconds": 1.0}
    save_checkpoint(
        Checkpoint(
            Embedding(geometry, *tables),
            graph.entities,
            graph.relations,
            KnownGraph(graph.ids, *sizes),
            settings.to_dict(),
            provenance,
            choice.to_dict(),
        ),
        folder,
    )
    if version == 1:
        as_version_1(folder)
    description = json.loads((folder / MODEL_FILE).read_text())
    (folder / description["data"]).rename(folder / "data-00000000")  # a name of its own would change the bytes
    (folder / MODEL_FILE).write_text(json.dumps(_plain(description) | {"data": "data-00000000"}, indent=2))


def _grow(folder: Path) -> None:
    """Give a model a journal, of which it has learned the first batch, an earlier version, names and a network."""
    description = json.loads((folder / MODEL_FILE).read_text())
    shutil.copytree(folder / description["data"], folder / "data-00000001")
    (folder / "version-1.json").write_text(json.dumps(description | {"data": "data-00000001"}, indent=2))
    (folder / MODEL_FILE).write_text(json.dumps(description | {"number": 2, "journal": 1}, indent=2))
    journal = SqliteJournal(folder)
    for rows in ([("e1", "r0", "e2")], [("new0", "r0", "e1"), ("new1", "r1", "new0")], [("e3", "r9", "e4")]):
        journal.append("add", rows, lambda some: [False] * len(some), author="me")
    labels = load_checkpoint(folder).relations.labels.to_pylist()
    about = {"settings": NetworkSettings(steps=2).to_dict(), "version": 1, "triples": 4, "created": "2026-01-01"}
    parameters = RelationNetwork(2 * len(labels)).to_arrays()
    write_network(folder, StoredNetwork(parameters, tuple(labels), about | {"seconds": 1.0}, len(labels)))
    add_names(folder, [("e1", "one"), ("new0", "a newcomer"), ("r0", "a relation")])
    with closing(sqlite3.connect(journal.path)) as connection, connection:
        connection.execute("UPDATE batches SET time = '2026-01-01T00:00:00.000+00:00'")


def _write_names(folder: Path, model: Path) -> None:
    """Names in each form, and a model to give them to."""
    shutil.copytree(model, folder / "model")
    rows = [("e1", "one", "the first"), ("new0", "a newcomer", ""), ("r0", "a relation", ""), ("e2", "one", "")]
    text = "".join(",".join(row) + "\n" for row in [("id", "name", "description"), *rows])
    (folder / "names.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    (folder / "names.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(("id", "name", "description"), map(list, columns), strict=True)))
    pq.write_table(table, folder / "names.parquet")


# What an old model.json has; without the rest, damage to a file of the model is not found by its sum alone.
PLAIN_KEYS = (
    "format", "version", "model", "dim", "norm", "squared", "unit_norm", "relation_dim", "entities", "relations",
    "triples", "data", "bytes", "settings", "provenance", "newcomers",
)  # fmt: skip


def _plain(description: dict[str, Any]) -> dict[str, Any]:
    found = {name: description[name] for name in PLAIN_KEYS if name in description}
    if isinstance(found.get("newcomers"), dict):
        found["newcomers"] = {name: value for name, value in found["newcomers"].items() if name != "digest"}
    return found


def seal(model: Path) -> None:
    """Write the sizes that a model's files have into its description, so that what is in them is looked at."""
    path = model / MODEL_FILE
    try:
        found = json.loads(path.read_text())
        sizes = {name: (model / found["data"] / name).stat().st_size for name in found["bytes"]}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return  # it is the description itself that is damaged
    grown = {name: found[name] for name in ("number", "journal") if name in found}
    path.write_text(json.dumps(_plain(found) | grown | {"bytes": sizes}))


def _write_state(folder: Path, graph: Path) -> None:
    """The state of a run after two of its four steps."""
    triples = read_triples(graph)
    sizes = len(triples.entities), len(triples.relations)
    settings = SETTINGS.resolved(len(triples.entities))  # as a command stores it
    fingerprint = settings.to_dict() | {"training triples": _digest(triples)}
    run = TrainingRun(Trainer(torch.from_numpy(triples.ids), *sizes, SETTINGS), folder / STATE_FILE, None, fingerprint)
    run.trainer.step()
    run.trainer.step()
    run.validations = [(2, 0.5)]
    run.save()
    header = {"fingerprint": fingerprint, "validations": run.validations, "seconds": 1.0}  # not the time it took
    save_file(load_file(folder / STATE_FILE), folder / STATE_FILE, {"ookg": json.dumps(header)})


def _write_results(folder: Path) -> None:
    place = folder / "results" / "FB15k-Head-10" / "InvTransE"
    place.mkdir(parents=True)
    for seed in range(2):
        result = {
            "dataset": "FB15k-Head-10",
            "method": "InvTransE",
            "seed": seed,
            "variant": "",
            "settings": {"training": SETTINGS.to_dict(), "weights": "correlation", "power": 4.0},
            "figures": {"mrr": 0.46 + seed / 1000, "hits@10": 60.0, "hits@1": 38.4},
            "seconds": {"train": 40.0, "evaluate": 1.0},
            "versions": {"ookg": "0.1.0", "torch": "2.9.0"},
            "device": "a device",
            "date": "2026-01-01",
        }
        (place / f"seed-{seed}.json").write_text(json.dumps(result, indent=2))
    (folder / "results" / "efficiency").mkdir()
    kinds = ("InvTransE, known entity", "InvTransE, new entity", "LAN, any entity")
    times = {
        "settings": {"lan": {"dim": 100}},
        "training": [{"configuration": "published", "inv_transe": 2.0, "lan": 30.0, "of_paper": True}],
        "representation": [
            {"what": what, "neighbors": m, "dim": d, "seconds": 1e-9 * m * d}
            for what in kinds
            for m in (1, 8)
            for d in (16, 64)
        ],
        "versions": {"ookg": "0.1.0"},
        "device": "a device",
        "date": "2026-01-01",
    }
    (folder / "results" / "efficiency" / "a-device.json").write_text(json.dumps(times, indent=2))
    marker = "<!-- reproduce:link-prediction FB15k-Head-10, InvTransE -->\n\nold\n\n<!-- /reproduce -->\n"
    (folder / "page.md").write_text(f"# A page\n\n{marker}\n<!-- reproduce:efficiency --><!-- /reproduce -->\n")
