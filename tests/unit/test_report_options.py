"""What an experiment says of its report is checked, kept in its plan, and overridden by options."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from pflbench.errors import UserError
from pflbench.records import plan, published, report_options
from pflbench.records.published import Number, Numbers
from pflbench.records.report_options import FigureOptions, ReportOptions, Titles
from pflbench.sweep import experiment

ROOT = Path(__file__).resolve().parents[2]
TOML = """
algorithms = ["fedavg", "ditto"]
rounds = 1
proposed = "ditto"
published = "numbers/theirs.csv"

[report]
methods = ["ditto", "fedavg"]
scenarios = ["digits path:*"]
caption = "Accuracy on digits."
label = "tab:mine"
decimals = 1
rows = ["majority"]
marks = []
std = "clients"
style = "fedcosr"
titles.methods.ditto = "Ditto (ours)"
titles.partitions."path:2" = "two classes"

[report.figures]
methods = ["ditto"]
size = "one-column"
template = "icml"
"""
CSV = "method,scenario,accuracy,std,source\nFedAvg,digits iid,90.5,0.3,Them 2020\nDitto,x,,,\n"


@pytest.fixture
def made(tmp_path):
    (tmp_path / "numbers").mkdir()
    (tmp_path / "numbers" / "theirs.csv").write_text(CSV)
    (tmp_path / "mine.toml").write_text(TOML)
    return experiment.make("mine", experiment.read(str(tmp_path / "mine.toml")))


def test_the_page_on_reports_shows_every_key_and_all_are_read(tmp_path):
    page = (ROOT / "docs/report.md").read_text(encoding="utf-8")
    table = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])
    (tmp_path / "numbers.csv").write_text(CSV)
    shown = {**table["report"], **table, "published": str(tmp_path / "numbers.csv")}
    assert shown.keys() - {"report"} == {f.name for f in dataclasses.fields(ReportOptions)}
    report_options.of_experiment("mine", {**table, "published": shown["published"]})


def test_a_plan_keeps_all_that_the_file_says(made, tmp_path):
    made.write(tmp_path)
    (tmp_path / "numbers" / "theirs.csv").unlink()  # the numbers are in the plan
    (stored,) = plan.read(tmp_path)
    assert stored.report == ReportOptions(
        proposed="ditto",
        methods=("ditto", "fedavg"),
        scenarios=("digits path:*",),
        titles=Titles(methods={"ditto": "Ditto (ours)"}, partitions={"path:2": "two classes"}),
        caption="Accuracy on digits.",
        label="tab:mine",
        decimals=1,
        rows=("majority",),
        marks=(),
        std="clients",
        style="fedcosr",
        published=(Numbers("theirs", (Number("FedAvg", "digits iid", 90.5, 0.3, "Them 2020"),)),),
        figures=FigureOptions(("ditto",), "one-column", "icml"),
    )


def test_a_plan_without_options_has_the_defaults(tmp_path):
    experiment.make("mine", {"algorithms": ["fedavg"]}).write(tmp_path)
    assert plan.read(tmp_path)[0].report == ReportOptions()


def test_what_is_given_wins_and_titles_are_added(made):
    given = {"std": "seeds", "titles": {"methods": {"fedavg": "Baseline"}}, "rows": []}
    found = made.report.with_(given, "the options")
    titles = {"ditto": "Ditto (ours)", "fedavg": "Baseline"}
    expected = dataclasses.replace(
        made.report,
        std="seeds",
        rows=(),
        titles=dataclasses.replace(made.report.titles, methods=titles),
    )
    assert found == expected


@pytest.mark.parametrize("key", ["proposed", "methods", "figures"])
def test_a_method_that_nobody_knows_is_warned_of_before_the_sweep(key):
    tables = {"methods": {"report": {"methods": ["apfll"]}}, "proposed": {"proposed": "apfll"}}
    tables["figures"] = {"report": {"figures": {"methods": ["apfll"]}}}
    with pytest.warns(UserWarning, match="names 'apfll', which is not one of its methods: fedavg"):
        experiment.make("mine", {"algorithms": ["fedavg"], **tables[key]})


def test_a_method_that_was_left_out_is_not_warned_of(recwarn):
    experiment.make("mine", {"algorithms": ["fedavg"], "proposed": "Ditto"})
    assert not recwarn.list


@pytest.mark.parametrize(
    ("size", "template", "width"),
    [("", "ieee", None), ("one-column", "ieee", 3.5), ("two-column", "icml", 6.75)],
)
def test_the_width_of_figures_is_that_of_the_template(size, template, width):
    assert FigureOptions(size=size, template=template).width == width


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"report": {"captions": "x"}}, r"unknown key of \[report\] of experiment mine 'captions'"),
        ({"report": 3}, r"\[report\] of experiment mine must be a table, not 3"),
        ({"proposed": 3}, "proposed = 3 in experiment mine: must be a text"),
        ({"proposed": "a", "report": {"proposed": "b"}}, "has proposed twice"),
        ({"report": {"decimals": 9}}, "decimals = 9 .* must be a number from 0 to 6"),
        ({"report": {"std": "runs"}}, "std = 'runs' .* must be one of 'seeds', 'clients'"),
        ({"report": {"rows": ["max"]}}, "rows = 'max' .* must be one of 'mean', 'majority'"),
        ({"report": {"marks": ["star"]}}, "marks = 'star' .* 'ranks', 'arrows', 'base'"),
        ({"report": {"methods": 3}}, "methods = 3 .* must be a list of texts"),
        ({"report": {"label": "a b"}}, "label = 'a b' .* letters, digits"),
        ({"report": {"titles": {"method": {}}}}, r"unknown key of \[report.titles\].* 'method'"),
        ({"report": {"titles": {"methods": "x"}}}, "must be a table of titles by name"),
        ({"report": {"figures": {"size": "A4"}}}, "size = 'A4' .* 'one-column', 'two-column'"),
        ({"report": {"figures": {"template": "x"}}}, "template = 'x' .* must be one of 'aaai'"),
        ({"published": 3}, "published = 3 in experiment mine: must be a CSV file or a name"),
    ],
)
def test_a_mistake_is_told_in_one_line(table, message):
    with pytest.raises(UserError, match=message) as caught:
        experiment.make("mine", {"algorithms": ["fedavg"], **table})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method,accuracy\nA,1\n", "has no column 'scenario'; its columns must be method, scen"),
        ("method,scenario,accuracy\nA,x,good\n", "line 2: accuracy 'good' is no number"),
        ("method,scenario,accuracy\nA,x,nan\n", "line 2: accuracy 'nan' is no number"),
        ("method,scenario,accuracy,std\nA,x,1,y\n", "line 2: std 'y' is no number"),
        ("method,scenario,accuracy\nA,x,1\nA,x,2\n", "has A in 'x' twice"),
    ],
)
def test_a_mistake_in_published_numbers_is_told_in_one_line(tmp_path, text, message):
    (tmp_path / "n.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        published.read_csv(tmp_path / "n.csv")


def test_published_numbers_that_are_not_there_are_told_in_one_line(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*n\.csv: No such file"):
        ReportOptions().with_({"published": str(tmp_path / "n.csv")}, "the options")


@pytest.mark.parametrize(
    "numbers",
    [
        3,
        {"name": "x"},
        {"name": "x", "lines": [["a", "b"]]},
        {"name": "x", "lines": [["a", "b", "c"]]},
        {"name": "x", "lines": [["a", "b", 1.0, float("nan")]]},
        {"name": "x", "lines": 3},
    ],
)
def test_numbers_that_a_plan_cannot_have_are_told_in_one_line(numbers):
    with pytest.raises(UserError, match=r"published = .* must be a CSV file or a name"):
        report_options.read({"published": [numbers]}, "a plan")


def test_a_plan_does_not_make_a_report_read_other_files(tmp_path):
    (tmp_path / "secret.csv").write_text(CSV)
    given = str(tmp_path / "secret.csv")
    assert report_options.read({"published": given}, "a plan").published == (given,)
