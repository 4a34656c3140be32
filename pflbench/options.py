"""The options of the command line that settings of a run stand behind, with their help; imports typer only.

Every one is None unless given, so that it overrides a configuration file only then. `shown` is the default of
`pflbench.config.Run`, which cannot be imported here: the help must come up without torch.
"""

from pathlib import Path
from typing import Annotated, Any

import typer


def _option(*names: str, text: str, shown: str | bool = False, **more: Any) -> Any:
    return typer.Option(*names, help=text, show_default=shown, **more)


PLAN = "What is run"
SPLIT = "Who has which samples"
MACHINE = "Where and how"

Dataset = Annotated[
    str | None, _option(text="A name of 'pflbench data list', or npz:PATH.", shown="digits", rich_help_panel=PLAN)
]
Rounds = Annotated[int | None, _option(text="Communication rounds.", shown="200", rich_help_panel=PLAN)]
Seed = Annotated[int | None, _option(text="Seed of everything random.", shown="0", rich_help_panel=PLAN)]
Participation = Annotated[
    float | None, _option(text="Fraction of the clients in a round.", shown="1.0", rich_help_panel=PLAN)
]
EvalEvery = Annotated[
    int | None, _option(text="Evaluate every so many rounds, and after the last.", shown="1", rich_help_panel=PLAN)
]
Network = Annotated[str | None, _option("--model", text="cnn, mlp or resnet18.", shown="cnn", rich_help_panel=PLAN)]
Width = Annotated[int | None, _option(text="k, entries of a representation.", shown="128", rich_help_panel=PLAN)]
HeadLayers = Annotated[
    int | None, _option(text="Layers of the network that are its head.", shown="1", rich_help_panel=PLAN)
]
Hyperparameters = Annotated[
    list[str] | None,
    _option(
        "--set",
        text="A hyperparameter of the method; may be repeated. See 'pflbench algorithms show NAME'.",
        metavar="NAME=VALUE",
        rich_help_panel=PLAN,
    ),
]
ConfigFile = Annotated[
    Path | None,
    _option("--config", text="Settings from a TOML file; options override it.", metavar="FILE", rich_help_panel=PLAN),
]
Plugin = Annotated[
    Path | None, _option(text="A file with a method of your own.", metavar="PATH.py", rich_help_panel=PLAN)
]

Partition = Annotated[
    str | None,
    _option(text="dir:BETA, path:CLASSES, iid or file:PATH.", shown="dir:0.1", rich_help_panel=SPLIT),
]
Clients = Annotated[
    int | None, _option(text="Number of clients.", shown="20, or those of the file", rich_help_panel=SPLIT)
]
PartitionSeed = Annotated[
    int | None, _option(text="Seed of the partition alone.", shown="the seed", rich_help_panel=SPLIT)
]
SamplesPerClient = Annotated[
    str | None, _option(text="Draw every client's size from this range.", metavar="LO-HI", rich_help_panel=SPLIT)
]
Overlap = Annotated[
    bool | None,
    _option("--overlap/--no-overlap", text="Let clients share samples to reach their sizes.", rich_help_panel=SPLIT),
]
Keep = Annotated[
    float | None, _option(text="Fraction of the training samples that is kept.", shown="1.0", rich_help_panel=SPLIT)
]
KeepLast = Annotated[
    int | None, _option(text="Only the last so many clients keep a fraction.", shown="all", rich_help_panel=SPLIT)
]
MinSamples = Annotated[
    int | None, _option(text="Samples that every client has at least.", shown="10", rich_help_panel=SPLIT)
]
TestFraction = Annotated[
    float | None, _option(text="Fraction of a client's samples for testing.", shown="0.25", rich_help_panel=SPLIT)
]

Workers = Annotated[
    int | None,
    _option(text="Worker processes; 1: none.", shown="usable cores, at most a cohort", min=1, rich_help_panel=MACHINE),
]
Device = Annotated[str, _option(text="cpu, cuda, cuda:1, ...", shown="cpu", rich_help_panel=MACHINE)]
DataRoot = Annotated[
    Path | None,
    _option(
        text="Folder of the data sets.", shown="PFLBENCH_DATA, else a cache", metavar="FOLDER", rich_help_panel=MACHINE
    ),
]
RunsFolder = Annotated[
    Path,
    _option("--out", text="Folder of the results.", shown="results/runs", metavar="FOLDER", rich_help_panel=MACHINE),
]
CheckpointEvery = Annotated[
    int, _option(text="Rounds between checkpoints.", shown="10", min=1, rich_help_panel=MACHINE)
]
Fresh = Annotated[bool, _option("--fresh", text="Forget what is stored and start anew.", rich_help_panel=MACHINE)]
Quiet = Annotated[bool, _option("--quiet", text="No progress.", rich_help_panel=MACHINE)]
Json = Annotated[bool, _option("--json", text="JSON for scripts, and nothing else on stdout.")]
