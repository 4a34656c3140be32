from pflbench.interface import load as load
from pflbench.interface import report as report
from pflbench.interface import run as run
from pflbench.interface import sweep as sweep

__version__: str
