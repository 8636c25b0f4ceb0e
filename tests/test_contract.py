"""Requirements on every method in METHODS; a new entry is covered automatically."""

import copy
import math
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.methods.problems import (
    QUICK,
    batches,
    blobs,
    build,
    noisy_accuracy,
    perceptron,
    same,
    saved_and_loaded,
    setup_for,
    train,
    weights,
)
from tnlpad.core.decomposition import Decomposition
from tnlpad.methods import METHODS, Setup
from tnlpad.methods.protocol import end_epoch, phase_of
from tnlpad.types import Batch, Clock

every_method = pytest.mark.parametrize("name", METHODS)

SEMI_SUPERVISED = {"self", "self+tnlpad", "dividemix", "dividemix+tnlpad"}
TWO_NETWORKS = {"coteaching", "coteaching_plus", "jocor", "cnlcu", "cnlcu_hard"}
BUILDS = dict.fromkeys([*TWO_NETWORKS, "dividemix", "dividemix+tnlpad"], (0, 1))
BUILDS |= dict.fromkeys(["self", "self+tnlpad"], (0, 0))  # the teacher starts with the student's weights
NEED_NO_RATE = {"standard", "standard_2x", "adacorr", "tnlpad", *SEMI_SUPERVISED}


def test_the_whole_table_was_covered():
    assert len(METHODS) == 15
    assert set(METHODS) > TWO_NETWORKS | NEED_NO_RATE
    assert set(QUICK) <= set(METHODS)


@every_method
def test_its_settings_are_frozen_and_named(name):
    config = METHODS[name].config
    assert is_dataclass(config)
    assert config.__dataclass_params__.frozen
    assert all(field.kw_only for field in fields(config))
    assert all(type(field.default) in (int, float, str, bool, type(None)) for field in fields(config))


@every_method
def test_it_says_which_networks_to_judge(name):
    method = build(name, setup_for(blobs()))
    expected = ("first", "second") if name in TWO_NETWORKS else None
    assert expected is None or tuple(method.reported) == expected
    assert set(method.reported) <= set(method.judged)
    for view in method.judged.values():
        with view() as network:
            assert isinstance(network, nn.Module)


@every_method
def test_the_networks_that_a_method_builds(name):
    asked = []

    def network(k):
        asked.append(k)
        return perceptron(k)

    build(name, setup_for(blobs(), network=network))
    assert tuple(asked) == BUILDS.get(name, (0,))


@every_method
def test_a_step_changes_every_parameter(name):
    problem = blobs()
    method = build(name, setup_for(problem))
    clock = Clock(epoch=1, epochs=8)
    method.begin_epoch(clock)
    before = weights(method)
    method.step(batches(problem, 1)[0], clock)
    assert all(not torch.equal(a, b) for a, b in zip(before, weights(method), strict=True))


@every_method
def test_the_loss_is_a_detached_scalar(name):
    problem = blobs()
    method = build(name, setup_for(problem))
    for epoch in range(1, 6):
        clock = Clock(epoch=epoch, epochs=8)
        method.begin_epoch(clock)
        for batch in batches(problem, epoch):
            loss = method.step(batch, clock)
            assert isinstance(loss, Tensor)
            assert loss.shape == ()
            assert not loss.requires_grad
            assert loss.device == batch.images.device
            assert loss.isfinite()


@every_method
def test_the_same_seed_gives_the_same_curve(name):
    problem = blobs()
    curves = [train(build(name, setup_for(problem, seed=seed)), problem, 4) for seed in (1, 1, 2)]
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


@every_method
def test_it_touches_no_global_random_generator(name):
    problem = blobs()
    setup = setup_for(problem)
    before = torch.get_rng_state()
    train(build(name, setup), problem, 1)
    assert torch.equal(before, torch.get_rng_state())


@every_method
@pytest.mark.parametrize("after", [1, 3, 5])
def test_a_reloaded_run_continues_bit_for_bit(name, after):
    problem = blobs()
    method = build(name, setup_for(problem))
    train(method, problem, after)
    state = saved_and_loaded(method.state_dict())
    expected = train(method, problem, range(after + 1, 8))
    fresh = build(name, setup_for(problem, seed=9))
    fresh.load_state_dict(state)
    assert train(fresh, problem, range(after + 1, 8)) == expected
    assert same(weights(fresh), weights(method))
    for selection in method.selections:
        assert torch.equal(fresh.selections[selection], method.selections[selection])


