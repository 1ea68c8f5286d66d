"""What the commands share: output, and the options that several of them take."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ookg.cli.options import in_options
from ookg.system.display import PREFIXES, in_full, shortened, spelled_out, visible
from ookg.system.progress import tell

if TYPE_CHECKING:
    from rich.console import Console

    from ookg.graph.names import Names
    from ookg.graph.triples import TripleFormat, Triples
    from ookg.model.current import Current
    from ookg.model.model import Model
    from ookg.newcomers.embedder import NeighborLimit
    from ookg.newcomers.reducer import Weights
    from ookg.newcomers.refinement import RefineSettings
    from ookg.simulation.trust import Trust

ROUNDED = re.compile(r"-?[\d,]*\.\d+%?")


def whole_number(text: str) -> int:
    """The whole number of an option; beyond 64 bits there is no use for one, and arrays cannot hold it."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise argparse.ArgumentTypeError(f"{text} is beyond 64 bits, give a smaller number")
    return number


def note(text: str) -> None:
    """A line for the person watching, on standard error."""
    tell(text)


def print_json(document: dict[str, Any] | list[Any]) -> None:
    """One JSON document on standard output; other than ASCII is escaped where the output is not UTF-8."""
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(document, ensure_ascii=not is_unicode, indent=2, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
    """A table on standard output; numbers to the right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        numeric = _is_numeric([row[position] for row in rows])
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console = output_console()
    if title is not None:
        console.print(Text(title, "bold"))
    console.print(table)


def _is_numeric(cells: Sequence[object]) -> bool:
    """Whether a column has numbers, also such as were rounded into text; whole ones in text may be labels."""
    if any(isinstance(cell, int | float) for cell in cells):
        return True
    return bool(cells) and all(isinstance(cell, str) and ROUNDED.fullmatch(cell) for cell in cells)


def output_console() -> Console:
    """Standard output for tables. Off a terminal there is no width to keep to: one row stays one line."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as with plain text: `main` knows what to do

    return Output(width=None if sys.stdout.isatty() else 10_000, highlight=False)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if isinstance(value, float) else visible(str(value))


def add_format_options(parser: argparse.ArgumentParser) -> None:
    """The layout of triple files and what to read of them."""
    group = parser.add_argument_group("layout of the triple files (found out from each file if not given)")
    group.add_argument("--columns", metavar="H,R,T[,L]", help="names or positions (from 1) of the columns to read")
    group.add_argument("--header", action=argparse.BooleanOptionalAction, help="whether the first line is a header")
    group.add_argument("--delimiter", metavar="C", help=r"column separator, such as ',' or '\t'")
    group.add_argument(
        "--predicates", metavar="FILE|P,P", help="read only these relations: a file with one per line, or a list"
    )
    group.add_argument(
        "--literals",
        action="store_true",
        help="RDF: keep literals as entities; by default skipped (those of rdfs:label and its like name ids)",
    )


def triple_format(arguments: argparse.Namespace) -> TripleFormat:
    """The layout that the options say."""
    from ookg.graph.triples import TripleFormat

    columns = tuple(arguments.columns.split(",")) if arguments.columns else None
    delimiter = "\t" if arguments.delimiter == "\\t" else arguments.delimiter
    predicates = None if arguments.predicates is None else _predicates(arguments.predicates)
    return TripleFormat(columns, arguments.header, delimiter, predicates, "keep" if arguments.literals else "skip")


def _predicates(text: str) -> tuple[str, ...]:
    """The relations that a list names, or a file with one per line; `<iri>` is the same as `iri`."""
    from ookg.errors import FileError

    if Path(text).is_file():
        try:
            names = Path(text).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(text, f"cannot be read ({error})", "give UTF-8 text with one predicate a line") from error
    else:
        names = text.split(",")
    bare = (name.strip() for name in names)
    plain = [name[1:-1] if name.startswith("<") and name.endswith(">") else name for name in bare if name]
    return tuple(dict.fromkeys(one for name in plain for one in (name, *spelled_out(name))))


def add_prefix_option(parser: argparse.ArgumentParser) -> None:
    """--prefix."""
    parser.add_argument(
        "--prefix",
        action="append",
        default=[],
        metavar="NAME=IRI",
        help="write IRIs that start so as NAME:rest, in tables and in what you give, as it is done for common ones "
        "(wd, dbr, schema, ...)",
    )


def chosen_prefixes(arguments: argparse.Namespace) -> dict[str, str]:
    """The common prefixes and those of --prefix, where a command has it."""
    from ookg.errors import InputError

    prefixes = dict(PREFIXES)
    for text in getattr(arguments, "prefix", ()):
        name, _, namespace = text.partition("=")
        if not namespace:
            raise InputError(f"--prefix {text!r}; give NAME=IRI, such as ex=http://example.org/")
        prefixes[name] = namespace
    return prefixes


def shortener(arguments: argparse.Namespace) -> Callable[[str], str]:
    """How labels are shown in tables: by the common prefixes and those of --prefix."""
    prefixes = chosen_prefixes(arguments)
    return lambda label: visible(shortened(label, prefixes))


def namer(arguments: argparse.Namespace, names: Names) -> Callable[[str], str]:
    """How labels are shown in sentences and triples: by name, with the id behind it."""
    short = shortener(arguments)

    def shown(label: str) -> str:
        name = names.name(label)
        return short(label) if name is None or name == label else f"{visible(name)} ({short(label)})"

    return shown


def triple_names(triple: tuple[str | None, ...], names: Names) -> dict[str, str | None]:
    """What the ids of a triple are called, for JSON: head_name, relation_name and tail_name, null where nothing."""
    ends = zip(("head", "relation", "tail"), triple, strict=True)
    return {f"{end}_name": None if label is None else names.name(label) for end, label in ends}


def meant(
    text: str,
    kind: str,
    names: Names,
    is_there: Callable[[str], bool],
    prefixes: Mapping[str, str] = PREFIXES,
    *,
    quiet: bool = False,
) -> str:
    """The id that a text means (`names.id_meant`), with a note where that is by its name, unless quiet."""
    from ookg.graph.names import id_meant

    label = id_meant(text, kind, names, is_there, prefixes)
    if not quiet and label != in_full(text, is_there, prefixes):
        note(f"note: {kind} {text!r} is {label!r}")
    return label


def read_given(
    arguments: argparse.Namespace,
    path: str,
    model: Model,
    *,
    claims: bool = False,
    labels: Literal["optional", "required"] = "optional",
) -> Triples:
    """The triples of a file beside a model, at least one; IRIs may be written by their prefixes.

    claims: with their repetitions; labels: whether a column that says what is true may be there, or must
    """
    from ookg.graph.prefixes import with_whole_iris
    from ookg.graph.triples import read_triples

    triples = read_triples(path, triple_format(arguments), labels=labels, keep_duplicates=claims)
    refuse_empty(triples)
    prefixes = chosen_prefixes(arguments)
    whole = with_whole_iris(triples, model.entities, model.relations, prefixes, keep_duplicates=claims)
    return whole.beside(model.entities, model.relations)


def read_also_true(paths: Sequence[str] | None, form: TripleFormat | None = None) -> list[Triples]:
    """The files of --also-true, at least a triple in each."""
    from ookg.graph.triples import read_triples

    files = [read_triples(path, form) for path in paths or ()]
    for triples in files:
        refuse_empty(triples)
        print_notes(triples.notes)
    return files


def refuse_empty(triples: Triples) -> None:
    """Refuse a file without a triple: whoever names one has something to say."""
    from ookg.errors import InputError

    if not len(triples):
        raise InputError(f"{triples.source}: no triples; give at least one")


def add_names_option(parser: argparse.ArgumentParser) -> None:
    """--names and --language."""
    parser.add_argument(
        "--names", metavar="FILE", help="what ids are called: id, name (and description), stored with the model"
    )
    add_language_option(parser)


def add_language_option(parser: argparse.ArgumentParser) -> None:
    """--language."""
    parser.add_argument(
        "--language", metavar="L,L", default="en", help="RDF: languages to take names in, the best first (en)"
    )


def names_given(arguments: argparse.Namespace) -> Names | None:
    """The names of a file, at least one, read before any work is done; None where none is given."""
    from ookg.errors import InputError
    from ookg.graph.names import read_names

    if arguments.names is None:
        return None
    names = read_names(arguments.names, arguments.language.split(","))
    if not len(names):
        raise InputError(f"{arguments.names}: no names; give at least one id with its name")
    return names


def names_among(triples: Triples, path: str, languages: Sequence[str]) -> Names | None:
    """What an RDF file calls the ids of the triples that were read from it; None for no names, or for other files."""
    from ookg.graph.names import read_names
    from ookg.graph.rdf import rdf_syntax

    if rdf_syntax(Path(path)) is None:
        return None
    names = read_names(path, languages, (triples.entities, triples.relations))
    return names if len(names) else None


def store_names(names: Names | None, directory: str | Path) -> None:
    """Let a directory that begins anew have these names alone; where none are given, those that are there stay."""
    from ookg.storage.names import add_names, stored_names
    from ookg.system.display import counted

    if names is not None:
        add_names(directory, names, replace=True)
        note(f"{directory}: {counted(len(names), 'name')} stored")
    elif count := len(stored_names(directory)):
        note(f"note: {directory} has {counted(count, 'name')} from before, which stay; `ookg names` replaces them")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def add_directory_argument(parser: argparse.ArgumentParser) -> None:
    """The model directory, and where its journal lies."""
    parser.add_argument("model", metavar="DIR", help="a model directory, as `ookg train` writes it")
    add_journal_option(parser)


def add_journal_option(parser: argparse.ArgumentParser) -> None:
    """--journal."""
    parser.add_argument(
        "--journal",
        metavar="URL",
        help="what is added and removed lies in PostgreSQL: postgresql://user@host/database "
        "(the environment variable OOKG_JOURNAL; else it lies in DIR)",
    )


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """The model directory, and where to compute."""
    add_directory_argument(parser)
    add_device_option(parser)


def add_device_option(parser: argparse.ArgumentParser) -> None:
    """--device."""
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (auto)")


def add_weight_options(parser: argparse.ArgumentParser, default: str) -> None:
    """How the candidates of a new entity are weighted."""
    group = parser.add_argument_group("how the candidates of a new entity are weighted")
    names = ("uniform", "degree", "correlation", "precision")
    group.add_argument("--weights", choices=names, help=f"default: {default}")
    group.add_argument("--power", type=float, metavar="X", help="power of the correlation weights (4)")
    group.add_argument("--smoothing", type=float, metavar="X", help="added to the degree before its logarithm (0.1)")
    group.add_argument(
        "--prior",
        type=float,
        metavar="X",
        help="pull of precision weights to where entities with the relations lie (0)",
    )
    group.add_argument("--max-neighbors", type=whole_number, metavar="K", help="use at most K triples of an entity")
    group.add_argument("--neighbor-seed", type=whole_number, metavar="N", default=0, help="seed of that choice (0)")


def add_refine_options(parser: argparse.ArgumentParser, *, combines: bool) -> None:
    """Whether and how new vectors are fitted, and answers ranked by more than the vector."""
    group = parser.add_argument_group("fitting new vectors to their triples (known ones never move)")
    group.add_argument("--refine", action="store_true", help="fit from the closed form on; settings are the model's")
    group.add_argument("--refine-steps", type=whole_number, metavar="N", help="gradient steps")
    group.add_argument("--refine-seconds", type=float, metavar="S", help="stop after about S seconds")
    group.add_argument("--refine-margin", type=float, metavar="X", help="margin of the loss")
    group.add_argument("--refine-lr", type=float, metavar="X", help="learning rate")
    group.add_argument("--refine-seed", type=whole_number, metavar="N", help="seed of the negatives")
    if combines:
        group.add_argument(
            "--combine",
            action=argparse.BooleanOptionalAction,
            help="rank by vector, direct links and habits of relations together (default with --refine where "
            "`ookg tune` found it better or the graph's relations imply one another)",
        )


def chosen_refine(arguments: argparse.Namespace, model: Model) -> RefineSettings | None:
    """How new vectors are fitted by the options; None for the closed form."""
    from ookg.errors import InputError

    names = {"refine_steps": "steps", "refine_seconds": "seconds", "refine_margin": "margin", "refine_lr": "lr"}
    names["refine_seed"] = "seed"
    changes = {name: getattr(arguments, option) for option, name in names.items()}
    changes = {name: value for name, value in changes.items() if value is not None}
    if not arguments.refine:
        if changes:
            raise InputError(f"--refine-{next(iter(changes))} without --refine; give both")
        return None
    settings = model.refinement(True)
    assert settings is not None  # it was asked for
    return settings.changed(changes)


def chosen_weights(arguments: argparse.Namespace) -> Weights | None:
    """The weights that the options say; None for the default."""
    from ookg.errors import InputError
    from ookg.newcomers.reducer import WEIGHTS, Correlation, Degree, Precision

    belongs = {"power": Correlation, "smoothing": Degree, "prior": Precision}
    said = {option: getattr(arguments, option) for option in belongs if getattr(arguments, option) is not None}
    if len(said) > 1:
        each = [f"--{option} goes with {belongs[option].__name__.lower()} weights" for option in said]
        raise InputError(f"{' and '.join(each)}; give one of them")
    name = arguments.weights or next((belongs[option].__name__.lower() for option in said), None)
    if name is None:
        return None
    for option in said:
        if WEIGHTS[name] is not belongs[option]:
            raise InputError(f"--{option} goes with --weights {belongs[option].__name__.lower()}, not {name}")
    weights: Weights = WEIGHTS[name](**said)
    return weights


def chosen_limit(arguments: argparse.Namespace) -> NeighborLimit | None:
    """The cap on neighbours that the options say."""
    from ookg.newcomers.embedder import NeighborLimit

    return None if arguments.max_neighbors is None else NeighborLimit(arguments.max_neighbors, arguments.neighbor_seed)


def load_current(arguments: argparse.Namespace, *, alone: bool = False) -> Current:
    """The model that the command names, with what was added to it and removed from it since.

    alone: without its companions
    """
    from dataclasses import replace

    from ookg.model.current import Current
    from ookg.training.loop import choose_device

    current = Current.load(arguments.model, str(choose_device(arguments.device)), arguments.journal)
    return replace(current, version=current.version.with_companions(())) if alone else current


def add_alone_option(parser: argparse.ArgumentParser) -> None:
    """Whether a model that was trained together with others is asked alone."""
    parser.add_argument("--alone", action="store_true", help="leave out the models that were trained together with it")


def add_vectors_option(parser: argparse.ArgumentParser) -> None:
    """--vectors."""
    parser.add_argument(
        "--vectors", metavar="FILE", help="further entities with vectors, as `ookg embed` wrote them, and no triples"
    )


def with_vectors(arguments: argparse.Namespace, model: Model) -> Model:
    """The model with the vectors of --vectors."""
    if arguments.vectors is None:
        return model
    if model.companions:
        note("note: models that were trained together with it have no such vectors; it answers alone")
    return model.with_vectors(arguments.vectors)


def trust_in_words(trust: Trust, *, measured_without_network: bool = False) -> str:
    """How far to trust a new entity's vector, in one line.

    measured_without_network: whether what to expect is stored, but for answers in which no network counts
    """
    from ookg.system.display import counted

    parts = [counted(trust.triples, "usable triple")]
    if trust.spread is not None:
        parts.append(f"their candidates {trust.spread:.2f} apart (known entities: 1)")
    if trust.uncertainty is not None:
        parts.append(f"uncertainty {trust.uncertainty:.2f} (without a triple: 1)")
    if trust.expected_hits_at_10 is not None:
        parts.append(f"right answers among the first ten: {trust.expected_hits_at_10:.0%} expected")
    elif measured_without_network:
        parts.append("what to expect of that was measured without the network")
    else:
        parts.append("what to expect of that is not calibrated (`ookg tune --save` does it for a model trained here)")
    return "; ".join(parts)


def repeated(key: str | None, batch: int, last: int) -> str:
    """What to say of a batch that was there already; last: the last one before the command."""
    if key is None or batch > last:
        return ""
    return f", which came under the key {key!r} before (nothing was written now)"


def print_notes(notes: Sequence[str]) -> None:
    """What a person should know of the result, on standard error."""
    for text in notes:
        note(f"note: {in_options(text)}")


def check_output(
    path: str, inputs: Sequence[str | None], model: str | None = None, *, overwrite: bool | None = None
) -> None:
    """Refuse to write over what is read, an input file or a file of the model, or where nothing can be written.

    overwrite: whether a file that is there may be replaced; None where the caller sees to that
    """
    from ookg.errors import InputError
    from ookg.graph.reading import STANDARD_INPUT
    from ookg.system.files import check_place

    if path == STANDARD_INPUT:
        raise InputError("- as an output; give the name of a file")
    target = Path(path).resolve()
    for name in inputs:
        if name is not None and (
            is_redirected_from(target) if name == STANDARD_INPUT else Path(name).resolve() == target
        ):
            raise InputError(f"{path}: is read or written by this command already; write to another file")
    if model is not None and Path(model).resolve() in (target, *target.parents):
        raise InputError(f"{path}: lies in the model's directory; write to another place")
    if overwrite is False and target.is_file():
        raise InputError(f"{path}: is there already; give --overwrite to replace it, or write to another file")
    check_place(path)


def is_redirected_from(path: Path) -> bool:
    """Whether standard input is this file."""
    try:
        return path.is_file() and sys.stdin is not None and os.path.samestat(os.fstat(sys.stdin.fileno()), path.stat())
    except (OSError, ValueError):  # an input that is no file
        return False
