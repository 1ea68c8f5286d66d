"""Read a model that another tool trained and write it as a model directory.

Formats: kge (KnowledgeGraphEmbedding and the paper's code), pykeen, dgl-ke, libkge, pyg, torchkge, openke, biggraph
(PyTorch-BigGraph), arrays (.npy, safetensors, Parquet, word2vec text). TransE and RotatE. Nothing in a file is
executed, and the scores of 1,000 triples are held against the tool's own formula before anything is written.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ookg.cli.console import (
    add_format_options,
    add_names_option,
    names_given,
    note,
    print_notes,
    store_names,
    triple_format,
    whole_number,
)
from ookg.interchange import MODELS

SUMMARY = "bring in a model that another tool trained"
POOR = 0.6


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("format", metavar="FORMAT", help="the tool: kge, pykeen, dgl-ke, libkge, pyg, ...")
    parser.add_argument("source", metavar="SOURCE", type=Path, help="the folder or file that the tool wrote")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="model directory to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is there already")
    parser.add_argument(
        "--triples", metavar="FILE", type=Path, help="the training triples, for degree and correlation weights"
    )
    add_names_option(parser)
    labels = parser.add_argument_group("labels, where they are not with the model")
    labels.add_argument("--vocabulary", metavar="FOLDER", type=Path, help="folder with the tool's own label files")
    labels.add_argument(
        "--entities", metavar="FILE", type=Path, help="labels of the entities, in the order of the rows"
    )
    labels.add_argument("--relations", metavar="FILE", type=Path, help="labels of the relations")
    stated = parser.add_argument_group("what the files do not say (refused where they say otherwise)")
    stated.add_argument("--model", choices=MODELS, help="the model")
    stated.add_argument("--norm", type=whole_number, choices=(1, 2), help="the norm of its distance")
    stated.add_argument("--gamma", type=float, metavar="X", help="its margin, where RotatE's phases depend on it")
    stated.add_argument(
        "--normalised", action=argparse.BooleanOptionalAction, help="whether vectors are scaled to length 1 when scored"
    )
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read, check, write; say what was understood."""
    from ookg.interchange.foreign import ImportOptions
    from ookg.interchange.formats import read_foreign
    from ookg.model.train import Storage
    from ookg.storage.checkpoint import refuse_damage, write_checkpoint
    from ookg.storage.companions import prune_companions

    storage = Storage(arguments.out, overwrite=arguments.overwrite)
    if not arguments.overwrite:
        storage.prepare()
    given_names = names_given(arguments)
    names = ("entities", "relations", "vocabulary", "model", "norm", "gamma", "normalised")
    options = ImportOptions(**{name: getattr(arguments, name) for name in names})
    foreign = read_foreign(arguments.format, arguments.source, options)
    triples = None
    if arguments.triples is not None:
        triples = foreign.read_triples(arguments.triples, triple_format(arguments))
    model = foreign.to_model(triples, str(arguments.source))
    with storage.held():
        write_checkpoint(model.checkpoint, arguments.out)
        prune_companions(arguments.out)
        refuse_damage(arguments.out)
    store_names(given_names, arguments.out)

    note(f"{foreign.tool}: {foreign.convention}")
    note(f"{len(model.entities):,} entities, {len(model.relations):,} relations; scores agree with the tool's formula")
    print_notes(foreign.notes)
    if model.checkpoint.statistics is None:
        note("note: no training triples: uniform weights work; for degree and correlation weights give --triples")
    else:
        unused = model.checkpoint.provenance["triples_not_used"]
        note(
            f"{len(model.checkpoint.triples):,} training triples counted"
            + f", {unused:,} with unknown labels not" * (unused > 0)
        )
        share = foreign.separation(model.checkpoint.triples)
        note(f"{share:.0%} of them score above the same triple with a random tail")
        if share < POOR:
            note("note: that is hardly better than chance; check the labels' order, --norm and --gamma")
    note(f"{arguments.out}: written")
    return 0