@every_method
def test_a_run_reloaded_within_an_epoch_continues_bit_for_bit(name):
    problem = blobs()
    method = build(name, setup_for(problem))
    train(method, problem, 5)
    clock, (first, *rest) = Clock(epoch=6, epochs=8), batches(problem, 6)
    method.begin_epoch(clock)
    method.step(first, clock)
    fresh = build(name, setup_for(problem, seed=9))
    fresh.load_state_dict(saved_and_loaded(method.state_dict()))
    for batch in rest:
        assert torch.equal(method.step(batch, clock), fresh.step(batch, clock))
    assert same(weights(fresh), weights(method))
    for selection in method.selections:
        assert torch.equal(fresh.selections[selection], method.selections[selection])
    own = {key: value for key, value in vars(method).items() if isinstance(value, Tensor)}
    assert all(torch.equal(value, getattr(fresh, key)) for key, value in own.items())


@every_method
def test_loading_writes_in_place(name):
    """A captured graph refers to tensors by address."""
    problem = blobs()
    method = build(name, setup_for(problem))
    train(method, problem, 2)
    addresses = [tensor.data_ptr() for tensor in reachable_tensors(method)]
    # Loading replaces the momentum tensors of the decomposition's parts.
    decompositions = [each for each in method.optimizers if isinstance(each, Decomposition)]
    assert bool(decompositions) == name.endswith("tnlpad")
    parts = [buffers for each in decompositions for buffers in each.base.state.values()]
    replaced = [buffers["momentum_buffer"].data_ptr() for buffers in parts]
    assert len(addresses) > len(replaced) + 5
    state = copy.deepcopy(method.state_dict())
    train(method, problem, range(3, 5))
    method.load_state_dict(state)
    known = {tensor.data_ptr() for tensor in reachable_tensors(method)}
    assert set(addresses) - set(replaced) <= known


@every_method
def test_judging_leaves_the_weights_as_they_were(name):
    problem = blobs()
    method, twin = (build(name, setup_for(problem)) for _ in range(2))
    for epoch in (1, 2, 3):
        train(method, problem, range(epoch, epoch + 1))
        train(twin, problem, range(epoch, epoch + 1))
        before = weights(method)
        for view in method.judged.values():
            with view() as network:
                network.eval()
                network(problem.test_points)
        assert same(weights(method), before)
    assert same(weights(method), weights(twin))


