"""The types of arrays."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
IntArray = np.ndarray[Any, np.dtype[np.int64]]
FloatArray = np.ndarray[Any, np.dtype[np.float64]]
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[Any]]  # whole numbers of 32 or 64 bits
Scores = np.ndarray[Any, np.dtype[np.float32]]
