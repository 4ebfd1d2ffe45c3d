"""Blocks as JSON for the scripts of the page.

`documents.js` receives each block as a JSON object of its fields, with its class as `"kind"`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

VALUE_DIGITS = 6  # significant digits of a number in an array: more than colours and tables show


def blocks_to_json(value, serve: Callable[[np.ndarray], object]):
    """Convert blocks to JSON objects without empty fields; NaN becomes None.

    An image (height, width, 3) uint8 becomes the result of `serve`.
    """
    if dataclasses.is_dataclass(value):
        fields = {
            f.name: blocks_to_json(getattr(value, f.name), serve) for f in dataclasses.fields(value)
        }
        said = {n: v for n, v in fields.items() if v is not None and v is not False and v != ""}
        return {"kind": type(value).__name__, **said}
    if isinstance(value, Mapping):
        return [[name, blocks_to_json(each, serve)] for name, each in value.items()]
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3:
        return serve(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [blocks_to_json(each, serve) for each in value]
    if isinstance(value, np.floating):
        return float(f"{value:.{VALUE_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