def reachable_tensors(root):
    """Return every tensor that can be reached from a method, including through closures."""
    found, open_ends, known = [], [root], set()
    while open_ends:
        value = open_ends.pop()
        if id(value) in known or isinstance(value, (str, bytes, int, float, type)):
            continue
        known.add(id(value))
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, dict):
            open_ends += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set)):
            open_ends += value
        else:
            open_ends += vars(value).values() if hasattr(value, "__dict__") else []
            open_ends += [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    return found


def test_setup_and_batch_have_no_field_for_clean_labels():
    names = ["network", "sgd", "labels", "num_classes", "epochs", "noise_rate", "generator", "source"]
    assert [field.name for field in fields(Setup)] == [*names, "working_dtype"]
    assert [field.name for field in fields(Batch)] == ["index", "images", "labels"]


@every_method
def test_clean_labels_are_out_of_reach(name):
    problem = blobs()
    assert not torch.equal(problem.clean, problem.given)
    setup = setup_for(problem, network=perceptron)
    method = build(name, setup)
    train(method, problem, 1)
    held = [tensor for tensor in reachable_tensors(method) if tensor.shape == problem.clean.shape]
    assert not any(torch.equal(tensor, problem.clean) for tensor in held)
    assert torch.equal(setup.labels, problem.given)
    # The search finds a hidden tensor.
    method.hidden = {"deep": [lambda: problem.clean]}
    assert any(tensor is problem.clean for tensor in reachable_tensors(method))


@every_method
@pytest.mark.parametrize("size", [1, 2, 30])
def test_short_batches(name, size):
    """256 samples in batches of 30 leave 16; BatchNorm cannot normalise a batch of one, see `forward`."""
    problem = blobs(samples=16 if size < 3 else 256)
    for batchnorm in (False, True):
        # A small learning rate: a third of the labels are wrong, and a batch of one never updates BatchNorm statistics.
        method = build(name, setup_for(problem, batchnorm=batchnorm, sgd={"lr": 0.01, "momentum": 0.5}))
        before = weights(method)
        assert all(math.isfinite(loss) for loss in train(method, problem, 5, size=size))
        after = weights(method)
        assert not same(before, after)
        assert all(value.isfinite().all() for value in after)


@every_method
def test_reduced_precision(name):
    problem = blobs()
    method = build(name, setup_for(problem))
    before = weights(method)
    for epoch in range(1, 7):
        clock = Clock(epoch=epoch, epochs=8)
        method.begin_epoch(clock)
        for batch in batches(problem, epoch):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert method.step(batch, clock).isfinite()
    after = weights(method)
    assert all(value.dtype == torch.float32 and value.isfinite().all() for value in after)
    assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@every_method
def test_a_class_missing_from_a_batch_and_from_the_data(name):
    problem = blobs(samples=64)
    setup = setup_for(problem, num_classes=6, network=lambda k: perceptron(k, 6))
    method = build(name, setup)
    one_class = torch.nonzero(problem.given == 2).flatten()
    batch = Batch(index=one_class, images=problem.points[one_class], labels=problem.given[one_class])
    for epoch in range(1, 5):
        clock = Clock(epoch=epoch, epochs=8)
        method.begin_epoch(clock)
        assert method.step(batch, clock).isfinite()
    assert all(value.isfinite().all() for value in weights(method))


@every_method
@pytest.mark.parametrize("noise_rate", [0.0, 0.95])
def test_extreme_noise_rates(name, noise_rate):
    problem = blobs()
    method = build(name, setup_for(problem, noise_rate=noise_rate))
    assert all(math.isfinite(loss) for loss in train(method, problem, 5))
    assert all(value.isfinite().all() for value in weights(method))
    # Co-teaching+ selects among disagreements, and the semi-supervised methods do not use the rate.
    if noise_rate == 0 and name not in {"coteaching_plus", *SEMI_SUPERVISED}:
        assert all(selection.all() for selection in method.selections.values())


@every_method
def test_an_epoch_begins_in_training_mode(name):
    """Even if the networks were left in evaluation mode."""
    method, networks = build(name, setup_for(blobs(), batchnorm=True)), []
    for judged in method.judged.values():
        with judged() as network:
            networks.append(network)
    for network in networks:
        network.eval()
    method.begin_epoch(Clock(epoch=1, epochs=8))
    assert all(layer.training for network in networks for layer in network.modules() if not [*layer.children()])


@pytest.mark.parametrize("name", sorted({"sigua"} | TWO_NETWORKS))
def test_an_epoch_begins_with_nothing_picked(name):
    """A loader may return different samples in every epoch."""
    problem = blobs()
    method = build(name, setup_for(problem))
    train(method, problem, 1)
    assert all(picked.any() for picked in method.selections.values())
    method.begin_epoch(Clock(epoch=2, epochs=8))
    assert not any(picked.any() for picked in method.selections.values())


@every_method
def test_a_missing_noise_rate_is_an_error(name):
    setup = setup_for(blobs(), noise_rate=None)
    if name in NEED_NO_RATE:
        build(name, setup)
    else:
        with pytest.raises(ValueError, match=f"{name} needs .*noise_rate="):
            build(name, setup)


class NoHostCopy(TorchFunctionMode):
    """Refuses calls that read a CPU tensor's memory without a dispatched operation."""

    REFUSED = (Tensor.tolist, Tensor.numpy, Tensor.cpu, Tensor.__array__)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert func not in self.REFUSED, f"{func} reads values back to the host."
        return func(*args, **(kwargs or {}))


class NoHostSync(TorchDispatchMode):
    """Refuses operations that would wait for the device or whose result's shape depends on values.

    They cannot be captured in a CUDA graph; on the CPU they work, so only a watch over the operations shows them.
    """

    REFUSED = ("_local_scalar_dense", "nonzero", "nonzero_numpy", "masked_select", "equal", "is_nonzero", "bincount")

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        operation = func.overloadpacket.__name__
        assert operation not in self.REFUSED, f"{func} reads values back to the host."
        assert "unique" not in operation, f"{func} gives a shape that depends on values."
        if operation.startswith(("index", "_index", "_unsafe_index")):
            indices = next((argument for argument in args[1:] if isinstance(argument, (list, tuple))), ())
            masks = [i for i in indices if isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8)]
            assert not masks, f"{func} by a mask gives a shape that depends on values."
        return func(*args, **(kwargs or {}))


@contextmanager
def no_host_sync():
    with NoHostCopy(), NoHostSync() as watch:
        yield watch


@every_method
def test_a_step_never_waits_for_the_host(name):
    problem = blobs()
    method = build(name, setup_for(problem, batchnorm=True))
    for epoch in range(1, 7):  # through every phase of the quick settings
        clock = Clock(epoch=epoch, epochs=8)
        method.begin_epoch(clock)
        for batch in batches(problem, epoch)[:2]:
            with no_host_sync() as watch:
                method.step(batch, clock)
            assert watch.operations > 10


