"""Train a graph neural network on a model's triples: one more kind of evidence for answers about new entities.

It is trained on all triples that are there, those that were added too, and reads those that come later when it is
asked. From then on all commands use it, `serve` too. It stays through updates; relations that come later say nothing to
it until it is trained again. Ctrl-C leaves the model as it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ookg.cli.console import (
    add_device_option,
    add_directory_argument,
    add_json_option,
    note,
    print_json,
    whole_number,
)

SUMMARY = "train a graph neural network, for better answers about new entities"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    parser.add_argument(
        "--steps", type=whole_number, metavar="N", help="how many steps to train; 0: an encoder alone (4000)"
    )
    parser.add_argument("--batch", type=whole_number, metavar="N", help="how many questions a step asks (32)")
    parser.add_argument(
        "--most-links",
        type=whole_number,
        metavar="N",
        help="the most triples that newcomers come with, where they come with few (any number)",
    )
    parser.add_argument(
        "--encoder-steps",
        type=whole_number,
        metavar="N",
        help="how many steps to train an encoder beside it, for newcomers with few triples (0: none)",
    )
    parser.add_argument(
        "--encoder-batch", type=whole_number, metavar="N", help="how many questions a step of it asks (64)"
    )
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="seed of all random draws (0)")
    parser.add_argument("--remove", action="store_true", help="remove the network that is there, and train none")
    add_device_option(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train and store, or remove; and say so."""
    from pathlib import Path

    from ookg.model.current import Current
    from ookg.storage.checkpoint import read_description
    from ookg.storage.network import NETWORK_FILE, remove_network
    from ookg.system.files import check_place
    from ookg.system.progress import Progress
    from ookg.training.network import NetworkSettings

    path = Path(arguments.model) / NETWORK_FILE
    if arguments.remove:
        read_description(Path(arguments.model))  # there must be a model
        removed = remove_network(arguments.model)
        if arguments.json:
            print_json({"removed": removed})
        else:
            note(f"{path}: removed" if removed else f"{arguments.model}: it has no network; nothing is removed")
        return 0
    said = {
        name: getattr(arguments, name)
        for name in ("steps", "batch", "most_links", "encoder_steps", "encoder_batch", "seed")
    }
    settings = NetworkSettings(**{name: value for name, value in said.items() if value is not None})
    current = Current.load(arguments.model, journal=arguments.journal)
    check_place(path)
    with Progress("training the network", settings.steps + settings.encoder_steps) as report:
        trained = current.model.train_network(settings, given=current.given(), device=arguments.device, report=report)
    trained.save_network(arguments.model)
    network = trained.checkpoint.network
    assert network is not None  # it was trained
    if arguments.json:
        print_json({"file": str(path), "bytes": path.stat().st_size} | network.about)
        return 0
    print(network_in_words(network.about))
    note(f"{path}: {path.stat().st_size / 1e6:,.1f} MB; answers about new entities use it from now on")
    if trained.measured_without_network:
        note("how likely answers about new entities are was measured without it, and is not shown with it")
    return 0


def network_in_words(about: Mapping[str, Any]) -> str:
    """What there is to know of a network."""
    from ookg.system.display import counted

    given = about.get("given", 0)
    trained = f"trained {about.get('created')} on version {about.get('version')}"
    trained += f" and {counted(given, 'added triple')}" if given else ""
    steps, of_encoder = (about["settings"].get(name, 0) for name in ("steps", "encoder_steps"))
    said = counted(steps, "step") if steps else ""
    if of_encoder:
        said = f"{said} and {of_encoder:,} of its encoder" if said else f"{counted(of_encoder, 'step')} of an encoder"
    return f"network: {trained}, {about.get('triples', 0):,} triples, {said} in {about.get('seconds', 0):.1f} s"
