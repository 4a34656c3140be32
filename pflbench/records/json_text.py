"""JSON in which numbers that are not finite are null, as the standard has no word for them."""

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(value: Any, **style: Any) -> str:
    """The value as JSON text."""
    try:
        return json.dumps(value, allow_nan=False, **style)
    except ValueError:  # to look for such numbers first would take longer than to write all
        return json.dumps(_finite(value), allow_nan=False, **style)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
