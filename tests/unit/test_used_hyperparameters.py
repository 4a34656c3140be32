"""The table of hyperparameters has what runs had, not what plugins say, and marks what differs."""

from typing import Any

from pflbench.report.render.parts import TablePart
from pflbench.report.tables import hyperparameters
from tests.factories.runs import layout, run

COMMON = {"lr": 0.1, "batch_size": 32}


def tables(*runs: Any) -> tuple[TablePart, list[str]]:
    (part,), notes = hyperparameters.tables(layout(*runs, report={}))
    return part, notes


def test_what_all_methods_share_is_in_the_caption_and_the_rest_in_rows():
    part, notes = tables(
        run("fedavg", hparams={**COMMON, "momentum": 0.0}),
        run("fedprox", hparams={**COMMON, "mu": 0.5}),
    )
    assert "The same for all methods: lr 0.1* (default 0.01), batch_size 32* " in part.caption
    assert part.rows == (("FedAvg", "momentum", "0", ""), ("FedProx", "mu", "0.5*", "0.01"))
    assert "*: not the method's default." in part.caption
    assert notes == []


def test_where_no_method_has_its_own_the_rows_are_of_all():
    part, _ = tables(run("fedavg", hparams=COMMON), run("ditto", hparams=COMMON))
    assert part.rows == (
        ("All methods", "lr", "0.1*", "0.01"),
        ("All methods", "batch_size", "32*", "16"),
    )
    assert "same" not in part.caption


def test_a_value_that_differs_between_scenarios_names_them():
    part, _ = tables(
        run("fedprox", hparams={"mu": 0.01}),
        run("fedprox", partition="path:2", hparams={"mu": 0.5}),
        run("fedprox", partition="iid", hparams={"mu": 0.5}),
    )
    first, *others = (
        f"Digits, {name}, N=20" for name in ("Dirichlet 0.1", "2 classes per client", "IID")
    )
    assert part.rows == (("FedProx", "mu", f"0.01 ({first}); 0.5* ({', '.join(others)})", "0.01"),)


def test_a_default_may_depend_on_the_data_set():
    """PerFedAvg's alpha is 0.2 for CIFAR-10 and 0.01 for CIFAR-100."""
    first = run("perfedavg", dataset="cifar10", hparams={"alpha": 0.2})
    part, _ = tables(first, run("perfedavg", dataset="cifar100", hparams={"alpha": 0.01}))
    assert part.headers == ("Method", "Hyperparameter", "Value")
    assert "*" not in part.rows[0][2] + part.caption
    part, _ = tables(first, run("perfedavg", dataset="cifar100", hparams={"alpha": 0.2}))
    assert part.rows[0][2].startswith("0.2 (Digits") and "; 0.2* (Digits" in part.rows[0][2]
    assert part.rows[0][3] == "0.01"


def test_without_known_defaults_the_values_stay_and_nothing_is_marked():
    part, _ = tables(run("gone", hparams={"lr": 0.3, "fast": True, "end": None}))
    assert [row[1:] for row in part.rows] == [("lr", "0.3"), ("fast", "true"), ("end", "none")]
    assert "default" not in part.caption


def test_a_method_without_a_finished_run_has_no_row():
    part, _ = tables(run("fedavg", hparams=COMMON), run("ditto", status="failed", hparams=COMMON))
    assert {row[0] for row in part.rows} == {"FedAvg"}
