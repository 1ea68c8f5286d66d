"""Say what the ids of a model are called, for tables, sentences and search; ids stay what programs use.

FILE has the columns id, name and, where there is one, description (TSV or CSV, also compressed, or Parquet), or it is
RDF, of which rdfs:label, skos:prefLabel and schema:name are read. It names
entities, relations, and what is not there yet. An id that has a name gets the new one; other names stay, unless
--replace is given. Names belong to the directory: an update or a rollback leaves them alone. Without FILE, this says
how many ids have names.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ookg.cli.console import add_directory_argument, add_json_option, add_language_option, names_given, print_json

if TYPE_CHECKING:
    from ookg.model.living import LivingModel

SUMMARY = "say what ids are called"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_directory_argument(parser)
    parser.add_argument("names", metavar="FILE", nargs="?", help="id, name and, where there is one, description")
    parser.add_argument("--replace", action="store_true", help="forget the names that are there")
    add_language_option(parser)
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Store and print."""
    from ookg.errors import InputError
    from ookg.model.living import LivingModel

    if arguments.replace and arguments.names is None:
        raise InputError("--replace without names; give FILE too")
    names = names_given(arguments)
    living = LivingModel(arguments.model, journal=arguments.journal)
    if names is not None:
        living.add_names(names, replace=arguments.replace)
    named = named_ids(living)
    if arguments.json:
        print_json(asdict(named))
    else:
        print(named.in_words())
    return 0


@dataclass(frozen=True)
class NamedIds:
    """How many names there are, and how many entities and relations have one, of all that there are."""

    names: int
    entities: int
    of_entities: int
    relations: int
    of_relations: int

    def in_words(self) -> str:
        """In one line."""
        from ookg.system.display import counted

        entities = f"{self.entities:,} of {counted(self.of_entities, 'entity', 'entities')}"
        relations = f"{self.relations:,} of {counted(self.of_relations, 'relation')}"
        return f"{counted(self.names, 'name')}; {entities} and {relations} have one"


def named_ids(living: LivingModel) -> NamedIds:
    """How many ids of a model, and of what was added to it, have names."""
    from ookg.model.current import Current

    model, added = living.model, Current.of(living.model.checkpoint, living.journal).given()
    names, entities = living.names, model.entities.extended(added.entities.labels)
    relations = model.relations.extended(added.relations.labels)
    if not len(names):
        return NamedIds(0, 0, len(entities), 0, len(relations))
    ids = names.ids.array()
    there = [int((labels.ids(ids) >= 0).sum()) for labels in (entities, relations)]
    return NamedIds(len(names), there[0], len(entities), there[1], len(relations))
