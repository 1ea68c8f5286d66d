"""Claims and questions about newcomers that were hidden before the training: are reported figures true?

python benchmarks/hidden_newcomers.py prepare CODEX FOLDER     # hides 15 % of the entities: train, given, valid, claims
ookg train FOLDER/train.tsv --out MODEL
python benchmarks/hidden_newcomers.py claims MODEL FOLDER      # how many claims are judged right, by each way
python benchmarks/hidden_newcomers.py audit MODEL FOLDER       # MRR: a quick audit, an audit, and the truth

CODEX is a folder with train, valid, test and their negatives, as CoDEx has them (.txt.gz).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import ookg
from ookg.evidence.combined import CombinedScorer
from ookg.graph.hiding import Hiding, mask
from ookg.graph.triples import read_triples
from ookg.newcomers.reducer import Correlation, Precision
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import test_queries
from ookg.scoring.ranking import RankSummary
from ookg.scoring.scorer import Scorer, TranslationScorer
from ookg.simulation.ways import WaysScorer

HIDDEN_SHARE = 0.15


def prepare(source: Path, folder: Path) -> None:
    """Hide entities, and write what is left, what is given of them, and labelled claims about known and hidden ones."""
    folder.mkdir(parents=True, exist_ok=True)
    train = read_triples(source / "train.txt.gz")
    size, rows = len(train.entities), list(train)
    hidden = mask(np.random.default_rng(0).permutation(size)[: round(HIDDEN_SHARE * size)], size)
    hiding = Hiding.of(train.ids, hidden, len(train.relations))
    tied = mask(train.ids[hiding.ties][:, [0, 2]], size) & hidden
    _write(folder / "train.tsv", [rows[row] for row in np.flatnonzero(hiding.stays)])
    _write(folder / "given.tsv", [rows[row] for row in np.flatnonzero(hiding.ties)])
    for part, name in (("valid", "valid.tsv"), ("test", "claims.tsv")):
        claims: list[tuple[str, ...]] = []
        for file, label in ((f"{part}.txt.gz", "1"), (f"{part}_negatives.txt.gz", "0")):
            triples = read_triples(source / file, keep_duplicates=True)
            ids = triples.encoded(train.entities, train.relations)
            inside = (ids >= 0).all(axis=1) & hiding.trained[ids[:, 1]]
            known, new = (which[ids[:, [0, 2]]] for which in (hiding.known, tied))
            about = known.all(axis=1) if part == "valid" else (known[:, ::-1] & new).any(axis=1)
            labels = zip(triples, inside & about, strict=True)
            claims += [(*triple, label) for triple, is_asked in labels if is_asked]
        _write(folder / name, claims)


def claims(model: ookg.Model, folder: Path) -> None:
    """How many claims about newcomers are judged right."""
    asked, valid, given = (str(folder / name) for name in ("claims.tsv", "valid.tsv", "given.tsv"))
    ways = {"closed form": {"judge": False}, "refined": {"refine": True}, "judge": {}}
    for name, options in ways.items():
        found = model.classify(asked, valid=valid, given=given, **options)  # type: ignore[arg-type]
        held = sum(claim.verdict is True for claim in found.claims)
        print(f"{name}: {found.accuracy:.1f} % of {len(found.claims):,} right, {held:,} held true; {found.notes[-1]}")


def audit(model: ookg.Model, folder: Path) -> None:
    """MRR of newcomers as audits report it, and as it is."""
    for name, settings in (("quick", ookg.AuditSettings(retraining=None)), ("audit", ookg.AuditSettings())):
        print(name, {method: round(one.mrr, 3) for method, one in model.audit(settings).overall.figures.items()})
    given = read_triples(folder / "given.tsv")
    closed, chosen = model.given(given, Correlation()), model.given(given, Precision())
    refined, size = model.refined(closed, True), len(model.entities)
    labelled = read_triples(folder / "claims.tsv", keep_duplicates=True)
    assert labelled.truth is not None
    ids = labelled.encoded(closed.entities, model.relations)[labelled.truth]
    true, queries = np.concatenate([model.known_triples, closed.triples, ids]), test_queries(ids, size)
    evidence = model.known_evidence.with_given(closed.triples, len(model.relations))
    fitted, precise = TranslationScorer(refined.newcomers), TranslationScorer(chosen.newcomers)
    assert model.ways is not None
    scorers: dict[str, Scorer] = {
        "closed form": TranslationScorer(closed.newcomers),
        "refined": fitted,
        "combined": CombinedScorer([fitted], evidence, model.defaults.ranking["refined"]),
        "chosen": WaysScorer([precise], evidence, model.ways, chosen.newcomers.counts),
    }
    for name, scorer in scorers.items():
        print("truth", name, RankSummary.of(link_prediction(scorer, queries, true, size, "lan").ranks()))


def _write(file: Path, rows: list[tuple[str, ...]] | list[tuple[str, str, str]]) -> None:
    file.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{file}: {len(rows):,}")


def main() -> None:
    """One part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("prepare", "claims", "audit"))
    parser.add_argument("source", help="a folder of CoDEx, or a model")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.part == "prepare":
        prepare(Path(arguments.source), arguments.folder)
        return
    measure = claims if arguments.part == "claims" else audit
    measure(ookg.load(arguments.source), arguments.folder)


if __name__ == "__main__":
    main()
