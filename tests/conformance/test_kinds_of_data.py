"""Every method on features and on tokens: it works, or says in one line why not."""

import numpy as np
import pytest

from pflbench.errors import UserError
from pflbench.methods import registry
from pflbench.testing import toy
from tests.factories.data_files import one_line
from tests.factories.kinds_of_data import CLIENTS, MODELS, npz

REFUSES = {("pefll", "tokens"): "takes no tokens; use --set embed=labels"}
READ_LAYERS = ["fedrcl", "feddbl", "fedcosr", "pfedfda", "fedamp", "pefll"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kinds")


def federation(folder, method, kind, hparams=None, **settings):
    dataset = npz(folder, kind)
    return toy(
        method, hparams, dataset=dataset, model=MODELS[kind], partition="natural", **settings
    )


@pytest.mark.parametrize("kind", ["features", "tokens"])
@pytest.mark.parametrize("method", registry.names())
def test_every_method_takes_them(folder, method, kind):
    if (method, kind) in REFUSES:
        with pytest.raises(UserError, match=REFUSES[method, kind]) as caught:
            federation(folder, method, kind)
        one_line(caught)
        return
    record, _ = federation(folder, method, kind, rounds=1).step()
    for accuracies in record["accuracy"].values():
        assert len(accuracies) == CLIENTS and np.isfinite(accuracies).all()


@pytest.mark.parametrize("method", READ_LAYERS)
def test_methods_that_read_layers_take_a_series_and_new_clients(folder, method):
    made = federation(folder, method, "series", rounds=2, new_clients=1)
    for _ in range(2):
        record, _ = made.step()
    assert {"pre", "new_pre", "new_1", "new_5"} <= set(record["accuracy"])


def test_pefll_describes_texts_by_their_labels(folder):
    made = federation(folder, "pefll", "tokens", {"embed": "labels"})
    assert np.isfinite(made.step()[0]["accuracy"]["pre"]).all()
