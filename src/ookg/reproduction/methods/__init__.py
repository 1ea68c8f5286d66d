"""The methods of the tables, in their order. A further method is a class of `method.Method` and an entry here."""

from ookg.reproduction.methods.baseline import BASELINE_METHODS
from ookg.reproduction.methods.beyond import BEYOND_METHODS
from ookg.reproduction.methods.inverse import INV_ROTATE, INV_TRANSE, INV_TRANSE_AS_PUBLISHED
from ookg.reproduction.methods.method import Context, Method, Variant, run_settings, task_of

METHODS: dict[str, Method] = {
    method.name: method
    for method in (*BASELINE_METHODS, INV_TRANSE, INV_TRANSE_AS_PUBLISHED, INV_ROTATE, *BEYOND_METHODS)
}

__all__ = ["INV_ROTATE", "INV_TRANSE", "METHODS", "Context", "Method", "Variant", "run_settings", "task_of"]
