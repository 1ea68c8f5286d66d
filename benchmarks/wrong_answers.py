"""Answers that cannot be right: an entity that is its own answer, over the symmetric relations of a graph.

python benchmarks/wrong_answers.py MODEL TEST...

A relation is symmetric here if half of its training triples are there both ways, and loops over it are not common.
Every test triple over one of them is asked from its head and from its tail. How often is the asked entity the first
answer, and where is the right one, with the asked entity as a candidate and without?
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import ookg
from ookg.graph.triples import read_triples
from ookg.newcomers.embedder import find_newcomers
from ookg.newcomers.reducer import Uniform
from ookg.scoring.link_prediction import link_prediction
from ookg.scoring.queries import Queries
from ookg.scoring.ranking import RankSummary
from ookg.scoring.scorer import TranslationScorer
from ookg.types import BoolArray, IntArray

SYMMETRIC_SHARE = 0.5
FEWEST = 20  # triples of a relation


def symmetric(triples: IntArray, num_relations: int) -> BoolArray:
    """(relations,) whether at least half of each one's triples are there both ways."""
    stated = set(map(tuple, triples.tolist()))
    both = np.array([(tail, relation, head) in stated and head != tail for head, relation, tail in triples.tolist()])
    have, all_of = (np.bincount(triples[rows, 1], minlength=num_relations) for rows in (both, slice(None)))
    is_symmetric: BoolArray = (all_of >= FEWEST) & (have >= SYMMETRIC_SHARE * all_of)
    return is_symmetric


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("test", nargs="+")
    arguments = parser.parse_args()
    model = ookg.load(arguments.model)
    known = model.checkpoint.triples
    asked_about = symmetric(known, len(model.relations)) & ~model.loops
    test = np.concatenate([read_triples(file).encoded(model.entities, model.relations) for file in arguments.test])
    test = test[(test >= 0).all(axis=1)]
    test = test[asked_about[test[:, 1]]]
    head, relation, tail = np.concatenate([test, test[:, ::-1]]).T
    queries = Queries(head, relation, tail, np.arange(len(head)) < len(test))
    names = [model.names.name(label) or label for label in model.relations.select(np.flatnonzero(asked_about))]
    print(f"{len(queries)} questions over {', '.join(names)}")
    newcomers = find_newcomers(model.embedding, model.statistics, known, known[:0], Uniform())
    true = np.concatenate([known, test])
    for name, loops in (("the asked entity is a candidate", None), ("it is not", model.loops)):
        scorer = TranslationScorer(newcomers, loops)
        ranks = link_prediction(scorer, queries, true, len(model.entities), "all").ranks()
        itself = replace(queries, answer=queries.entity)
        first = link_prediction(scorer, itself, true, len(model.entities), "all").ranks() == 1
        print(f"{name}: it is the first answer to {int(first.sum()):,}; {RankSummary.of(ranks)}")
    questions = [
        ookg.Question(model.relations.label(r), **{"head" if asks_tail else "tail": model.entities.label(e)})
        for e, r, asks_tail in zip(head.tolist(), relation.tolist(), queries.asks_tail.tolist(), strict=True)
    ]
    answers = model.extend().predict_all(questions, ookg.AnswerOptions(top=1))
    own = sum(one.answers[0].entity == question.asked for one, question in zip(answers, questions, strict=True))
    print(f"first answer of `predict` is the asked entity: {own} of {len(questions)}")


if __name__ == "__main__":
    main()
