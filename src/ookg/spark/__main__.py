"""`spark-submit` and `python -m ookg.spark`: vectors and answers for newcomers, from files to files."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ookg.errors import OokgError, one_line
from ookg.system.extras import missing
from ookg.system.progress import tell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WEIGHTS = ("uniform", "degree", "precision")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 2 bad input."""
    arguments = _parser().parse_args(argv)
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        tell(f"ookg: {missing('this', 'PySpark', 'spark')}")
        return 2
    builder = SparkSession.builder.appName(f"ookg {arguments.command}")
    if arguments.master:
        builder = builder.master(arguments.master)
    try:
        with builder.getOrCreate() as spark:
            _run(spark, arguments)
    except OokgError as error:
        tell(f"ookg: {error}")
        return 2
    except PySparkException as error:
        tell(f"ookg: {_in_one_line(error)}")
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    """Reports wrong use in one line."""

    def error(self, message: str) -> NoReturn:
        """One line, exit code 2."""
        self.exit(2, one_line(f"ookg: {message}; see `{self.prog} --help`") + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m ookg.spark", description=__doc__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="command")
    embed = commands.add_parser("embed", help="vectors for new entities: entity, vector, triples")
    predict = commands.add_parser("predict", help="answers to questions about new entities")
    question = "head, relation, tail, with null (in TSV: nothing) for what is asked for"
    predict.add_argument("--questions", required=True, metavar="PATH", help=f"Parquet or TSV: {question}")
    predict.add_argument("--top", type=int, default=10, metavar="N", help="how many answers (%(default)s)")
    for command in (embed, predict):
        command.add_argument("--triples", required=True, metavar="PATH", help="Parquet or TSV: head, relation, tail")
        command.add_argument("--model", required=True, metavar="DIR", help="model directory, on every machine")
        command.add_argument("--out", required=True, metavar="PATH", help="folder of Parquet files to write")
        command.add_argument("--weights", choices=WEIGHTS, help="how candidates are weighed (degree)")
        command.add_argument(
            "--no-ties", action="store_true", help="no triple is between newcomers or over a new relation"
        )
        command.add_argument("--master", metavar="URL", help="where to run; spark-submit has its own")
    return parser


def _run(spark: SparkSession, arguments: argparse.Namespace) -> None:
    from ookg.spark import embed, predict

    triples = _read(spark, arguments.triples)
    options: dict[str, Any] = {"ties": not arguments.no_ties}
    if arguments.weights is not None:
        options["weights"] = arguments.weights
    if arguments.command == "embed":
        made = embed(triples, arguments.model, **options)
    else:
        questions = _read(spark, arguments.questions)
        made = predict(questions, triples, arguments.model, top=arguments.top, **options)
    made.write.parquet(arguments.out)


def _read(spark: SparkSession, path: str) -> DataFrame:
    """Triples or questions in Parquet, or in TSV without a header."""
    if re.search(r"\.(tsv|txt)(\.gz)?$", path):
        columns = "head string, relation string, tail string"
        return spark.read.csv(path, schema=columns, sep="\t", quote="", escape="", mode="FAILFAST")
    return spark.read.parquet(path)


def _in_one_line(error: Exception) -> str:
    """What Spark reports, without the traces of its processes."""
    text = str(error)
    ours = re.search(r"ookg\.errors\.\w+: (.+)", text)
    return one_line(ours[1] if ours else next((line for line in text.splitlines() if line.strip()), repr(error)))


if __name__ == "__main__":
    sys.exit(main())
