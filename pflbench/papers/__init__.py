"""Papers whose tables pflbench can redraw and compare with, each in a folder of its own; only
reports read them.
"""

from functools import cache

from pflbench.papers.paper import Paper


@cache
def papers() -> tuple[Paper, ...]:
    """All papers, in the order in which a report asks them."""
    from pflbench.papers.fedcosr import PAPER

    return (PAPER,)
