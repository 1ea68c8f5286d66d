"""Serve a model over HTTP: add triples, ask, explain, update; with a page to look at it.

What is added is in the model directory, and every other command sees it. On a local address no key is needed; on any
other one `ookg keys` makes them.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from typing import TYPE_CHECKING

from ookg.cli.console import add_device_option, add_journal_option, add_names_option, names_given, whole_number

if TYPE_CHECKING:
    from ookg.service.settings import Limits, ServiceSettings

SUMMARY = "serve a model over HTTP, with a page"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="DIR", nargs="?", help="a model directory, as `ookg train` writes it")
    parser.add_argument("--demo", action="store_true", help="serve the film graph; what is added goes when it ends")
    parser.add_argument("--host", default="127.0.0.1", metavar="A", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=whole_number, default=8000, metavar="N", help="the port to listen on (8000)")
    parser.add_argument("--read-only", action="store_true", help="answer, and take no writes")
    parser.add_argument("--workers", type=whole_number, default=1, metavar="N", help="how many processes (1)")
    add_journal_option(parser)
    add_names_option(parser)
    parser.add_argument("--keys", metavar="FILE", help="ask for a key of this file, also on a local address")
    parser.add_argument("--valid", metavar="TRIPLES", help="labelled triples, for the thresholds of claims")
    parser.add_argument(
        "--refine",
        action="store_true",
        default=None,
        help="fit all new vectors to their triples (only where `ookg tune` chose that)",
    )
    parser.add_argument(
        "--approximate", action="store_true", help="answer by the index, which `ookg index` made, where that can be"
    )
    parser.add_argument("--check", action="store_true", help="open the model, check the options, and end")
    parser.add_argument("--quiet", action="store_true", help="log no requests")
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--rate", type=float, metavar="N", help="requests per second, of a key or an address (local: no limit; 200)"
    )
    group.add_argument("--max-body", type=whole_number, metavar="BYTES", help="of a request (8 MiB)")
    group.add_argument("--max-triples", type=whole_number, metavar="N", help="in one request (10,000)")
    group.add_argument("--max-questions", type=whole_number, metavar="N", help="in one request (256)")
    group.add_argument("--max-label", type=whole_number, metavar="N", help="characters of a label (1,000)")
    group.add_argument("--timeout", type=float, metavar="S", help="give a request up after S seconds (60)")
    add_device_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve."""
    from ookg.errors import InputError
    from ookg.system.extras import missing

    if (arguments.model is None) != arguments.demo:
        raise InputError("give either DIR, a model directory, or --demo")
    if not 0 <= arguments.port < 1 << 16:
        raise InputError(f"port {arguments.port}; give one from 1 to 65535, or 0 for any that is free")
    if not 1 <= arguments.workers <= 256:
        raise InputError(f"workers {arguments.workers}; give 1 to 256")
    usual = gc.get_threshold()
    gc.set_threshold(50_000)  # what is imported stays: to look through it for garbage takes a sixth of a start
    try:
        import ookg.service.server  # noqa: F401 (only whether it is there)
    except ImportError as error:
        raise missing("serving", str(error.name), "serve") from None
    finally:
        gc.set_threshold(*usual)
    if not arguments.demo:
        _serve(arguments, Path(arguments.model))
        return 0
    from tempfile import TemporaryDirectory

    from ookg.demo.tour import train_on_films

    with TemporaryDirectory(prefix="ookg-demo-") as folder:
        train_on_films(progress=True).save(f"{folder}/films")
        _serve(arguments, Path(folder, "films"))
    return 0


def _serve(arguments: argparse.Namespace, directory: Path) -> None:
    from ookg.service.server import serve
    from ookg.service.service import Service
    from ookg.storage.names import add_names

    settings, names = _settings(arguments, directory), names_given(arguments)
    if names is not None:
        add_names(directory, names)
    if not arguments.check:
        serve(settings, arguments.host, arguments.port, log_requests=not arguments.quiet)
        return
    Service(settings).close()
    print(f"{directory}: can be served")


def _settings(arguments: argparse.Namespace, directory: Path) -> ServiceSettings:
    from ookg.errors import InputError
    from ookg.model.approximate import stored_index
    from ookg.model.model import Model
    from ookg.service.keys import KEYS_FILE, Keys
    from ookg.service.server import LOCAL_NAMES, is_local
    from ookg.service.settings import ServiceSettings
    from ookg.storage.checkpoint import read_description
    from ookg.training.loop import choose_device

    read_description(directory)  # what is no model is refused before anything listens
    if arguments.approximate:
        stored_index(Model.load(directory))
    local = is_local(arguments.host)
    keys = Path(arguments.keys) if arguments.keys else None if local else directory / KEYS_FILE
    if keys is not None and not Keys(keys).all:
        raise InputError(f"{keys}: no keys, and {arguments.host} asks for them; make one with `ookg keys add`")
    return ServiceSettings(
        directory,
        arguments.read_only,
        arguments.journal,
        keys,
        None if arguments.valid is None else Path(arguments.valid),
        arguments.refine,
        str(choose_device(arguments.device)),
        LOCAL_NAMES if local else frozenset(),
        workers=arguments.workers,
        approximate=arguments.approximate,
        limits=_limits(arguments, local=local),
    )


def _limits(arguments: argparse.Namespace, *, local: bool) -> Limits:
    from ookg.errors import InputError
    from ookg.service.settings import Limits

    chosen = {
        "rate": arguments.rate if arguments.rate is not None else 0.0 if local else 200.0,
        "body": arguments.max_body,
        "triples": arguments.max_triples,
        "questions": arguments.max_questions,
        "label": arguments.max_label,
        "seconds": arguments.timeout,
    }
    for name, value in chosen.items():
        if value is not None and not (0 <= value < float("inf") and (value > 0 or name == "rate")):
            raise InputError(f"limit {value} for {name}; it must be a number above 0")
    return Limits(**{name: value for name, value in chosen.items() if value is not None})
