"""Keys for `ookg serve`: who may ask, and who may write. A key is shown when it is made; only its digest is kept."""

from __future__ import annotations

import argparse
from pathlib import Path

from ookg.cli.console import add_json_option, print_json, print_table

SUMMARY = "make, list and revoke the keys of a server"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")
    for name, text in (("add", "make a key"), ("list", "list the keys"), ("revoke", "remove a key, at once")):
        action = actions.add_parser(name, help=text)
        action.add_argument("model", metavar="DIR", help="the model directory that is served")
        if name != "list":
            action.add_argument("name", metavar="NAME", help="who has the key")
        if name == "add":
            action.add_argument("--role", choices=("read", "write"), default="read", help="what it allows (read)")
        action.add_argument("--keys", metavar="FILE", help="the file of keys (keys.json in DIR)")
        add_json_option(action)


def run(arguments: argparse.Namespace) -> int:
    """Do it."""
    from ookg.service.keys import KEYS_FILE, Keys
    from ookg.storage.checkpoint import read_description

    directory = Path(arguments.model)
    read_description(directory)  # a misspelt directory gets no keys
    keys = Keys(Path(arguments.keys) if arguments.keys else directory / KEYS_FILE)
    if arguments.action == "add":
        text = keys.add(arguments.name, arguments.role)
        if arguments.json:
            print_json({"name": arguments.name, "role": arguments.role, "key": text})
        else:
            print(text)
    elif arguments.action == "revoke":
        gone = keys.revoke(arguments.name)
        if arguments.json:
            print_json({"revoked": gone.name})
        else:
            print(f"the key of {gone.name} opens nothing any more")
    else:
        rows = [{"name": key.name, "role": key.role, "number": key.number, "created": key.created} for key in keys.all]
        if arguments.json:
            print_json(rows)
        else:
            print_table(("name", "role", "number", "created"), [tuple(row.values()) for row in rows])
    return 0
