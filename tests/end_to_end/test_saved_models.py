"""Models that stay: they score what the record says, and a longer run goes on from them."""

import io
import json
import shutil

import pytest
import torch

import pflbench
from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.records.run_folder import checksum
from pflbench.testing import TOY
from tests.end_to_end.commands import SMALL

SETTINGS = {**TOY, "participation": 0.75, "rounds": 2, "validation": 0.2, "save_models": True}


def files(folder):
    """The numbers of a run and its saved state, by name."""
    found = {"rounds.jsonl": (folder / "rounds.jsonl").read_bytes()}
    return found | {path.name: path.read_bytes() for path in (folder / "models").iterdir()}


def last_record(folder):
    return json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])


def assert_models_score_what_the_record_says(run):
    recorded = last_record(run.folder)["accuracy"]
    assert "pre" in recorded
    for series, accuracies in recorded.items():
        part = "validation" if series.endswith("_validation") else "test"
        for client, accuracy in enumerate(accuracies):
            x, y = run.samples(client, part)
            model = run.model(client, series.removesuffix("_validation"))
            assert len(y) == 0 or model.accuracy(x, y) == accuracy, (series, client)


@pytest.mark.parametrize("method", registry.names())
def test_models_score_what_the_record_says_and_a_longer_run_goes_on_from_them(method, tmp_path):
    shorter = pflbench.run(method, out=tmp_path / "a", **{**SETTINGS, "rounds": 1})
    longer = pflbench.run(method, out=tmp_path / "a", **SETTINGS)
    whole = pflbench.run(method, out=tmp_path / "b", **SETTINGS)
    assert longer.about["extended_from"] == {"id": shorter.folder.name, "round": 1}
    assert files(longer.folder) == files(whole.folder)
    assert_models_score_what_the_record_says(pflbench.load(longer.folder))


# tests/unit/test_keep_optimizer.py sees that every method goes on from a snapshot with optimizers.
@pytest.mark.parametrize("method", ["ditto", "fedrep", "fedcosr"])
def test_a_longer_run_goes_on_with_the_optimizers_that_clients_keep(method, tmp_path):
    keep = {**SETTINGS, "hparams": {"optimizer": "adam", "keep_optimizer": True}}
    shorter = pflbench.run(method, out=tmp_path / "a", **{**keep, "rounds": 1})
    longer = pflbench.run(method, out=tmp_path / "a", **keep)
    whole = pflbench.run(method, out=tmp_path / "b", **keep)
    assert longer.about["extended_from"] == {"id": shorter.folder.name, "round": 1}
    assert files(longer.folder) == files(whole.folder)


def test_saved_models_are_the_same_bytes_for_any_workers_and_memory(tmp_path):
    settings = {**SETTINGS, "rounds": 3, "participation": 0.5, "checkpoint_every": 1}
    one = pflbench.run("ditto", out=tmp_path / "one", **settings)
    two = pflbench.run("ditto", out=tmp_path / "two", workers=2, state_memory=0.0, **settings)
    assert files(one.folder) == files(two.folder)
    assert not (two.folder / "states").exists() and not list(two.folder.glob("checkpoint-*"))


def test_a_longer_run_goes_on_with_options_of_training_and_two_workers(tmp_path):
    momentum = {"lr": 0.1, "local_momentum": 0.9, "keep_optimizer": True}
    schedule = {"schedule": "cosine", "schedule_rounds": 3}
    hparams = {**momentum, **schedule, "augment": "flip+crop", "crop_padding": 2}
    settings = {**SETTINGS, "hparams": hparams}
    pflbench.run("ditto", out=tmp_path / "a", **{**settings, "rounds": 2})
    longer = pflbench.run("ditto", out=tmp_path / "a", **{**settings, "rounds": 4}, workers=2)
    whole = pflbench.run("ditto", out=tmp_path / "b", **{**settings, "rounds": 4})
    assert longer.about["extended_from"]["round"] == 2
    assert files(longer.folder) == files(whole.folder)


def test_saving_models_changes_no_number_and_no_id(tmp_path):
    plain = pflbench.run("apfl", out=tmp_path / "plain", **{**SETTINGS, "save_models": False})
    saved = pflbench.run("apfl", out=tmp_path / "saved", **SETTINGS)
    assert plain.folder.name == saved.folder.name
    numbers = [(run.folder / "rounds.jsonl").read_bytes() for run in (plain, saved)]
    assert numbers[0] == numbers[1]
    assert not (plain.folder / "models").exists()
    with pytest.raises(UserError, match="has no models; a run keeps them with --save-models"):
        plain.model(0)


