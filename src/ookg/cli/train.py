"""Train an embedding on the triples of a file, or on the train part of a data set (of a few-shot one, all it knows)."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ookg.cli.console import (
    add_device_option,
    add_format_options,
    add_names_option,
    names_among,
    names_given,
    note,
    print_json,
    print_notes,
    refuse_empty,
    store_names,
    triple_format,
)

if TYPE_CHECKING:
    from ookg.evidence.combined import RankingWeights
    from ookg.graph.triples import Triples
    from ookg.model.model import Model
    from ookg.training.settings import TrainingSettings

SUMMARY = "train an embedding on a graph"

# Options that set the training setting of the same name.
NUMBERS: dict[str, tuple[type, str]] = {
    "dim": (int, "coordinates of an entity"),
    "relation_dim": (int, "transr: coordinates of a relation's space, 0 for as many"),
    "steps": (int, "training steps, 0: by the size of the graph, and no more than pay"),
    "batch": (int, "true triples per step"),
    "negatives": (int, "false triples per true one"),
    "negatives_shared": (int, "so many triples share one set of negatives, 0: each has its own"),
    "margin": (float, "margin γ of the loss"),
    "temperature": (float, "temperature α of the self-adversarial weights"),
    "lr": (float, "learning rate of Adam; Adagrad takes a multiple of it"),
    "l2": (float, "L2 regularisation of both tables, or of the rows that a step touches"),
    "norm": (int, "norm of the distance, 1 or 2"),
    "seed": (int, "seed of every random draw"),
    "validate_every": (int, "steps between validations (needs --valid, or a data set)"),
    "patience": (int, "stop after so many validations without a new best, and keep the best"),
    "held_out": (int, "validate on so many triples that are not trained on; of --steps 0 up to 1,000, 1 in 100"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from ookg.models import GEOMETRIES
    from ookg.training.settings import OPTIMIZERS, PRESETS, TrainingSettings

    defaults = TrainingSettings()
    parser.add_argument(
        "triples", metavar="TRIPLES", help="a file of triples (- is standard input), or a data set by name or folder"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="directory for the model")
    parser.add_argument("--valid", metavar="FILE", help="triples to validate on; a data set brings its own")
    parser.add_argument("--data", metavar="FOLDER", help="where data sets lie, instead of OOKG_DATA or the cache")
    add_names_option(parser)
    add_device_option(parser)
    parser.add_argument(
        "--tables",
        choices=("auto", "device", "host", "disk"),
        default="auto",
        help="where the entities' table lies while it is trained: in the memory of the device, in that of the machine, "
        "in a file in DIR that is removed in the end, or by its size (auto). It changes the time, and the result only "
        "where --optimizer auto takes compact-adam because nothing else fits",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan (memory, time) alone, and train nothing")
    parser.add_argument("--json", action="store_true", help="with --dry-run: the plan as one JSON document")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run, or start it")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the model in DIR, or an unfinished run that is not resumed"
    )
    group = parser.add_argument_group("settings, each over those of --config and --preset")
    group.add_argument("--config", metavar="FILE", help="settings from a TOML file of `name = value` lines")
    group.add_argument(
        "--preset", choices=tuple(PRESETS), help="the paper's settings for its two families of data sets"
    )
    group.add_argument(
        "--model",
        type=_models,
        metavar="NAME[,NAME...]",
        help=f"{', '.join(GEOMETRIES)} (default: {defaults.model}); several, such as transe,rotate, are trained one "
        "after the other and answer together",
    )
    group.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        help="adam changes whole tables at each step; sparse-adam and adagrad only the rows that it touches; "
        "compact-adam is sparse-adam in half the memory, for a GPU; auto is adam, or for a large graph sparse-adam, or "
        f"compact-adam where only that fits on the GPU ({defaults.optimizer})",
    )
    for name, (kind, text) in NUMBERS.items():
        option = option_of(name)
        group.add_argument(
            option,
            type=kind,
            metavar="N" if kind is int else "X",
            help=f"{text} ({getattr(defaults, name)})",
        )
    group.add_argument("--lr-drops", metavar="X,X", help="shares of the steps at which the rate drops to a tenth (0.5)")
    group.add_argument(
        "--subsampling", action=argparse.BooleanOptionalAction, help="weigh frequent pairs down in the loss (on)"
    )
    add_format_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train and store."""
    from ookg.datasets.few_shot import find_few_shot, load_few_shot
    from ookg.datasets.folder import load_dataset
    from ookg.datasets.published import published_sets
    from ookg.errors import InputError, ModelNotStored, unknown_name
    from ookg.graph.reading import STANDARD_INPUT
    from ookg.graph.triples import read_triples
    from ookg.model.train import train_together

    if arguments.json and not arguments.dry_run:
        raise InputError("--json prints the plan of a training; give --dry-run with it")
    settings, given_names = _settings(arguments), names_given(arguments)
    names = {name.lower() for name in published_sets()}
    path = Path(arguments.triples)
    valid: Any = None
    is_few_shot = (path.is_dir() or not path.exists()) and find_few_shot(arguments.triples, arguments.data) is not None
    if is_few_shot:
        triples = load_few_shot(arguments.triples, arguments.data).train
    elif path.is_dir() or (not path.exists() and arguments.triples.lower() in names):
        dataset = load_dataset(arguments.triples, arguments.data)
        triples, valid = dataset.train, dataset.valid
    else:
        if not path.exists() and not path.suffix and arguments.triples != STANDARD_INPUT:
            raise unknown_name("file or data set", arguments.triples, list(published_sets()), "check the path")
        triples = read_triples(arguments.triples, triple_format(arguments), labels="refused", progress=True)
        given_names = given_names or names_among(triples, arguments.triples, arguments.language.split(","))
    if arguments.valid:
        valid = read_triples(arguments.valid, triple_format(arguments), keep_duplicates=True)
        refuse_empty(valid)
    valid = valid if valid is not None and len(valid) else None
    if settings[0].validate_every and valid is None and not settings[0].validated(len(triples)).held_out:
        raise InputError("--validate-every, but no triples to validate on; give --valid FILE, or --held-out N")
    print_notes(triples.notes)
    sizes = f"{len(triples):,} triples, {len(triples.entities):,} entities, {len(triples.relations):,} relations"
    note(f"{triples.source}: {sizes}")
    if arguments.dry_run:
        return _print_plans(arguments, triples, settings, valid)
    try:
        model = train_together(
            triples,
            settings,
            out=arguments.out,
            valid=valid,
            device=arguments.device,
            resume=arguments.resume,
            overwrite=arguments.overwrite,
            progress=True,
            tables=arguments.tables,
        )
    except ModelNotStored as error:
        if error.is_resumable:
            raise
        raise InputError(f"{error}; {_stored_elsewhere(error.model)}") from error
    store_names(given_names, arguments.out)
    _say_what_came_of_it(model, arguments.out)
    return 0


