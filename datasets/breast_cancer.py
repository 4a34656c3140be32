"""Breast cancer Wisconsin (diagnostic) (Street et al., 1993), as embedded in scikit-learn: no download.

569 tumours with 30 numbers each, measured on images of cell nuclei; malignant or benign.
"""

from pathlib import Path

import numpy as np

from pflbench.data.arrays import Arrays

TITLE = "Breast cancer"
SAMPLES = 569
CLASSES = 2


def read(root: Path, argument: str) -> Arrays:
    """x (569, 30) float32, as measured."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    names = tuple(map(str, found.target_names))
    return Arrays(found.data.astype(np.float32), found.target.astype(np.int64), class_names=names)