def test_a_longer_run_that_is_interrupted_resumes_from_its_own_records(tmp_path):
    def stop(record, timing):
        if record["round"] == 2:
            raise KeyboardInterrupt

    shorter = pflbench.run("ditto", out=tmp_path / "a", **{**SETTINGS, "rounds": 1})
    with pytest.raises(KeyboardInterrupt):
        pflbench.run("ditto", out=tmp_path / "a", watch=stop, **{**SETTINGS, "rounds": 3})
    shutil.rmtree(shorter.folder)
    longer = pflbench.run("ditto", out=tmp_path / "a", **{**SETTINGS, "rounds": 3})
    whole = pflbench.run("ditto", out=tmp_path / "b", **{**SETTINGS, "rounds": 3})
    assert files(longer.folder) == files(whole.folder)


@pytest.mark.parametrize("changes", [{"fresh": True}, {"seed": 1}, {"hparams": {"lr": 0.02}}])
def test_a_run_starts_anew_that_is_asked_to_or_differs_in_more_than_the_rounds(changes, tmp_path):
    pflbench.run("fedavg", out=tmp_path, **{**SETTINGS, "rounds": 1})
    longer = pflbench.run("fedavg", out=tmp_path, **{**SETTINGS, **changes})
    assert "extended_from" not in longer.about


def test_a_run_whose_last_evaluation_a_longer_one_does_not_have_is_not_gone_on_from(tmp_path):
    settings = {**SETTINGS, "eval_every": 2, "rounds": 4}
    pflbench.run("fedavg", out=tmp_path / "a", **{**settings, "rounds": 2})
    pflbench.run("fedavg", out=tmp_path / "a", **{**settings, "rounds": 3})
    with pytest.warns(UserWarning, match="it was evaluated after round 3, its last"):
        longer = pflbench.run("fedavg", out=tmp_path / "a", **settings)
    assert longer.about["extended_from"]["round"] == 2
    whole = pflbench.run("fedavg", out=tmp_path / "b", **settings)
    assert files(longer.folder) == files(whole.folder)


def test_models_that_were_changed_are_refused_and_not_gone_on_from(tmp_path, call):
    run = pflbench.run("ditto", out=tmp_path, **{**SETTINGS, "rounds": 1})
    changed = next((run.folder / "models").glob("0*.pt"))
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match=f"{changed.name} was changed after the run had ended"):
        pflbench.load(run.folder).model(int(changed.name[:6]))
    code, _, err = call("verify", str(tmp_path))
    assert code == 1 and f"{changed.name} was changed" in err
    with pytest.warns(UserWarning, match="cannot go on from"):
        assert "extended_from" not in pflbench.run("ditto", out=tmp_path, **SETTINGS).about


def test_a_file_of_models_with_code_in_it_is_refused(tmp_path):
    class Harm:
        def __reduce__(self):
            return (tmp_path / "harm").touch, ()

    run = pflbench.run("fedavg", out=tmp_path, **SETTINGS)
    content = io.BytesIO()
    torch.save({"server": Harm()}, content)
    name = f"server-{checksum(content.getvalue())}.pt"
    (run.folder / "models" / name).write_bytes(content.getvalue())
    status = json.loads((run.folder / "status.json").read_text())
    (run.folder / "status.json").write_text(json.dumps({**status, "models": name}))
    with pytest.raises(UserError, match=f"cannot read .*{name}") as caught:
        pflbench.load(run.folder).model(0)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "harm").exists()


def test_the_command_line_says_what_a_run_goes_on_from_and_what_has_no_models(tmp_path, call):
    words = ("run", "fedavg", *SMALL, "--out", str(tmp_path), "--save-models")
    assert call(*words, "--rounds", "1")[0] == 0
    (shorter,) = tmp_path.glob("fedavg-*")
    code, out, err = call(*words, "--rounds", "2")
    assert (code, err) == (0, "")
    assert out.startswith(f"going on from {shorter}, which has 1 round\n")
    call(*words[:-1], "--rounds", "3")
    code, out, err = call(*words, "--rounds", "3")
    assert code == 0 and out.startswith("already finished: ")
    assert "finished without --save-models; --fresh runs it again" in err
