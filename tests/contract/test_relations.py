"""How algorithms relate to FedAvg, to plain training and to each other; what they send; users' own."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from noniid import algorithms, seeds
from noniid.algorithms import ALGORITHMS, Algorithm, Local
from noniid.algorithms.fedavg import FedAvg
from noniid.algorithms.fedprox import FedProx
from noniid.engine import ENGINES, Round, Task
from noniid.errors import BadInput
from noniid.optim import Adam
from noniid.rows import Layout
from noniid.split import Split
from tests.contract import problems
from tests.contract.problems import FAST
from tests.contract.variants import VARIANTS

CLOSE = {"rtol": 2e-4, "atol": 2e-5}
each_variant = pytest.mark.parametrize("text", VARIANTS)


@functools.cache
def _rounds(text: str, cohort: int | None = None) -> list[Round]:
    """Three rounds of one epoch, shared by the laws that only look at them."""
    return problems.run(ALGORITHMS.parse(text), problems.task(epochs=1), rounds=3, cohort=cohort)


def _w(algorithm: Algorithm, task: Task, **how: Any) -> Tensor:
    return problems.run(algorithm, task, **how)[-1].state.w


def _equal_split() -> Split:
    order = seeds.stream(0, "test split").permutation(120)
    return Split(tuple(order[start : start + 20] for start in range(0, 100, 20)))


# Knobs


@dataclass(frozen=True)
class Neutral:
    """How an algorithm is turned off, so that what is left is FedAvg."""

    knob: Mapping[str, Any]
    equal: bool = False  # between clients that hold and do the same amount: it does not weigh by size
    rounds: int = 2
    close: bool = False  # up to rounding only


PLAIN_SERVER = {"lr": 1.0, "beta1": 0.0, "tau": 1.0}
NEUTRAL: dict[str, Neutral] = {
    "fedavg": Neutral({}),
    "fedprox": Neutral({"mu": 0.0}),
    "scaffold": Neutral({}, rounds=1),  # all variates are equal at first, so nothing is corrected
    "fednova": Neutral({}, equal=True, close=True),  # equal clients take equally many steps
    "fedavgm": Neutral({"beta": 0.0}, close=True),
    "radfed": Neutral({"redistributions": 1}, equal=True, close=True),
    "radfed_p": Neutral({"redistributions": 1, "mu": 0.0}, equal=True, close=True),
    "radfed_m": Neutral({"redistributions": 1, "alpha": 1.0}, equal=True, close=True),
    "radfed_is": Neutral({"redistributions": 1}, equal=True, close=True),
    "rfedavg": Neutral({"lam": 0.0}),
    "rfedavg_plus": Neutral({"lam": 0.0}),
    "qfedavg": Neutral({"q": 0.0}, equal=True, close=True),
    "moon": Neutral({"mu": 0.0}),
    "fedbn": Neutral({}, rounds=1),  # on a model without BatchNorm: see below
}
# No value turns these off; what holds instead is tested below by name.
NEVER = {"fedadagrad", "fedadam", "fedyogi", "radfed_a", "fedasync", "feddyn", "local", "centralised"}


class NoNorm(nn.Module):
    """Without BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 12), nn.Linear(12, problems.NUM_CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.relu(self.first(x.flatten(1)))
        return self.last(features), features


@each_variant
def test_a_neutral_knob_gives_fedavg(text: str) -> None:
    name = text.partition("(")[0]
    if name in NEVER:
        return
    neutral = NEUTRAL[name]
    algorithm = replace(ALGORITHMS.parse(text), **neutral.knob)
    task = problems.task(NoNorm(), split=_equal_split() if neutral.equal else None)
    a, b = (_w(each, task, rounds=neutral.rounds) for each in (algorithm, FedAvg()))
    torch.testing.assert_close(a, b, **(CLOSE if neutral.close else {"rtol": 0, "atol": 0}))


def test_every_algorithm_says_how_it_is_turned_off() -> None:
    assert set(NEUTRAL) | NEVER == set(ALGORITHMS) and not set(NEUTRAL) & NEVER


@pytest.mark.parametrize("name", ["fedadagrad", "fedadam", "fedyogi", "radfed_a"])
def test_an_adaptive_server_that_adapts_to_nothing_steps_along_the_mean(name: str) -> None:
    """With tau far above sqrt(v) the step is lr/tau times the movement: FedAvg for lr = tau."""
    field = {"redistributions": 1} if name == "radfed_a" else {}
    algorithm = replace(ALGORITHMS.parse(name), lr=1e4, tau=1e4, beta1=0.0, **field)  # type: ignore[call-arg]
    task = problems.task(NoNorm(), split=_equal_split())
    torch.testing.assert_close(_w(algorithm, task, rounds=2), _w(FedAvg(), task, rounds=2), **CLOSE)


def test_fedasync_of_one_client_that_replaces_is_plain_training() -> None:
    task = problems.task(NoNorm(), split=Split((np.arange(60),)))
    replacing = algorithms.ALGORITHMS.parse("fedasync(1, rho=0, max_staleness=0)")
    torch.testing.assert_close(_w(replacing, task, rounds=3), _w(FedAvg(), task, rounds=3), **CLOSE)


def test_feddyns_first_round_goes_twice_as_far_as_the_mean() -> None:
    """Nothing is known yet: the clients' steps are FedAvg's for alpha to 0, and the server adds their mean once more."""
    task = problems.task(NoNorm(), split=_equal_split())
    start, mean = problems.initial(task), _w(FedAvg(), task, rounds=1)
    torch.testing.assert_close(_w(ALGORITHMS.parse("feddyn(1e-9)"), task, rounds=1), 2 * mean - start, **CLOSE)


def test_local_clients_are_each_a_fedavg_of_one() -> None:
    task = problems.task(NoNorm())
    own = problems.run(ALGORITHMS.parse("local"), task, rounds=2)[-1].state.memory["w"]
    for i, held in enumerate(task.split.indices):
        alone = replace(task, split=Split(tuple(held if k == i else task.split.indices[k] for k in range(5))))
        members = problems.run(OnlyClient(i), alone, rounds=2)[-1].state.w
        torch.testing.assert_close(own[i], members, **CLOSE)


@dataclass(frozen=True)
class OnlyClient(Algorithm):
    """FedAvg of one client out of all."""

    client: int = 0

    def pick(self, state: Any, federation: Any, rng: Any) -> Any:
        return algorithms.Pick(torch.tensor([self.client]), torch.zeros(1, dtype=torch.int64))


def test_centralised_is_fedavg_of_one_client_with_all_data() -> None:
    task = problems.task(NoNorm())
    together = replace(task, split=Split((np.concatenate(task.split.indices),)))
    assert torch.equal(_w(ALGORITHMS.parse("centralised"), task), _w(FedAvg(), together))


def test_no_two_variants_give_the_same_model() -> None:
    """Few of many clients, unequal, with momentum: wherever two values differ, the numbers do."""
    conditional = {  # named values that are heard only beside other values than the defaults
        "rfedavg": "rfedavg(0.5)", "rfedavg_plus": "rfedavg_plus(0.5)", "radfed": "radfed(2)",
        "radfed_p": "radfed_p(2)", "radfed_m": "radfed_m(2)", "radfed_a": "radfed_a(2, v_init=0.01)", "radfed_is": "radfed_is(2)",
        "fedasync": "fedasync(b=0)",
    }  # fmt: skip
    tested: dict[str, Tensor] = {}
    for text in VARIANTS:
        name = text.partition("(")[0]
        usual = ALGORITHMS.parse(name)
        spoken = {f: v for f, v in vars(ALGORITHMS.parse(text)).items() if v != getattr(usual, f)}
        algorithm = replace(ALGORITHMS.parse(conditional.get(name, name)), **spoken)
        tested[text] = algorithm.evaluated(problems.run(algorithm, problems.task(epochs=1), cohort=2)[-1].state)
    pairs = [(a, b) for a in tested for b in tested if a < b and tested[a].shape == tested[b].shape]
    assert not [(a, b) for a, b in pairs if torch.allclose(tested[a], tested[b], atol=1e-6)]


# One client


def _plainly(task: Task, rounds: int, mu: float) -> Tensor:
    """SGD on all data; with `mu`, held near the model the round began with."""
    net, layout, optim = copy.deepcopy(task.model), Layout.of(task.model), task.work.optim
    net.train()
    for t in range(1, rounds + 1):
        stepper = torch.optim.SGD(net.parameters(), optim.lr, optim.momentum, weight_decay=optim.weight_decay)
        anchor = [p.detach().clone() for p in net.parameters()]
        for x, y in task.batches(0, t):
            stepper.zero_grad()
            loss = F.cross_entropy(net(x)[0], y)
            if mu:
                gap = [(p - a).square().sum() for p, a in zip(net.parameters(), anchor, strict=True)]
                loss = loss + mu / 2 * torch.stack(gap).sum()
            loss.backward()
            stepper.step()
    return layout.pack(net)


# What makes a lone client of this algorithm plain training; the others change even a lone client's course.
ALONE: dict[str, Mapping[str, Any]] = {
    **{name: {} for name in ("fedavg", "fedprox", "scaffold", "fednova", "local", "centralised", "fedbn")},
    **{name: {"redistributions": 1} for name in ("radfed", "radfed_p", "radfed_is")},
    "radfed_m": {"redistributions": 1, "alpha": 1.0},
    "fedavgm": {"beta": 0.0},
    "rfedavg": {"itself": "excluded"},  # nobody else is there to be drawn to
    "rfedavg_plus": {"itself": "excluded"},
    "qfedavg": {"q": 0.0},
    "moon": {"mu": 0.0},
}


@each_variant
def test_one_client_is_centralised_sgd(text: str) -> None:
    name = text.partition("(")[0]
    if name not in ALONE:
        assert name in NEVER
        return
    algorithm = replace(ALGORITHMS.parse(text), **ALONE[name])
    task = problems.task(split=Split((np.arange(60),)))
    state = problems.run(algorithm, task, rounds=3)[-1]
    expected = _plainly(task, 3, getattr(algorithm, "mu", 0.0) if "prox" in name or name == "radfed_p" else 0.0)
    own = state.state.memory["own"][0] if name == "fedbn" else None
    trained = algorithm.evaluated(state.state).reshape(-1)
    if own is not None:  # its BatchNorm's values are kept with the client
        places = Layout.of(task.model).norm_places(task.model, "local")
        trained = trained.index_copy(0, places, own)
    torch.testing.assert_close(trained, expected, **CLOSE)


# Order


@each_variant
def test_the_clients_order_does_not_matter(text: str) -> None:
    """Full batches, so that the streams of batches, which belong to a client's number, order nothing."""
    if text.startswith(("fedasync", "radfed")):  # who trains what is drawn by number: order them otherwise, draw others
        return
    algorithm, split, order = ALGORITHMS.parse(text), problems.unequal_split(problems.dataset()), [3, 0, 4, 1, 2]
    permuted = Split(tuple(split.indices[i] for i in order))
    a, b = (problems.run(algorithm, problems.task(split=s, batch=1000), rounds=2)[-1].state for s in (split, permuted))
    torch.testing.assert_close(a.w, b.w, **CLOSE)
    for name, rows in a.memory.items():
        torch.testing.assert_close(rows[order], b.memory[name], **CLOSE)


# Memory, variates, bytes


@pytest.mark.parametrize("text", [t for t in VARIANTS if t.startswith("scaffold") and "random" not in t])
def test_scaffolds_c_is_the_mean_of_all_c_i(text: str) -> None:
    """From zero, and with the mean over all clients, whoever takes part; over the cohort only if all do."""
    for cohort in (None,) if "cohort" in text else (None, 2):
        for done in _rounds(text, cohort):
            c, memory = done.state.server["c"], done.state.memory["c"]
            torch.testing.assert_close(c, memory.mean(0), rtol=1e-3, atol=1e-4)


def test_scaffold_sharing_by_cohort_breaks_that_invariant() -> None:
    """The departure of the published code, so that the law above cannot hold by accident."""
    state = _rounds("scaffold(share=cohort)", 2)[-1].state
    assert not torch.allclose(state.server["c"], state.memory["c"].mean(0), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("text", ["feddyn(0.1)"])
def test_feddyns_h_is_the_mean_of_all_l(text: str) -> None:
    """Both add up what clients moved, so the server needs no more than the models."""
    for done in _rounds(text, 2):
        torch.testing.assert_close(done.state.server["h"], done.state.memory["l"].mean(0), rtol=1e-4, atol=1e-6)


@each_variant
def test_bytes_are_the_model_both_ways_and_what_travels_with_it(text: str) -> None:
    name, task = text.partition("(")[0], problems.task()
    values, own = Layout.of(task.model).size, len(Layout.of(task.model).norm_places(task.model, "local"))
    features, clients = 108, 5
    down, up = {
        "scaffold": (2 * values, 2 * values),
        "radfed_is": (values, values + 1),
        "rfedavg": (values + clients * features, values + features),
        "rfedavg_plus": (2 * values + features, values + features),
        "fedbn": (values - own, values - own),
        "local": (0, 0),
        "centralised": (0, 0),
    }.get(name, (values, values))
    assert _rounds(text, 2)[0].bytes_per_client == 4 * (down + up)


# An algorithm of one's own


@dataclass(frozen=True)
class Prox(Algorithm):
    mu: float = 0.01

    def grad(self, g: Tensor, local: Local) -> Tensor:
        return g + self.mu * (local.w - local.start)


@dataclass(frozen=True)
class Clipped(Algorithm):
    """Label smoothing, and steps that stay in a box: `loss` and `after`."""

    most: float = 0.05
    smooth: float = 0.1

    def loss(self, out: Any, batch: Any, local: Local) -> Tensor:
        return F.cross_entropy(out.logits, batch.y, label_smoothing=self.smooth)

    def after(self, w: Tensor, local: Local) -> Tensor:
        return local.start + (w - local.start).clamp(-self.most, self.most)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_algorithm_of_ones_own_works_through_the_engines(engine: str) -> None:
    own = ALGORITHMS.parse(f"{__name__}:Prox(0.5)")
    assert own == Prox(0.5)
    built_in = _w(FedProx(0.5), problems.task(), engine=engine)
    torch.testing.assert_close(_w(own, problems.task(), engine=engine), built_in, **CLOSE)


@pytest.mark.parametrize("engine", FAST)
def test_loss_and_after_of_ones_own_are_heard_by_all_engines(engine: str) -> None:
    task = problems.task()
    a, b = (_w(Clipped(), task, rounds=1, engine=each) for each in (engine, "reference"))
    torch.testing.assert_close(a, b, **CLOSE)
    trainable = Layout.of(task.model).num_trainable
    assert float((a - problems.initial(task))[:trainable].abs().max()) <= 0.05 + 1e-6
    assert not torch.allclose(a, _w(replace(Clipped(), smooth=0.0), task, rounds=1, engine=engine))


class LogitsOnly(nn.Module):
    """A model of one's own that gives no features."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, problems.NUM_CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1))


@each_variant
def test_a_model_that_gives_only_logits_will_do_unless_features_are_compared(text: str) -> None:
    task, algorithm = problems.task(LogitsOnly(), epochs=1), ALGORITHMS.parse(text)
    if text.startswith(("moon", "rfedavg")):
        with pytest.raises(BadInput, match=r"compares features, and the model gives only logits"):
            problems.run(algorithm, task, rounds=1)
        return
    done = problems.run(algorithm, task, rounds=1)[-1].state
    assert float((algorithm.evaluated(done) - problems.initial(task)).norm()) > 0


# Waves


def test_fedasync_trains_a_round_in_as_few_waves_as_it_can() -> None:
    """A wave ends with its round, or before an arrival whose version it makes, or whose client it already has."""
    algorithm = ALGORITHMS.parse("fedasync(max_staleness=3)")
    seen: list[tuple[int, list[tuple[int, int]]]] = []  # the round, then client and staleness of each arrival

    def update(self: Algorithm, state: Any, wave: Any) -> Any:
        seen.append((state.round, list(zip(wave.ids.tolist(), wave.staleness.tolist(), strict=True))))
        return type(algorithm).update(self, state, wave)

    watched = type("Watched", (type(algorithm),), {"update": update})(max_staleness=3)
    rounds = problems.run(watched, problems.task(epochs=1), rounds=4, cohort=4)
    assert sum(len(wave) for _, wave in seen) == 16 and int(rounds[-1].state.server["arrived"]) == 16
    assert len(seen) > 4  # some round needed more than one wave
    for (number, wave), (following, after) in itertools.pairwise(seen):
        assert all(staleness >= k for k, (_, staleness) in enumerate(wave))
        clients = [client for client, _ in wave]
        assert len(set(clients)) == len(clients)
        if number == following:
            client, staleness = after[0]
            assert staleness < len(wave) or client in clients


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fedavgm(1)", "beta is 1"), ("fedadam(-1)", "lr >= 0"), ("fedadam(beta2=1)", "beta2 is 1"),
        ("fedasync(0)", "alpha is 0"), ("fedasync(max_staleness=-1)", "max_staleness is -1"), ("fedasync(rho=-1)", "rho"),
        ("radfed(0)", "redistributions is 0"), ("radfed_m(alpha=2)", "alpha is 2"), ("radfed_is(gamma=2)", "gamma is 2"),
        ("radfed_p(mu=-1)", "mu is -1"), ("radfed_a(tau=0)", "tau > 0"), ("rfedavg(-1)", "lam >= 0"),
        ("qfedavg(-1)", "q is -1"), ("feddyn(0)", "alpha is 0"), ("moon(temperature=0)", "temperature above 0"),
    ],
)  # fmt: skip
def test_a_knob_outside_its_range_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        problems.run(ALGORITHMS.parse(text), problems.task(), rounds=1)


@pytest.mark.parametrize("text", ["fednova", "scaffold"])
@pytest.mark.parametrize(
    ("work", "sentence"),
    [
        ({"optim": Adam()}, "with adam nobody knows"),
        ({"keep_optim": True}, "keep their state from round to round, so nobody knows"),
    ],
)
def test_who_divides_by_effective_steps_must_know_them(text: str, work: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        problems.run(ALGORITHMS.parse(text), problems.task(**work), rounds=1)
    by_count = {"fednova": "fednova(count)", "scaffold": "scaffold(correct=after-step)"}[text]
    problems.run(ALGORITHMS.parse(by_count), problems.task(**work), rounds=1)


def test_radfed_refuses_a_cohort_that_changes() -> None:
    algorithm = ALGORITHMS.parse("radfed(4)")
    state = problems.run(algorithm, problems.task(epochs=1), rounds=1, cohort=3)[-1].state
    with pytest.raises(BadInput, match="3 models are in flight and 2 clients take part"):
        problems.run(algorithm, problems.task(epochs=1), rounds=2, cohort=2, state=state)
