from pflbench.interface import load as load
from pflbench.interface import run as run

__version__: str
