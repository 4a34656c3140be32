"""The data sets, one per file; a wheel has the files here, a checkout has them in its top-level folder `datasets/`.

The folder is taken only when it is the checkout's own: beside an installed pflbench, a folder of that name is
Hugging Face's package `datasets` (which has an `__init__.py`, and no pyproject.toml beside it).
"""

from pathlib import Path

_checkout = Path(__file__).resolve().parents[2]
_folder = _checkout / "datasets"
if (
    _folder.is_dir()
    and (_checkout / "pyproject.toml").is_file()
    and not (_folder / "__init__.py").exists()
):
    __path__.append(str(_folder))