def _say_what_came_of_it(model: Model, out: str) -> None:
    """What was trained, in how many steps and how long, and how good it is."""
    provenances = [one.checkpoint.provenance for one in (model, *model.companions)]
    for provenance in provenances:
        for step, figure in provenance["validations"]:
            note(f"validation at step {step:,}: {_figure_of(provenance)} {figure:.4f}")
    steps = " and ".join(f"{provenance['step']:,}" for provenance in provenances)
    seconds = sum(provenance["seconds"] for provenance in provenances)
    models = " and ".join(type(one.checkpoint.embedding.geometry).__name__ for one in (model, *model.companions))
    sizes = f"{len(model.entities):,} entities, {len(model.relations):,} relations"
    note(f"{out}: {models} of {sizes}, as of step {steps}, in {seconds:.1f} s")
    for provenance in provenances:
        note(_quality_in_words(provenance["quality"]))
    if (figures := provenances[0].get("known entities")) is not None and model.choice.known is not None:
        note(_evidence_in_words(figures, model.choice.known))


def _figure_of(provenance: dict[str, Any]) -> str:
    """What the validations on the way measured."""
    return str((provenance["quality"] or {}).get("figure", "figure"))


def _evidence_in_words(figures: dict[str, Any], ranking: RankingWeights) -> str:
    """What evidence beside the vectors is worth, in one line."""
    named = ", ".join(name for name, _ in ranking.of_sources())
    if not named:
        return "what the graph says beside the vectors adds nothing to answers about known entities"
    return f"MRR {figures['mrr']:.3f} with {named} beside the vectors (alone {figures['alone']:.3f})"


