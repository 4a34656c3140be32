"""The options of the command line, with their help: each is written once, whichever commands have
it. Those of `report` alone are in `options_of_report`.

Every setting of a run is None unless given, so that it overrides a configuration file only then.
Its default, in brackets, is that of `pflbench.config.Run`, which cannot be imported here: the help
must come up without torch.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Command = Callable[..., None]
LARGEST = 1_000_000  # of an option that is no whole number


def added(options: Mapping[str, Any], before: str) -> Callable[[Command], Command]:
    """Give a command more options, which it reads from its context. In the help they come before
    the option of this name.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = list(signature.parameters.values())
        place = list(signature.parameters).index(before)
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in options.items()
        ]
        every = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in (*own[:place], *more, *own[place:])
        ]

        @functools.wraps(command)
        def with_options(**given: Any) -> None:
            command(**{name: value for name, value in given.items() if name not in options})

        with_options.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        return with_options

    return decorate


def settings_of(ctx: typer.Context) -> dict[str, Any]:
    """The settings of a run among a command's options, those that were given."""
    from pflbench.config import SETTINGS

    given = {name: value for name, value in ctx.params.items() if value is not None}
    return {name: value for name, value in given.items() if name in SETTINGS}


def option(text: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """An option whose help says its default in brackets, if it has one."""
    return typer.Option(*names, help=text, metavar=metavar, show_default=False, **more)


def _finite(value: float) -> float:
    if not math.isfinite(value) or value > LARGEST:
        raise typer.BadParameter(f"{value} must be a number up to {LARGEST}.")
    return value


RUN: dict[str, Any] = {
    "dataset": Annotated[
        str | None,
        option("A data set of 'pflbench data list', npz:PATH or FILE.py. [digits]", "NAME"),
    ],
    "partition": Annotated[
        str | None,
        option("dir:BETA, path:CLASSES, iid, natural, domains:K or file:PATH. [dir:0.1]", "KIND"),
    ],
    "clients": Annotated[
        int | None, option("Number of clients. [20, or as in the data or file:PATH]", "N")
    ],
    "rounds": Annotated[int | None, option("Communication rounds. [200]", "N")],
    "seed": Annotated[int | None, option("Seed of all random numbers. [0]", "N")],
    "participation": Annotated[
        float | None, option("Fraction of the clients that take part per round. [1.0]", "FRACTION")
    ],
    "eval_every": Annotated[
        int | None, option("Evaluate every N rounds, and after the last. [1]", "N")
    ],
    "evaluate_clients": Annotated[
        int | None, option("Evaluate a random sample of N clients. [all]", "N")
    ],
    "model": Annotated[
        str | None,
        option("cnn, cnn_bn, cnn1d, mlp, resnet8, resnet18, text or FILE.py. [cnn]", "NAME"),
    ],
    "width": Annotated[int | None, option("k, the dimension of representations. [128]", "N")],
    "head_layers": Annotated[
        int | None, option("Layers of the network that form its head. [1]", "N")
    ],
    "body_weights": Annotated[
        str | None, option("Initial values of the network's body, .npz or .pt. [random]", "FILE")
    ],
    "partition_seed": Annotated[int | None, option("Seed of the partition alone. [the seed]", "N")],
    "samples_per_client": Annotated[
        str | None,
        option("Draw each client's number of samples from a range, e.g. 80-100.", "LO-HI"),
    ],
    "overlap": Annotated[
        bool | None,
        option(
            "Let clients share samples to reach these numbers. [no]", None, "--overlap/--no-overlap"
        ),
    ],
    "max_samples": Annotated[
        int | None, option("Maximum number of samples per client. [no limit]", "N")
    ],
    "data_fraction": Annotated[
        float | None,
        option("Fraction of their training samples that clients use. [1.0]", "FRACTION"),
    ],
    "scarce_clients": Annotated[
        int | None,
        option("Apply the data fraction to the last N clients only. [all]", "N"),
    ],
    "min_samples": Annotated[int | None, option("Minimum number of samples per client. [10]", "N")],
    "test_fraction": Annotated[
        float | None,
        option("Fraction of each client's samples held out for testing. [0.25]", "FRACTION"),
    ],
    "validation": Annotated[
        float | None,
        option("Fraction of the training samples held out for validation. [0.0]", "FRACTION"),
    ],
    "standardize": Annotated[
        bool | None,
        option(
            "Standardize features by mean and std of the training samples. [yes]",
            None,
            "--standardize/--no-standardize",
        ),
    ],
    "dropout_rate": Annotated[
        float | None, option("Probability that a selected client fails in a round. [0.0]", "P")
    ],
    "slow_clients": Annotated[
        float | None, option("Fraction of the clients that are slow. [0.0]", "FRACTION")
    ],
    "slow_work": Annotated[
        float | None,
        option("Fraction of its batches that a slow client processes. [0.5]", "FRACTION"),
    ],
    "new_clients": Annotated[
        int | None,
        option("Exclude the last N clients from training; evaluate them separately. [0]", "N"),
    ],
    "new_client_epochs": Annotated[
        int | None, option("Evaluate new clients after 1 and after N local epochs. [5]", "N")
    ],
    "representations": Annotated[
        int | None,
        option("Store representations of N test samples per client after the last round. [0]", "N"),
    ],
}
"""The settings of a run, in the order of the help."""

_DIVISION = (
    *("partition", "clients", "seed", "samples_per_client", "overlap", "max_samples"),
    *("data_fraction", "scarce_clients", "min_samples", "test_fraction", "validation"),
)
DIVISION = {name: RUN[name] for name in _DIVISION}
"""The settings that say which client has which samples."""

Hyperparameters = Annotated[
    list[str] | None,
    option(
        "A hyperparameter; may be repeated. See 'pflbench algorithms show'.", "NAME=VALUE", "--set"
    ),
]
ConfigFile = Annotated[
    Path | None,
    option("Read options from a file; those on the command line win.", "FILE.toml", "--config"),
]
Plugin = Annotated[Path | None, option("A method of your own.", "PATH.py")]

Workers = Annotated[
    int | None, option("Worker processes. [one per core, at most one per client]", "N", min=1)
]
Device = Annotated[str, option("cpu, cuda, cuda:1, ... [cpu]", "NAME")]
DataRoot = Annotated[
    Path | None, option("Folder of data sets. [PFLBENCH_DATA, else a cache]", "FOLDER")
]
Records = Annotated[
    Path, typer.Argument(help="A folder of runs, e.g. results/runs, or an archive of one.")
]
RunsFolder = Annotated[Path, option("Folder of results. [results/runs]", "FOLDER", "--out")]
CheckpointEvery = Annotated[int, option("Rounds between checkpoints. [10]", "N", min=1)]
StateMemory = Annotated[
    float,
    option(
        "GiB of memory per run for private client states; the rest goes to files. [2.0]",
        "GIB",
        min=0,
        callback=_finite,
    ),
]
SaveModels = Annotated[
    bool,
    option(
        "Save the state after the last round, to load models or to continue with more --rounds.",
        None,
        "--save-models",
    ),
]
Fresh = Annotated[bool, option("Discard the stored run and start over.", None, "--fresh")]
Strict = Annotated[
    bool,
    option(
        "Refuse to resume a run on another kind of machine. [resume, and mark it]",
        None,
        "--strict",
    ),
]
Quiet = Annotated[bool, option("Show no progress.", None, "--quiet")]
ExportTo = Annotated[
    list[str] | None,
    option(
        "tensorboard, mlflow or wandb, and its folder or URI; may be repeated. [in FOLDER]",
        "NAME[=WHERE]",
        "--to",
    ),
]
Track = Annotated[
    list[str] | None,
    option(
        "Log every round to tensorboard, mlflow or wandb; may be repeated. [in --out]",
        "NAME[=WHERE]",
        "--track",
    ),
]
Json = Annotated[bool, option("Print JSON, and nothing else, on stdout.", None, "--json")]

EXPERIMENT: dict[str, Any] = {
    "algorithms": Annotated[
        list[str] | None,
        option(
            "Methods, e.g. fedavg,fedprox,mine.py, or a set, e.g. all.",
            "NAMES",
            "--algorithms",
            "--methods",
        ),
    ],
    "datasets": Annotated[
        list[str] | None, option("Data sets, e.g. digits,npz:PATH,FILE.py.", "NAMES")
    ],
    "partitions": Annotated[list[str] | None, option("Partitions, e.g. dir:0.1,path:2.", "KINDS")],
    "seeds": Annotated[
        list[str] | None, option("Number of seeds, or a list, e.g. 0,1,2. [1]", "N")
    ],
    **{name: RUN[name] for name in RUN if name not in ("dataset", "partition", "seed")},
    "hparams": Annotated[
        list[str] | None,
        option(
            "A hyperparameter of all methods, or of one, e.g. fedprox.mu=0.1; may be repeated.",
            "NAME=VALUE",
            "--set",
        ),
    ],
    "name": Annotated[
        str | None,
        option("Name of the experiment in status and report. [the file's, or grid-HASH]", "NAME"),
    ],
    "title": Annotated[
        str | None, option("Title of the tables. [the file's, or methods and data sets]", "TEXT")
    ],
}
"""What an experiment is, without a file or in place of what a file says."""

Scale = Annotated[
    str, option("paper, small or smoke: limits rounds, seeds and samples. [paper]", "NAME")
]
Only = Annotated[
    list[str] | None,
    option(
        "Only these runs: methods by name, title or path, or NAME=VALUE; may be repeated.", "WHICH"
    ),
]
Exclude = Annotated[
    list[str] | None, option("Leave these runs out, named in the same way.", "WHICH")
]
Jobs = Annotated[
    int | None,
    option(
        "Runs in parallel. [one per core, or as many as fit the GPUs or the cluster]", "N", min=1
    ),
]
On = Annotated[str, option("local, or ray for a Ray cluster. [local]", "PLACE")]
Address = Annotated[
    str | None, option("Address of a Ray cluster: auto or HOST:PORT. [start one here]", "ADDRESS")
]
RunsPerGpu = Annotated[int, option("Runs per GPU. [1]", "N", min=1)]
RetryFailed = Annotated[bool, option("Run failed runs again.", None, "--retry-failed")]
KeepOutdated = Annotated[
    bool,
    option(
        "Keep the results of methods whose code has changed since. [run them again]",
        None,
        "--keep-outdated",
    ),
]
DryRun = Annotated[
    bool, option("Only list the runs, with the time that they will take.", None, "--dry-run")
]
Probe = Annotated[
    bool,
    option("Run one round of each method for that estimate. [yes]", None, "--probe/--no-probe"),
]
