"""`dataclasses.replace` for the states of the protocol, three times as fast: a deal replaces some fifty of
them, with up to twenty fields each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["replace"]

if TYPE_CHECKING:
    from dataclasses import replace
else:

    def replace(state, /, **changes):
        """A copy in which these fields are others. Of dataclasses with two fields or more, all of them
        arguments in their order; TypeError for a field that it has not.
        """
        places, values_of = _shape(type(state))
        values = list(values_of(state))
        try:
            for name, value in changes.items():
                values[places[name]] = value
        except KeyError as unknown:
            raise TypeError(f"{type(state).__name__} has no field {unknown}") from None
        return type(state)(*values)


@cache
def _shape(of: type[Any]) -> tuple[dict[str, int], Callable[[Any], tuple[Any, ...]]]:
    fields = dataclasses.fields(of)
    if len(fields) < 2 or not all(field.init and not field.kw_only for field in fields):
        raise TypeError(f"{of.__name__} is not made of its fields in their order")
    names = [field.name for field in fields]
    return {name: place for place, name in enumerate(names)}, attrgetter(*names)