def _quality_in_words(quality: dict[str, Any] | None) -> str:
    """How good a model is, in one line."""
    if quality is None:
        return "how good it is was not measured; --held-out N keeps N triples for that, --valid FILE names others"
    return f"{quality['figure']} {quality['value']:.3f} on {quality['triples']:,} {quality['of']}"


def _print_plans(
    arguments: argparse.Namespace, triples: Triples, settings: list[TrainingSettings], valid: Triples | None
) -> int:
    """What training each model would take; what would be refused is refused."""
    from ookg.model.train import Storage, places_together, plan_training

    plans = []
    for one, place in zip(settings, places_together(settings, arguments.out), strict=True):
        assert place is not None  # there is an --out
        Storage(place, arguments.resume, arguments.overwrite).prepare()
        plans.append(
            plan_training(
                triples,
                one,
                out=place,
                valid=valid,
                device=arguments.device,
                resume=arguments.resume,
                overwrite=arguments.overwrite,
                tables=arguments.tables,
            )
        )
    if arguments.json:
        print_json({"plans": [one.to_dict() for one in plans]})
        return 0
    for line in (line for one in plans for line in one.lines()):
        print(line)
    return 0


def _models(text: str) -> list[str]:
    """The models of an option, by names with commas between."""
    from ookg.models import GEOMETRIES

    names = text.split(",")
    for name in names:
        if name not in GEOMETRIES:
            raise argparse.ArgumentTypeError(f"invalid choice: {name!r} (choose from {', '.join(GEOMETRIES)})")
    return names


def _stored_elsewhere(model: Model) -> str:
    """Where a model is kept that finds no place in its directory: what was trained for hours is not thrown away."""
    from tempfile import mkdtemp

    from ookg.errors import OokgError

    place = None
    try:
        place = Path(mkdtemp(prefix="ookg-model-"))
        model.save(place)
    except (OokgError, OSError):
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        return "nor was there room among the temporary files"
    return f"the model is in {place}, move it"


def _settings(arguments: argparse.Namespace) -> list[TrainingSettings]:
    """The settings of each model to train: those of the first, each with another model."""
    from ookg.errors import InputError
    from ookg.models import own_settings
    from ookg.training.settings import TrainingSettings, preset, read_settings

    chosen = preset(arguments.preset) if arguments.preset else None
    settings = read_settings(arguments.config, chosen) if arguments.config else chosen or TrainingSettings()
    names = ["subsampling", "optimizer", *NUMBERS]
    values = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    if arguments.lr_drops is not None:
        try:
            values["lr_drops"] = [float(share) for share in arguments.lr_drops.split(",") if share]
        except ValueError:
            raise InputError(f"--lr-drops {arguments.lr_drops!r}; give numbers such as 0.1,0.3,0.9") from None
    first, *others = arguments.model or [settings.model]
    try:
        settings = settings.changed(values | {"model": first})
        not_own = {name: {} if "relation_dim" in own_settings(name) else {"relation_dim": 0} for name in others}
        return [settings, *(settings.changed({"model": name} | not_own[name]) for name in others)]
    except InputError as error:
        raise InputError(_by_options(str(error), values)) from None


def _by_options(message: str, values: Mapping[str, Any]) -> str:
    """A message about settings in the words of the options, if it is about one that an option gave."""
    name, _, rest = message.partition(" ")
    if name not in values:
        return message
    problem, *remedy = rest.split(";", 1)
    for other in sorted(values.keys() | set(NUMBERS), key=len, reverse=True):
        if "_" in other:
            problem = re.sub(rf"\b{other}\b", option_of(other), problem)
    return ";".join([f"{option_of(name)} {problem}", *remedy])


def option_of(setting: str) -> str:
    """What the command line calls a setting."""
    return f"--{setting.replace('_', '-')}"
