"""The methods of the tables, in their order. A further method is a class of `method.Method` and an entry here."""

from ookg.research.reproduction.methods.baseline import BASELINE_METHODS, LAN_AS_PUBLISHED
from ookg.research.reproduction.methods.beyond import BEYOND_METHODS
from ookg.research.reproduction.methods.continual import CONTINUAL_METHODS
from ookg.research.reproduction.methods.few_shot import FEW_SHOT_METHODS
from ookg.research.reproduction.methods.inverse import INV_ROTATE, INV_TRANSE, INV_TRANSE_AS_PUBLISHED
from ookg.research.reproduction.methods.method import OWN_SETS, Context, Method, OwnSet, Variant, run_settings, task_of
from ookg.research.reproduction.methods.own import OwnMethod, own_method

# Where a method has other settings than its published code on some data sets: the same by those, under its name.
AS_PUBLISHED: dict[str, Method] = {"LAN": LAN_AS_PUBLISHED, INV_TRANSE.name: INV_TRANSE_AS_PUBLISHED}
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *BASELINE_METHODS,
        INV_TRANSE,
        INV_ROTATE,
        *AS_PUBLISHED.values(),
        *BEYOND_METHODS,
        *CONTINUAL_METHODS,
        *FEW_SHOT_METHODS,
    )
}

__all__ = [
    "AS_PUBLISHED",
    "INV_ROTATE",
    "INV_TRANSE",
    "METHODS",
    "OWN_SETS",
    "Context",
    "Method",
    "OwnMethod",
    "OwnSet",
    "Variant",
    "own_method",
    "run_settings",
    "task_of",
]
