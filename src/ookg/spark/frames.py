"""Newcomers by the million on Spark's DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ookg.errors import InputError
from ookg.extension.questions import KnownAnswers, answer_options
from ookg.model.model import Model
from ookg.newcomers.reducer import (
    Correlation,
    Degree,
    WeightsChoice,
    as_weights,
    refuse_without_statistics,
    with_residuals,
)
from ookg.spark.links import COLUMNS
from ookg.spark.opened import ModelPlace, digest_of
from ookg.spark.streams import PACKED
from ookg.spark.tasks import (
    ANSWERS,
    ASKED,
    GROUPED,
    LINKS,
    TIES,
    VECTORS,
    AnswerQuestions,
    FindTies,
    GroupQuestions,
    GroupTriples,
    MakeLinks,
    MakeVectors,
    SolveTied,
)
from ookg.spark.ties import NOTHING_TIED, Tied

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTS = 8  # of newcomers, for each partition of a shuffle
USUAL_PARTITIONS = 200  # Spark's default, where a service chooses their number ("auto")
MOST_TIES = 5_000_000  # rows of ties that the driver takes, some 200 bytes each


def embed(
    triples: DataFrame, model_path: str | Path, *, weights: WeightsChoice | None = None, ties: bool = True
) -> DataFrame:
    """Vectors for the entities of `triples` that a model does not know, as `Model.embed` makes them.

    The answer has the columns entity, vector (array of float; null where nothing ties the entity to the known graph)
    and triples (how many made the vector). For newcomers that only known entities determine, it has the bits that
    `Model.embed` gives for the triples sorted by head, relation and tail; docs/spark.md says where it differs.

    triples: columns head, relation, tail (string); further columns are left out, and repeated triples count once
    model_path: a model directory that every machine of the cluster can read at this path
    weights: uniform, degree (the default) or precision weights, or such a name ("uniform")
    ties: look for triples between newcomers or over new relations, for which the triples are read before this returns;
        False: there are none, and one that turns up ends the job
    """
    place = place_of(model_path, weights)
    triples = _labels(triples, "triples")
    partitions = triples.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    parts = PARTS * (int(partitions) if partitions.isdecimal() else USUAL_PARTITIONS)
    # Links have no node, and ties no part: each kind is dealt by what it has.
    links = triples.mapInArrow(MakeLinks(place, ties, parts).__call__, LINKS).repartition("part", "node")
    tied = NOTHING_TIED
    if ties:
        links = computed_once(links)
        tied = _joined(links.where("other is not null").select("node", "other"))
    sorted_links = links.where("other is null").select(*PACKED).sortWithinPartitions("part")
    vectors = sorted_links.mapInArrow(MakeVectors(place, tied).__call__, VECTORS)
    if not len(tied):
        return vectors
    grouped = triples.mapInArrow(GroupTriples(place, tied, only_tied=True).__call__, GROUPED)
    together = grouped.repartition("piece").sortWithinPartitions("piece", *COLUMNS)
    return vectors.unionByName(together.mapInArrow(SolveTied(place).__call__, VECTORS))


def predict(
    questions: DataFrame,
    triples: DataFrame,
    model_path: str | Path,
    *,
    weights: WeightsChoice | None = None,
    top: int = 10,
    known_answers: KnownAnswers = "drop",
    ties: bool = True,
) -> DataFrame:
    """The best known entities as answers to questions about newcomers, by the newcomers' vectors.

    The same as `Model.predict(..., weights=Degree(), combine=False, new_answers=False)`. The answer has the columns of
    the questions, answers (array of entity, score and is_known, best first) and note (why there are none, or null).

    questions: columns head, relation, tail (string): head or tail is the newcomer, and the other is null
    triples, model_path, weights, ties: as for `embed`
    known_answers: leave out what training or given triples state, or mark it
    """
    place = place_of(model_path, weights)
    triples, questions = _labels(triples, "triples"), _labels(questions, "questions")
    tied = _joined(triples.mapInArrow(FindTies(place).__call__, TIES)) if ties else NOTHING_TIED
    options = answer_options(combine=False, top=top, known_answers=known_answers, new_answers=False)
    asked = questions.mapInArrow(GroupQuestions(tied).__call__, ASKED)
    given = triples.mapInArrow(GroupTriples(place, tied, only_tied=False).__call__, GROUPED)
    given = given.join(asked.select("piece").distinct(), "piece", "left_semi")
    both = given.selectExpr("*", "false as is_question").unionByName(asked)
    together = both.repartition("piece").sortWithinPartitions("piece", "is_question", *COLUMNS)
    return together.mapInArrow(AnswerQuestions(place, options).__call__, ANSWERS)


def place_of(model_path: str | Path, weights: WeightsChoice | None) -> ModelPlace:
    """The model with weights that a part of the triples determines."""
    path = str(Path(model_path).resolve())
    digest = digest_of(path)
    model = Model.load(path)
    weights = as_weights(weights) or model.default_weights(Degree())
    if isinstance(weights, Correlation):
        problem = "correlation weights count which relations go together in all given triples"
        raise InputError(f"{problem}, and no worker has them all; choose uniform, degree or precision weights")
    if model.checkpoint.statistics is None:
        refuse_without_statistics(weights)
    return ModelPlace(path, digest, with_residuals(weights, lambda: model.residuals))


def _labels(frame: DataFrame, what: str) -> DataFrame:
    """The three columns of labels."""
    from pyspark.sql.types import StringType

    kinds = {field.name: field.dataType for field in frame.schema.fields}
    for name in COLUMNS:
        if name not in kinds:
            raise InputError(f"{what} have no column {name!r} but {', '.join(map(repr, kinds))}; rename one")
        if not isinstance(kinds[name], StringType):
            kind = kinds[name].simpleString()
            raise InputError(f"column {name!r} of {what} is {kind}, expected string; cast it")
    return frame.select(*COLUMNS)


def _joined(ties: DataFrame) -> Tied:
    """What is tied together in all partitions: the driver joins what each found by itself."""
    table = ties.limit(MOST_TIES + 1).toArrow()
    if table.num_rows > MOST_TIES:
        problem = f"more than {MOST_TIES:,} newcomers and new relations are tied to others"
        raise InputError(f"{problem}, which is more than the driver joins; leave out triples that tie them")
    return Tied.of(table)


def computed_once(frame: DataFrame) -> DataFrame:
    """The same rows; what a frame's last shuffle wrote is used again by every later job.

    Each use of a DataFrame computes all of it anew, and `persist` would write all rows a second time. The RDD below
    keeps the files of its shuffle: what a lost worker had is computed again, and they go when nothing refers to it.
    """
    inner = getattr(frame, "_jdf", None)
    if inner is None:  # Spark Connect, where no RDD can be reached: the same result, computed twice
        return frame
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    rows = inner.queryExecution().toRdd()
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, inner.schema(), False), session)
