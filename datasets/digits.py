"""The optical digits of UCI (Alpaydin and Kaynak, 1998; its test part), as embedded in scikit-learn: no download.

1,797 images of 8 x 8 pixels with values 0..16, made as large as MNIST's images with integer arithmetic only, so that
the bytes are the same on every machine.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

TITLE = "Digits"
SAMPLES = 1_797
CLASSES = 10


def read(root: Path, argument: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """x (1797, 1, 28, 28): v -> round(255 v / 16), half up; every pixel 3 x 3 times; a border of 2 zeros."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    values = digits.images.astype(np.int64)  # (n, 8, 8)
    scaled = ((values * 255 + 8) // 16).astype(np.uint8)
    large = scaled.repeat(3, axis=1).repeat(3, axis=2)  # (n, 24, 24)
    return np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None], digits.target.astype(np.int64)