@every_method
def test_a_step_does_not_depend_on_the_clock(name):
    """A replayed graph does not read the clock: begin_epoch writes changes into tensors."""
    problem = blobs()
    method, twin = (build(name, setup_for(problem)) for _ in range(2))
    for epoch in range(1, 7):
        clock = Clock(epoch=epoch, epochs=8)
        for batch_number, batch in enumerate(batches(problem, epoch)):
            if batch_number == 0:
                method.begin_epoch(clock)
                twin.begin_epoch(clock)
            assert torch.equal(method.step(batch, clock), twin.step(batch, Clock(epoch=1, epochs=1)))


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x[x > 0],
        lambda x: x.masked_select(x > 0),
        lambda x: x.nonzero(),
        lambda x: x.unique(),
        lambda x: bool(x.sum() > 0),
        lambda x: torch.equal(x, x),
        lambda x: x.__setitem__(x > 0, torch.ones(2)),
        lambda x: x[torch.argmax(x)],
    ],
)
def test_the_watch_notices(operation):
    x = torch.tensor([1.0, -1.0, 2.0])
    with no_host_sync(), pytest.raises(AssertionError, match=r"host|depends on values"):
        operation(x)


def test_the_watch_lets_pass_what_has_a_fixed_shape():
    x = torch.tensor([1.0, -1.0, 2.0])
    with no_host_sync() as watch:
        x[torch.tensor([0, 2])] = torch.where(x > 0, x, 0.0)[:2]
        x.masked_fill(x > 0, 1.0).sort()
    assert watch.operations >= 5


def accuracy(method, problem):
    """Return the accuracy on clean test labels, averaged over the reported networks."""
    shares = []
    for name in method.reported:
        with method.judged[name]() as network, torch.no_grad():
            network.eval()
            shares.append((network(problem.test_points).argmax(1) == problem.test_labels).float().mean().item())
    return sum(shares) / len(shares)


LEARNING = {
    "coteaching_plus": {"init_epoch": 6},
    "adacorr": {"start_epoch": 4, "update_epoch": 5},
}
# Co-teaching+ learns from disagreements only, most of which soon have a wrong label.
THRESHOLDS = dict.fromkeys(METHODS, 0.93) | {"coteaching_plus": 0.8}


@every_method
def test_it_learns_from_noisy_labels(name):
    """Four blobs, three labels in ten wrong: guessing gives 0.25, and plain training about 0.98."""
    problem = blobs(samples=600, noise_rate=0.3)
    setup = setup_for(problem, sgd={"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3})
    method = build(name, setup, **LEARNING.get(name, {}))
    assert accuracy(method, problem) < 0.6
    train(method, problem, 12)
    assert accuracy(method, problem) > THRESHOLDS[name]


def replay_beside_an_eager_twin(name):
    """Capture a step of each phase, replay it through the rest of it, and compare with the same steps run eagerly."""
    problem = blobs()
    problem = replace(problem, points=problem.points.cuda(), given=problem.given.cuda())

    def make():
        sgd = {"lr": torch.tensor(0.05, device="cuda"), "momentum": 0.9, "weight_decay": 1e-3, "fused": True}
        return build(name, setup_for(problem, sgd=sgd, network=lambda k: perceptron(k, batchnorm=True).cuda()))

    method, twin = make(), make()
    fixed = copy.deepcopy(batches(problem, 1)[0])
    captured = {}
    for epoch in range(1, 7):
        clock = Clock(epoch=epoch, epochs=8)
        method.begin_epoch(clock)
        twin.begin_epoch(clock)
        phase = phase_of(method)
        for number, batch in enumerate(batches(problem, epoch)):
            for field in fields(Batch):
                getattr(fixed, field.name).copy_(getattr(batch, field.name))
            if phase not in captured and number < 3:
                loss = beside(lambda clock=clock: method.step(fixed, clock))
            else:
                if phase not in captured:
                    captured[phase] = torch.cuda.CUDAGraph(), {}
                    with torch.cuda.graph(captured[phase][0]):
                        captured[phase][1]["loss"] = method.step(fixed, clock)
                captured[phase][0].replay()
                loss = captured[phase][1]["loss"]
            torch.testing.assert_close(loss, twin.step(batch, clock), rtol=1e-4, atol=1e-6)
        accuracy = noisy_accuracy(twin, problem)
        end_epoch(method, accuracy)
        end_epoch(twin, accuracy)
    assert len(captured) == (2 if name.startswith("dividemix") else 1)
    for found, expected in zip(weights(method), weights(twin), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
    for selection in twin.selections:
        assert torch.equal(method.selections[selection], twin.selections[selection])


def beside(function):
    """Run on a separate stream, as steps before a capture must be."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        result = function()
    torch.cuda.current_stream().wait_stream(side)
    return result


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_method
def test_a_step_can_be_captured_and_replayed(name):
    replay_beside_an_eager_twin(name)
