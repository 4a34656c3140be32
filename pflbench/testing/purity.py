"""Checks of the functions of a method: they read their arguments, return new values and keep
nothing.
"""

import torch
from torch import Tensor

from pflbench.simulation.federation import Federation
from pflbench.testing import watch
from pflbench.testing.compare import difference, shared_storage, tensors
from pflbench.testing.kit import Failed, check
from pflbench.testing.subject import PARTIAL, Backwards, Played, Subject, evaluation_messages, play


@check
def messages_are_tensors(subject: Subject) -> None:
    """Messages and states are dicts whose leaves are tensors; downloads are keyed by exactly the
    ids asked for.
    """
    _no_violation(subject, watch.LEAF, "")


@check
def messages_not_mutated(subject: Subject) -> None:
    """No function edits its arguments (messages, replies, states, models) in place."""
    _no_violation(
        subject,
        watch.ARGUMENT,
        "return new values, as p + d or p.clone(), not p.add_(d) or x[i] = ...",
    )


@check
def no_state_on_self(subject: Subject) -> None:
    """No function leaves anything on self, its class or its module: workers and resumed runs would
    not have it.
    """
    _no_violation(subject, watch.SELF, "return it in the server's or the client's state instead")


@check
def no_global_random_generator(subject: Subject) -> None:
    """No function draws from a global random generator, and other global seeds change nothing."""
    advice = "draw from client.generator(name) or self.task.generator(name)"
    again = _no_violation(subject, watch.GENERATOR, advice)
    if difference(subject.reference.all, again.all) and _repeats_itself(subject):
        _same(subject.reference.all, again.all, "two runs with different global seeds", advice)


@check
def deterministic(subject: Subject) -> None:
    """The same run twice gives the same bits."""
    advice = "look for clocks, hash orders, object ids, or values kept from an earlier run"
    _same(subject.reference.all, subject.once_more().all, "the same run, done twice", advice)


@check
def client_order_irrelevant(subject: Subject) -> None:
    """The order of clients does not matter, nor whether a client is asked for alone."""
    advice = "key everything by client id, never by position, and sum in ascending id"
    for settings, base in (({}, subject.reference), (PARTIAL, subject.partial)):
        setup = watch.shuffled(subject.setup(**settings))
        other = play(Federation(setup, Backwards(setup)))
        _same(base.all, other.all, "runs with the clients in another order", advice)
    federation = subject.partial.federation
    together, alone = (
        evaluation_messages(federation, ids)[1]
        for ids in (tuple(range(federation.run.clients)), (1,))
    )
    expected = dict(tensors(together))
    for path, sent in tensors(alone):
        usual = expected.get(path)
        if usual is None or sent.shape != usual.shape or not _close(sent, usual):
            raise Failed(
                f"client 1 is sent a different '{path}' when it is asked for alone; {advice}"
            )


@check
def evaluation_is_pure(subject: Subject) -> None:
    """Evaluating every round, at the end only, or twice, gives the same models and scores."""
    advice = "download(), evaluation_messages(), personal_model(), extra_models() and predict() must only read"
    every, federation = subject.reference, subject.federation(eval_every=3)
    rare = play(federation)
    _same(every.servers, rare.servers, "the servers with and without evaluation", advice)
    _same(every.states, rare.states, "the clients with and without evaluation", advice)
    _same(
        every.records[-1],
        rare.records[-1],
        "the last records with and without earlier evaluation",
        advice,
    )
    _same(
        federation.evaluation(),
        federation.evaluation(),
        "two evaluations of the same models",
        advice,
    )


@check
def private_state_not_aliased(subject: Subject) -> None:
    """After a round, server and clients hold no tensor in common."""
    federation = subject.reference.federation
    clients = {f"client {id}'s state": state for id, state in federation.states.items()}
    if found := shared_storage({"the server's state": federation.server, **clients}):
        raise Failed(
            f"{found}: what one changes, the other sees without a message; send it, so that the harness copies it"
        )


def _no_violation(subject: Subject, kind: str, advice: str) -> Played:
    """The watched run, in which nothing of this kind was seen."""
    violations, end = subject.seen
    if found := violations.found.get(kind):
        more = f" (and {len(found) - 1} more places)" if len(found) > 1 else ""
        error = end if isinstance(end, Exception) else None  # that comes of it
        raise Failed(f"{found[0]}{more}{'; ' if advice else ''}{advice}") from error
    if isinstance(end, Exception):
        raise end
    return end


def _repeats_itself(subject: Subject) -> bool:
    """Whether the same run is the same again, so that seeds are all that a difference can be of."""
    return difference(subject.reference.all, subject.once_more().all) is None


def _close(first: Tensor, second: Tensor) -> bool:
    """Equal but for rounding: products of other shapes may round otherwise."""
    return torch.allclose(first.double(), second.double(), rtol=1e-4, atol=1e-6, equal_nan=True)


def _same(first: object, second: object, what: str, advice: str) -> None:
    if found := difference(first, second):
        raise Failed(f"{what} differ: {found}; {advice}")
