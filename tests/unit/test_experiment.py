"""A short TOML file, a scale and conditions become runs; every mistake in it is told in one line."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from pflbench import config
from pflbench.errors import UserError
from pflbench.methods import registry, sets
from pflbench.methods.hyperparameters import make_run
from pflbench.records.plan import Plan, Planned
from pflbench.sweep import experiment
from tests.factories.runs import in_plan

PLUGIN = '''"""Mine."""
from pflbench.api import Algorithm
class Mine(Algorithm):
    title, family = "Mine", "none"
'''


def read(folder: Path, text: str, name: str = "mine") -> experiment.Table:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return experiment.read(str(path))


def plan(folder: Path, text: str, scale: str = "paper") -> Plan:
    return experiment.make("mine", read(folder, text), scale)


def shown(runs, *names: str) -> list[tuple[Any, ...]]:
    """Settings of the runs, in the order of the plan."""
    return [tuple(run.config[name] for name in names) for run in runs]


def test_the_least_file_means_all_methods_once_with_the_defaults_of_a_run(tmp_path):
    made = plan(tmp_path, "")
    assert [run.plugin for run in made.runs] == experiment.registry.names()
    assert (made.name, made.title, made.scale) == ("mine", "mine", "paper")
    fedavg = next(run for run in made.runs if run.plugin == "fedavg")
    assert fedavg.config == config.as_json(make_run("fedavg", {}, {}))
    assert (fedavg.id, fedavg.name) == (
        make_run("fedavg", {}, {}).id,
        "fedavg, digits dir:0.1, seed 0",
    )


def test_lists_of_a_block_multiply_and_blocks_add_up(tmp_path):
    text = """
    algorithms = ["fedavg", "local"]
    rounds = 7
    [[scenarios]]
    partition = ["dir:0.1", "path:2"]
    data_fraction = [0.5, 1.0]
    [[scenarios]]
    dataset = "cifar10"
    rounds = 9
    """
    found = shown(
        plan(tmp_path, text).runs, "algorithm", "dataset", "partition", "data_fraction", "rounds"
    )
    both = ("fedavg", "local")
    first = [
        (m, "digits", p, k, 7) for p in ("dir:0.1", "path:2") for k in (0.5, 1.0) for m in both
    ]
    assert found == [*first, *[(m, "cifar10", "dir:0.1", 1.0, 9) for m in both]]


def test_every_variant_meets_every_setting(tmp_path):
    text = """
    algorithms = ["fedcosr"]
    [[scenarios]]
    partition = ["dir:0.1", "path:2"]
    [[variants]]
    label = "as published"
    [[variants]]
    hparams = { alpha = [0.0, 2.0], gamma = 0.5 }
    """
    runs = plan(tmp_path, text).runs
    usual = make_run("fedcosr", {}, {}).hparams
    assert usual["gamma"] != 0.5
    given = [run.config["hparams"] for run in runs]
    found = [
        (run.config["partition"], run.variant, hp["alpha"], hp["gamma"])
        for run, hp in zip(runs, given, strict=True)
    ]
    variants = [
        ("as published", usual["alpha"], usual["gamma"]),
        ("alpha=0.0 gamma=0.5", 0.0, 0.5),
        ("alpha=2.0 gamma=0.5", 2.0, 0.5),
    ]
    assert found == [(part, *variant) for part in ("dir:0.1", "path:2") for variant in variants]


def test_the_closer_says_more_top_setting_variant_method(tmp_path):
    text = """
    algorithms = ["fedavg", "fedprox", "LG-FedAvg"]
    clients = 5
    rounds = 5
    width = 5
    eval_every = 5
    [hparams]
    lr = 0.5
    epochs = 5
    [[scenarios]]
    rounds = 6
    width = 6
    eval_every = 6
    hparams.lr = 0.6
    [[variants]]
    width = 7
    eval_every = 7
    hparams.batch_size = 7
    [methods.FedProx]
    eval_every = 8
    hparams = { mu = 0.8, batch_size = 8 }
    [methods.lgfedavg]
    eval_every = 9
    """
    fedavg, fedprox, lgfedavg = plan(tmp_path, text).runs
    names = ("clients", "rounds", "width", "eval_every")
    assert shown([fedavg, fedprox, lgfedavg], *names) == [(5, 6, 7, 7), (5, 6, 7, 8), (5, 6, 7, 9)]
    assert {"lr": 0.6, "epochs": 5, "batch_size": 7}.items() <= fedavg.config["hparams"].items()
    assert {"lr": 0.6, "epochs": 5, "batch_size": 8, "mu": 0.8}.items() <= fedprox.config[
        "hparams"
    ].items()


@pytest.mark.parametrize(
    ("given", "seeds"),
    [("3", [0, 1, 2]), ("[4, 7]", [4, 7]), ("[0]", [0]), ("1", [0]), ("[]", None), ("0", None)],
)
def test_seeds_are_a_number_or_a_list(tmp_path, given, seeds):
    text = f'algorithms = ["local"]\nseeds = {given}'
    if seeds is None:
        with pytest.raises(
            UserError, match=r"seeds = .*: must be a number of seeds or a list of seeds"
        ):
            plan(tmp_path, text)
    else:
        assert [run.config["seed"] for run in plan(tmp_path, text).runs] == seeds


def test_scenarios_are_named_by_what_is_in_them_or_by_their_label(tmp_path):
    text = """
    algorithms = ["fedavg"]
    dataset = "digits"
    [[scenarios]]
    partition = "iid"
    clients = 5
    hparams.lr = 0.1
    [[scenarios]]
    label = "few"
    data_fraction = 0.5
    [[scenarios]]
    dataset = "cifar10"
    """
    runs = plan(tmp_path, text).runs
    assert [run.scenario for run in runs] == [
        "digits iid clients=5 lr=0.1",
        "few",
        "cifar10 dir:0.1",
    ]
    assert runs[0].name == "fedavg, digits iid clients=5 lr=0.1, seed 0"
    assert {run.variant for run in runs} == {""}


@pytest.mark.parametrize("algorithms", ['"all"', '["all"]', "[{all}]"])
def test_all_means_every_known_method(tmp_path, algorithms):
    everything = ", ".join(f'"{name}"' for name in experiment.registry.names())
    found = plan(tmp_path, f"algorithms = {algorithms.format(all=everything)}").runs
    assert [run.config["algorithm"] for run in found] == experiment.registry.names()


def test_a_plugin_is_named_by_its_path_and_may_have_its_own_table(tmp_path):
    path = tmp_path / "my_method.py"
    path.write_text(PLUGIN)
    text = f'algorithms = ["fedavg", "{path}"]\n[methods.my-method]\nrounds = 3\nhparams.lr = 0.3\n'
    fedavg, mine = plan(tmp_path, text).runs
    assert (mine.plugin, mine.config["algorithm"]) == (str(path), "my_method")
    assert (mine.config["rounds"], mine.config["hparams"]["lr"]) == (3, 0.3)
    assert fedavg.config["rounds"] == 200


def test_keys_of_a_file_replace_those_of_what_it_includes(tmp_path):
    read(
        tmp_path,
        'title = "base"\nseeds = 2\nalgorithms = ["local"]\n[[scenarios]]\ndata_fraction = 0.5\n',
        "base",
    )
    read(tmp_path, 'include = "base"\nrounds = 3\nseeds = 4\n', "middle")
    table = read(tmp_path, 'include = "middle"\nseeds = 5\n[[scenarios]]\nscarce_clients = 1\n')
    assert table == {
        "title": "base",
        "algorithms": ["local"],
        "rounds": 3,
        "seeds": 5,
        "scenarios": [{"scarce_clients": 1}],
    }


def test_what_is_not_beside_a_file_is_included_from_pflbench(tmp_path):
    table = read(tmp_path, 'include = "main"\nalgorithms = ["local"]\n')
    assert table == {**experiment.read("main"), "algorithms": ["local"]}
    read(tmp_path, "seeds = 9", "main")
    assert read(tmp_path, 'include = "main"') == {"seeds": 9}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('include = "mainn"', "unknown experiment 'mainn'; did you mean 'main'"),
        ('include = "../mainn"', "unknown experiment '../mainn'"),
        ("include = 3", "unknown experiment '3'"),
        ("algorithms = [", r"mine\.toml is not TOML: "),
        ("x = 1\nx = 2\ny = 3", r"mine\.toml is not TOML: .*line 2"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path, text, says):
    with pytest.raises(UserError, match=says) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("quickstat", "unknown experiment 'quickstat'; did you mean 'quickstart'"),
        ("scales", "unknown experiment 'scales'"),
        (".toml", "unknown experiment '.toml'"),
        ("nowhere.toml", "cannot read nowhere.toml: No such file"),
    ],
)
def test_an_experiment_that_is_not_there_is_told_in_one_line(name, says):
    with pytest.raises(UserError, match=says):
        experiment.read(name)


def test_text_that_is_not_utf8_is_told_in_one_line(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b'title = "\xff"')
    with pytest.raises(UserError, match="is not TOML"):
        experiment.read(str(path))


def test_files_that_include_each_other_are_told_in_one_line(tmp_path):
    (tmp_path / "other.toml").write_text('include = "mine"')
    with pytest.raises(UserError, match="include"):
        read(tmp_path, 'include = "other"')


def test_a_file_may_include_the_experiment_of_its_own_name(tmp_path):
    assert read(tmp_path, 'include = "main"\nseeds = 9', "main") == {
        **experiment.read("main"),
        "seeds": 9,
    }


MISTAKES = {
    "round = 3": "unknown key of experiment mine 'round'; did you mean 'rounds'",
    "algorithm = 'local'": "unknown key of experiment mine 'algorithm'; did you mean 'algorithms'",
    "seed = 3": "unknown key of experiment mine 'seed'; did you mean 'seeds'",
    "lr = 0.1": "unknown key of experiment mine 'lr'",
    "[[scenarios]]\nlr = 0.1": r"unknown key of \[\[scenarios\]\] 'lr'",
    "[[scenarios]]\nseeds = 3": r"unknown key of \[\[scenarios\]\] 'seeds'",
    "[[variants]]\nlabels = 'x'": r"unknown key of \[\[variants\]\] 'labels'; did you mean 'label'",
    "[scenarios]\ndata_fraction = 0.5": r"scenarios must be blocks: \[\[scenarios\]\]",
    "variants = 3": r"variants must be blocks: \[\[variants\]\]",
    "scenarios = []": r"scenarios must be blocks: \[\[scenarios\]\]",
    "hparams = 3": "hparams must be a table, not 3",
    "methods = ['fedavg']": r'methods must be a table, not \["fedavg"\]',
    "[[scenarios]]\nhparams = 3": "hparams must be a table, not 3",
    "[hparams]\nmu = 1.0": "unknown hyperparameter of FedAvg 'mu'",
    "[[variants]]\nhparams.alpha = [0.0, 1.0]": "unknown hyperparameter of FedAvg 'alpha'",
    "[methods.locl]\nrounds = 3": r"unknown method in \[methods\] of experiment mine 'locl'; .*known: fedavg, ",
    "[methods.fedprox.hparams]\nmuu = 1.0": "unknown hyperparameter of FedProx 'muu'; did you mean 'mu'",
    "[methods.fedavg]\nhparams.lr = [0.1, 0.2]": r"hyperparameter lr = \[0.1, 0.2\]: must be a number",
    "data_fraction = [0.1, 0.2]": r"option data_fraction = \[0.1, 0.2\]: must be a number",
    "clients = 0": "clients = 0: must be at least 1",
    "seeds = '3'": "seeds = '3': must be a number of seeds",
    "seeds = [0, -1]": r"seeds = \[0, -1\]: must be",
    "seeds = true": "seeds = True: must be",
    "seeds = 1.0": "seeds = 1.0: must be",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_in_one_line(tmp_path, text):
    with pytest.raises(UserError, match=MISTAKES[text]) as caught:
        plan(tmp_path, f"algorithms = ['fedavg', 'fedprox']\n{text}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["algorithms = []", "algorithms = 3", "algorithms = ['local', 3]"])
def test_algorithms_are_all_or_names(tmp_path, text):
    with pytest.raises(
        UserError, match=r'algorithms = .*: must be a set, e.g. "all", or a list of names'
    ):
        plan(tmp_path, text)


def test_an_unknown_method_is_told_with_the_nearest(tmp_path):
    with pytest.raises(UserError, match="unknown method 'fedavgg'; did you mean 'fedavg'"):
        plan(tmp_path, "algorithms = ['fedavgg']")


@pytest.mark.parametrize("scale", ["paper", "small", "smoke"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rounds = 'many'", "option rounds = 'many': must be a whole number"),
        ("rounds = 2.5", "option rounds = 2.5: must be a whole number"),
        ("rounds = [1, 2]", r"option rounds = \[1, 2\]: must be a whole number"),
        ("max_samples = 'few'", "option max_samples = 'few': must be a whole number"),
    ],
)
def test_a_mistake_is_the_same_at_every_scale(tmp_path, text, says, scale):
    with pytest.raises(UserError, match=says):
        plan(tmp_path, f"algorithms = ['local']\n{text}", scale)


@pytest.mark.parametrize(
    "text", ["partition = ['iid', 'path:2']", "[methods.local]\npartition = ['iid', 'path:2']"]
)
def test_a_list_of_text_belongs_in_a_block(tmp_path, text):
    with pytest.raises(UserError, match="partition"):
        plan(tmp_path, f"algorithms = ['local']\n{text}")


@pytest.mark.parametrize(
    "text", ["[methods.local]\nlr = 0.1", "[methods.local]\nalgorithms = ['fedavg']"]
)
def test_an_unknown_key_of_a_method_is_told(tmp_path, text):
    with pytest.raises(UserError, match=r"unknown key of \[methods.local\]"):
        plan(tmp_path, f"algorithms = ['local']\n{text}")


def test_what_is_different_for_a_method_is_a_table(tmp_path):
    with pytest.raises(UserError, match="local must be a table, not 3"):
        plan(tmp_path, "algorithms = ['local']\n[methods]\nlocal = 3")


def test_an_empty_list_is_told(tmp_path):
    with pytest.raises(UserError, match="partition"):
        plan(tmp_path, "algorithms = ['local']\n[[scenarios]]\npartition = []")


TIERS = {  # experiments/scales.toml, by hand: rounds, seeds, samples of a client
    "paper": (200, 5, None),
    "small": (50, 3, 250),
    "smoke": (2, 1, 24),
}


@pytest.mark.parametrize("scale", TIERS)
def test_a_scale_bounds_rounds_seeds_and_samples(tmp_path, scale):
    rounds, seeds, samples = TIERS[scale]
    made = plan(tmp_path, "algorithms = ['local']\nseeds = 5", scale)
    assert shown(made.runs, "rounds", "seed", "max_samples") == [
        (rounds, seed, samples) for seed in range(seeds)
    ]
    assert (made.scale, made.name) == (scale, "mine" if scale == "paper" else f"mine-{scale}")


@pytest.mark.parametrize("scale", TIERS)
def test_a_scale_never_asks_for_more_than_the_experiment(tmp_path, scale):
    runs = plan(
        tmp_path, "algorithms = ['local']\nseeds = [8]\nrounds = 1\nmax_samples = 11", scale
    ).runs
    assert shown(runs, "rounds", "seed", "max_samples") == [(1, 8, 11)]


def test_a_scale_bounds_what_blocks_and_methods_say_too(tmp_path):
    blocks = "[[scenarios]]\nrounds = 70\n[methods.fedavg]\nrounds = 60"
    text = f"algorithms = ['local', 'fedavg']\nseeds = [5, 6, 7, 8]\n{blocks}"
    assert shown(plan(tmp_path, text, "small").runs, "rounds", "seed") == [
        (50, s) for s in (5, 6, 7) for _ in range(2)
    ]


@pytest.mark.parametrize("scale", ["small", "smoke"])
def test_no_limit_is_none_in_text_too(tmp_path, scale):
    runs = plan(tmp_path, "algorithms = ['local']\nmax_samples = 'none'", scale).runs
    assert shown(runs, "max_samples") == [(TIERS[scale][2],)]


def test_only_the_smoke_scale_has_stand_ins_and_only_for_what_is_downloaded(tmp_path):
    text = "algorithms = ['local']\n[[scenarios]]\ndataset = ['cifar10', 'digits', 'synthetic:classes=4,side=16']"
    usual = [("cifar10",), ("digits",), ("synthetic:classes=4,side=16",)]
    for scale in ("paper", "small"):
        assert shown(plan(tmp_path, text, scale).runs, "dataset") == usual
    smoke = plan(tmp_path, text, "smoke").runs
    assert shown(smoke, "dataset") == [
        ("synthetic:classes=10,channels=3,samples=6000",),
        *usual[1:],
    ]
    stand_ins = {name for tier in experiment.scales().values() for name in tier.get("stand_in", {})}
    assert stand_ins == {"cifar10", "cifar100", "emnist", "fashion_mnist"}


def test_samples_of_a_stored_partition_are_not_bounded():
    stored = {"partition": "file:stored.npz", "clients": 4, "dataset": "digits"}
    assert experiment.scaled({**stored, "rounds": 9}, {"max_samples": 3, "rounds": 2}) == {
        **stored,
        "rounds": 2,
    }


def test_sizes_that_are_drawn_are_not_bounded_by_a_scale():
    assert (
        experiment.scaled({"samples_per_client": "20-30"}, {"max_samples": 24}).get("max_samples")
        is None
    )


def test_an_unknown_scale_is_told(tmp_path):
    with pytest.raises(UserError, match=r"unknown scale 'smol'; .*known: paper, small, smoke"):
        plan(tmp_path, "algorithms = ['local']", "smol")


def planned(
    algorithm="fedavg", dataset="digits", partition="dir:0.1", variant="", **settings
) -> Planned:
    run = make_run(algorithm, {"dataset": dataset, "partition": partition, **settings}, {})
    return in_plan(run, variant=variant)


SYNTHETIC = "synthetic:classes=4,side=16"
RUNS = {
    "avg": planned(),
    "avg1": planned(seed=1, data_fraction=0.5),
    "prox": planned("fedprox", partition="dir:0.5", variant="w/o CE"),
    "lg": planned("lgfedavg", dataset=SYNTHETIC, partition="path:2"),
}


@pytest.mark.parametrize(
    ("only", "exclude", "left"),
    [
        ([], [], "avg avg1 prox lg"),
        (["fedavg"], [], "avg avg1"),
        (["FedProx,LG-FedAvg"], [], "prox lg"),
        (["fed*"], [], "avg avg1 prox"),
        (["*avg"], ["lg*"], "avg avg1"),
        (["algorithm=FedP?ox"], [], "prox"),
        (["partition=dir:*"], [], "avg avg1 prox"),
        (["partition=dir:0.1,path:2"], [], "avg avg1 lg"),
        (["partition=dir:*", "fedavg"], [], "avg avg1"),  # all of them
        (["seed=1"], [], "avg1"),
        (["seed=0,1", "data_fraction=0.5"], [], "avg1"),
        ([f"dataset={SYNTHETIC}"], [], "lg"),
        ([f"dataset=digits,{SYNTHETIC}"], [], "avg avg1 prox lg"),
        (["dataset=synthetic:*"], [], "lg"),
        (["variant=w/o*"], [], "prox"),
        ([], ["fedavg", "partition=path:2"], "prox"),  # none of them
        (["fedavg"], ["seed=1"], "avg"),
        (["nobody"], [], ""),
    ],
)
def test_runs_are_chosen_by_conditions(only, exclude, left):
    names = {run.id: name for name, run in RUNS.items()}
    assert [
        names[run.id] for run in experiment.chosen(RUNS.values(), only, exclude)
    ] == left.split()


@pytest.mark.parametrize("where", ["only", "exclude"])
def test_a_condition_on_what_is_no_setting_is_told(where):
    with pytest.raises(
        UserError, match="unknown name in --only or --exclude 'datset'; did you mean 'dataset'"
    ):
        experiment.chosen(RUNS.values(), **{"only": [], "exclude": [], where: ["datset=digits"]})


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", []),
        (" , ", []),
        ("a", ["a"]),
        ("a, b,", ["a", "b"]),
        ("dir:0.1,path:2,iid", ["dir:0.1", "path:2", "iid"]),
        ("synthetic:classes=4,side=16", ["synthetic:classes=4,side=16"]),
        (
            "synthetic:classes=4, side=16,samples=9,digits",
            ["synthetic:classes=4,side=16,samples=9", "digits"],
        ),
        (
            "digits,synthetic:classes=4,side=16,npz:a.npz",
            ["digits", "synthetic:classes=4,side=16", "npz:a.npz"],
        ),
        (
            "synthetic:classes=4,synthetic:classes=5,side=8",
            ["synthetic:classes=4", "synthetic:classes=5,side=8"],
        ),
        ("synthetic,side=16", ["synthetic", "side=16"]),
    ],
)
def test_commas_inside_a_data_set_belong_to_it(text, items):
    assert experiment.listed(text) == items


AT_SMOKE = {  # methods x scenarios x variants, of one seed
    "ablation": 1 * 6 * 6,
    "adam": 22 * 6,
    "cifar10": 22 * 3,
    **dict.fromkeys(("cifar100", "emnist"), 22 * 2),
    "digits": len(registry.names()) * 2,
    "distributions": 1 * (4 + 2 + 2 + 4),
    "efficiency": 22 * 6,
    "fairness": 5 * 1,
    "leaderboard": 1 + len(sets.members("pfllib-leaderboard")),
    "main": 22 * 6,
    "new-clients": len(registry.names()) * 2,
    "quickstart": 22 * 2,
    "representations": 5 * 2,
    "scalability": 22 * 6,
    "scarcity": 22 * 2 * 5,
    "sensitivity": 1 * (5 + 4),
    "weighting": 1 * (5 + 1 + 5),
}


def test_our_experiments_are_those_of_the_table():
    assert experiment.names() == sorted(AT_SMOKE)


@pytest.mark.parametrize("name", AT_SMOKE)
def test_our_experiments_make_their_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = experiment.read(name)
    made = experiment.make(name, table, "smoke")
    assert len(made.runs) == AT_SMOKE[name]
    assert made.title == table["title"]
    cells = [
        (run.scenario, run.variant, run.config["algorithm"], run.config["seed"])
        for run in made.runs
    ]
    assert len(set(cells)) == len(cells)  # every run has a cell of its own in tables and figures
    assert all(run.id == run.run.id for run in made.runs)


def test_experiments_share_the_runs_that_they_have_in_common():
    few = {"algorithms": ["fedcosr"], "seeds": 1}
    names = ("main", "ablation", "sensitivity")
    made = {name: experiment.make(name, {**experiment.read(name), **few}).runs for name in names}
    ids = {name: {run.id for run in runs} for name, runs in made.items()}
    unchanged = [run.id for run in made["ablation"] if run.variant == "FedCoSR"]
    assert len(unchanged) == 6
    assert set(unchanged) == ids["main"]
    # the defaults are on both of its axes
    assert len(ids["sensitivity"]) == len(made["sensitivity"]) - 1
    assert len(ids["sensitivity"] & ids["main"]) == 1


def test_every_distribution_of_the_tables_is_drawn():
    def partitions(name: str) -> set[tuple[Any, ...]]:
        runs = experiment.make(
            name, {**experiment.read(name), "algorithms": ["local"], "seeds": 1}
        ).runs
        return set(shown(runs, "dataset", "partition", "clients"))

    assert partitions("distributions") == partitions("main") | partitions("scalability")


def test_the_paper_scale_changes_nothing():
    assert experiment.scales()["paper"] == {}
    settings = {"dataset": "emnist", "rounds": 500, "max_samples": 7}
    assert experiment.scaled(settings, {}) == settings


def test_a_plan_goes_by_scenarios_then_seeds_then_methods(tmp_path):
    text = "algorithms = ['local', 'fedavg']\nseeds = 2\n[[scenarios]]\ndata_fraction = [0.5, 1.0]"
    expected = list(itertools.product((0.5, 1.0), (0, 1), ("local", "fedavg")))
    assert shown(plan(tmp_path, text).runs, "data_fraction", "seed", "algorithm") == expected


def test_what_is_given_for_all_methods_holds_for_those_with_values_of_their_own(tmp_path):
    table = {
        "algorithms": ["fedavg", "fedprox"],
        "methods": {"fedprox": {"hparams": {"lr": 0.05, "mu": 0.5}}},
        "variants": [{"methods": {"fedavg": {"hparams": {"lr": 0.07}}}}],
    }

    def rates(**given: Any) -> dict[str, float]:
        runs = experiment.make("mine", experiment.overridden(table, given)).runs
        assert runs[1].config["hparams"]["mu"] == 0.5
        return {run.config["algorithm"]: run.config["hparams"]["lr"] for run in runs}

    assert rates() == {"fedavg": 0.07, "fedprox": 0.05}
    assert rates(hparams={"lr": "0.2"}) == {"fedavg": 0.2, "fedprox": 0.2}
    one = {"fedavg": {"hparams": {"lr": "0.3"}}}
    assert rates(hparams={"lr": "0.2"}, methods=one) == {"fedavg": 0.3, "fedprox": 0.2}


def test_what_is_given_holds_in_blocks_too_and_leaves_their_other_hyperparameters(tmp_path):
    table = experiment.read("weighting")
    faster = experiment.make(
        "weighting", experiment.overridden(table, {"hparams": {"lr": "0.01"}, "rounds": 3})
    )
    assert len(faster.unique()) == 55
    assert {(run.config["rounds"], run.config["hparams"]["lr"]) for run in faster.runs} == {
        (3, 0.01)
    }
    fixed = experiment.make(
        "weighting", experiment.overridden(table, {"hparams": {"gamma": "2.0"}})
    )
    assert {run.config["hparams"]["gamma"] for run in fixed.runs} == {2.0}
    fewer = experiment.make(
        "scalability", experiment.overridden(experiment.read("scalability"), {"clients": 10})
    )
    assert {run.config["clients"] for run in fewer.runs} == {10}
