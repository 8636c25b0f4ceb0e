"""The one-pass CUDA update: when it is used, with a stand-in; against the general one; and in a CUDA graph."""

import copy
import inspect
import sys
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.core.problems import adamw, all_equal, batches, everything, parts, sgd, small_network, train
from tests.kernels import DEVICE, INTERPRETED, with_gpu, with_kernels
from tnlpad import Decomposition, parameter_groups


class Kernel:
    """Records its calls and changes nothing but the ordinary parameters."""

    def __init__(self, all_parts, base, global_norm):
        self.all_parts, self.base, self.global_norm = all_parts, base, global_norm
        self.calls, self.accepting = [], True

    def step(self, beta):
        if self.accepting:
            self.calls.append("step")
            self.base.step()
        return self.accepting

    def measure(self):
        self.calls.append("measure")


@pytest.fixture
def with_kernel(monkeypatch):
    stand_in = SimpleNamespace(FusedSGD=Kernel, fits=lambda all_parts: True)
    monkeypatch.setitem(sys.modules, "tnlpad.core.fused_sgd", stand_in)


def trained(**options):
    model = small_network()
    optimizer = sgd(model, **options)
    optimizer._can_fuse = True
    train(model, optimizer, batches(2), epoch_length=2)
    return model, optimizer


def test_a_cpu_has_no_kernel():
    assert not sgd(small_network())._can_fuse


def test_the_kernel_updates_in_place_of_the_general_step(with_kernel):
    model, optimizer = trained(norm="tensor")
    kernel = optimizer._fused
    assert not kernel.global_norm
    assert kernel.all_parts is optimizer._parts
    optimizer.start_epoch()
    assert kernel.calls == ["step", "step", "measure"]
    assert optimizer.steps == 2
    assert not torch.equal(model[1].weight, small_network()[1].weight)  # the ordinary parameters, by the base


def test_a_step_that_does_not_fit_is_the_general_one_and_the_norms_are_measured_again(with_kernel):
    model, optimizer = trained()
    kernel = optimizer._fused
    before = [tensor.clone() for tensor in everything(model, optimizer)]
    kernel.accepting = False
    train(model, optimizer, batches(1))
    assert kernel.calls == ["step", "step", "measure"]
    assert not all_equal(before, everything(model, optimizer))


def add_group(model, optimizer):
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))], "param_names": ["extra"]})


def move(model, optimizer):
    model[0].weight.data = model[0].weight.data.clone()
    optimizer.start_epoch()


def adopt_elsewhere(model, optimizer):
    model[0].weight.data = torch.zeros_like(model[0].weight)
    optimizer.adopt_weights()


def load_without_momentum_for_dampening(model, optimizer):
    optimizer.load_state_dict(sgd(small_network(), dampening=0.1).state_dict())
    optimizer.start_epoch()


@pytest.mark.parametrize("action", [add_group, adopt_elsewhere, move, load_without_momentum_for_dampening])
def test_it_is_rebuilt_when_tensors_move_or_groups_are_added(with_kernel, action):
    model, optimizer = trained()
    before = optimizer._fused
    before.accepting = False
    train(model, optimizer, batches(1))  # the general step has momenta
    action(model, optimizer)
    assert optimizer._fused is None
    train(model, optimizer, batches(1))
    assert optimizer._fused is not before


def tensors_of(model, optimizer):
    momenta = [values["momentum_buffer"] for values in optimizer.base.state.values()]
    return [*everything(model, optimizer), *momenta]


def test_loading_writes_in_place_so_that_the_kernel_and_captured_graphs_stay_valid(with_kernel):
    model, optimizer = trained()
    saved, kernel = copy.deepcopy((model.state_dict(), optimizer.state_dict())), optimizer._fused
    tensors = partial(tensors_of, model, optimizer)
    before, values = [tensor.data_ptr() for tensor in tensors()], [tensor.clone() for tensor in tensors()]
    train(model, optimizer, batches(3))
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    assert optimizer._fused is kernel
    assert kernel.calls[-1] == "measure"
    assert [tensor.data_ptr() for tensor in tensors()] == before
    assert all_equal(values, tensors())


def load_a_state_without_momentum(model, optimizer):
    optimizer.load_state_dict(sgd(small_network()).state_dict())


def adopt(model, optimizer):
    model.load_state_dict(small_network(seed=4).state_dict())
    optimizer.adopt_weights()


@pytest.mark.parametrize("restart", [load_a_state_without_momentum, adopt])
def test_a_restart_writes_in_place_as_well(with_kernel, restart):
    model, optimizer = trained()
    kernel = optimizer._fused
    kernel.accepting = False
    train(model, optimizer, batches(3))  # the general step has momenta
    before = [tensor.data_ptr() for tensor in tensors_of(model, optimizer)]
    restart(model, optimizer)
    assert optimizer._fused is kernel
    assert kernel.calls[-1] == "measure"
    assert [tensor.data_ptr() for tensor in tensors_of(model, optimizer)] == before
    leaves = [*parts(optimizer, "sigma"), *parts(optimizer, "gamma")]
    assert not any(optimizer.base.state[leaf]["momentum_buffer"].any() for leaf in leaves)


def test_copies_have_no_kernel(with_kernel):
    model, optimizer = trained()
    assert copy.deepcopy((model, optimizer))[1]._fused is None
    assert optimizer._fused is not None


@pytest.mark.parametrize(
    ("dtype", "options", "fitting"),
    [
        (torch.float32, {}, True),
        (torch.bfloat16, {}, True),
        (torch.float64, {}, False),
        (torch.float32, {"dampening": 0.1}, False),
        (torch.float32, {"weight_decay": torch.tensor(1e-3)}, False),
    ],
)
def test_it_is_for_parts_in_single_precision_and_plain_options(dtype, options, fitting):
    fused_sgd = pytest.importorskip("tnlpad.core.fused_sgd")
    assert fused_sgd.fits(sgd(small_network(dtype), **options)._parts) == fitting


def test_it_is_for_weights_whose_elements_it_can_count():
    fused_sgd = pytest.importorskip("tnlpad.core.fused_sgd")
    (group,) = sgd(small_network(torch.float32)).param_groups[:1]
    for elements, fitting in ((2**31 - 1024, True), (2**31 - 1023, False), (2**32 + 4, False)):
        weight = torch.zeros(1).expand(elements)  # takes no memory
        assert fused_sgd.fits([SimpleNamespace(weights=[weight], sigma=[weight], group=group)]) == fitting


def test_kernels_are_launched_on_the_device_of_the_weights(monkeypatch):
    """Triton launches on the current device, and gradients of a model on a second GPU are not there."""
    fused_sgd = pytest.importorskip("tnlpad.core.fused_sgd")
    inside, launched = [], []

    @contextmanager
    def device_of(tensor):
        inside.append(tensor.device)
        yield
        inside.pop()

    class Launched:
        def __getitem__(self, grid):
            return lambda *arguments, **options: launched.append(list(inside))

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    for name in ("_update", "_add_up"):
        monkeypatch.setattr(fused_sgd, name, Launched())
    optimizer = sgd(small_network(torch.float32))
    kernel = fused_sgd.FusedSGD(optimizer._parts, optimizer.base, global_norm=True)
    for weight in kernel.weights:
        weight.grad = torch.ones_like(weight)
    assert kernel.step(optimizer._beta)
    assert launched == [[torch.device("cpu")]] * 4  # measured, then updated, with two kernels each


@pytest.mark.parametrize("change", ["gradient", "dampening"])
def test_it_refuses_a_step_whose_gradients_or_options_do_not_fit(change):
    fused_sgd = pytest.importorskip("tnlpad.core.fused_sgd")
    optimizer = sgd(small_network(torch.float32))
    weights = optimizer._parts[0].weights
    kernel = SimpleNamespace(weights=weights, whole=weights, sharded=False, all_parts=optimizer._parts)
    kernel._gradients = partial(fused_sgd.FusedSGD._gradients, kernel)
    for weight in kernel.weights:
        weight.grad = torch.ones_like(weight)
    if change == "gradient":
        kernel.weights[0].grad = None
    else:
        optimizer.param_groups[0]["dampening"] = 0.1
    assert not fused_sgd.FusedSGD.step(kernel, optimizer._beta)


def test_it_is_for_sgd_with_the_subgradient_update_where_there_is_triton(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr("tnlpad.core.decomposition.find_spec", lambda name: object())
    network = small_network()
    assert sgd(network)._can_fuse
    assert not sgd(network, gamma_update="proximal")._can_fuse
    assert not adamw(network)._can_fuse
    monkeypatch.setattr("tnlpad.core.decomposition.find_spec", lambda name: None)
    assert not sgd(network)._can_fuse


# The kernel itself


@pytest.mark.skipif(INTERPRETED, reason="interpreted kernels are not compiled")
def test_sums_have_one_order_for_weights_of_any_dtype():
    """Compiled for a GPU that need not be there: the values of all variants are laid out alike, and never moved."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tnlpad.core.fused_sgd import LAUNCH, _update

    types = dict.fromkeys(("block_tensor", "block_start", "sizes"), "*i32")
    types |= dict.fromkeys(("sums", "partials", "beta", "lr"), "*fp32")
    types |= dict.fromkeys(("momentum", "weight_decay", "gamma_lr_scale"), "fp32")
    types |= {"addresses": "*i64", "gradients": "*i64", "first": "i32"}
    options = {"UPDATE": True, "MOMENTUM": True, "NESTEROV": False, "MAXIMIZE": False, "GLOBAL": True, "ALIGNED": True}
    options |= {"TENSORS": 22, "TENSORS_PADDED": 32, "BLOCK": 1024}

    in_signature = "constexprs" in inspect.signature(ASTSource).parameters  # since Triton 3.3

    def layouts(weights):
        signature = types | {"weights_like": weights} | (dict.fromkeys(options, "constexpr") if in_signature else {})
        ordered = {name: signature[name] for name in _update.arg_names if name in signature}
        source = ASTSource(fn=_update, signature=ordered, **{"constexprs" if in_signature else "constants": options})
        code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=LAUNCH).asm["ttgir"]
        assert "convert_layout" not in code
        return {line for line in code.splitlines() if line.startswith("#blocked")}

    assert layouts("*bf16") == layouts("*fp32")


def on_gpu(test):
    return with_gpu(pytest.mark.gpu(pytest.mark.usefixtures("deterministic")(test)))


def on_any_device(test):
    return with_kernels(pytest.mark.gpu(pytest.mark.usefixtures("deterministic")(test)))


def batches_on_gpu(count, dtype=torch.float32):
    return [(x.cuda(), y.cuda()) for x, y in batches(count, dtype)]


def build(fused=True, seed=0, dtype=torch.float32, fused_base=None, **options):
    model = small_network(dtype, seed).to(DEVICE, memory_format=torch.channels_last)
    optimizer = sgd(model, fused=fused_base, **options)
    optimizer._can_fuse = fused
    return model, optimizer


@pytest.fixture
def deterministic(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@on_any_device
@pytest.mark.parametrize(
    ("norm", "options"),
    [
        ("global", {}),
        ("global", {"nesterov": True}),
        ("global", {"gamma_lr_scale": 0.5}),
        ("global", {"c1": None, "sigma_penalty": None}),
        ("global", {"lr": torch.tensor(0.05)}),
        ("tensor", {}),
        ("tensor", {"momentum": 0.0}),
        ("tensor", {"c2": None, "gamma_penalty": None}),
        ("global", {"working_dtype": torch.bfloat16}),
    ],
)
def test_equals_the_general_update(norm, options):
    fused_model, fused = build(norm=norm, **options)
    model, optimizer = build(fused=False, norm=norm, **options)
    generator = torch.Generator(DEVICE).manual_seed(0)
    epochs, steps = (2, 2) if INTERPRETED else (3, 5)
    for _ in range(epochs):
        for o in (fused, optimizer):
            o.start_epoch()
        for _ in range(steps):
            for a, b in zip(fused_model.parameters(), model.parameters(), strict=True):
                a.grad = torch.randn(a.shape, generator=generator, device=DEVICE, dtype=a.dtype).contiguous(
                    memory_format=torch.channels_last if a.ndim == 4 else torch.contiguous_format
                )
                b.grad = a.grad.clone()
            for o in (fused, optimizer):
                o.step()
    assert fused._fused is not None
    assert optimizer._fused is None
    for name in ("sigma", "gamma", "anchor"):
        for a, b in zip(parts(fused, name), parts(optimizer, name), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    weights = fused.param_groups[0]["params"]
    for w, s, g in zip(weights, parts(fused, "sigma"), parts(fused, "gamma"), strict=True):
        # The interpreter truncates where a GPU rounds.
        one_unit = 2**-7 if INTERPRETED and w.dtype == torch.bfloat16 else 0.0
        torch.testing.assert_close(w.data, (s + g).to(w.dtype), rtol=one_unit, atol=0.0)


@on_any_device
def test_several_groups_share_the_global_norm():
    results = []
    for fused in (True, False):
        model, optimizer = build(fused)
        extra = nn.Linear(7, 3, device=DEVICE)
        with torch.no_grad():
            for p in extra.parameters():
                p.copy_(torch.linspace(-1, 1, p.numel()).view_as(p))
        optimizer.add_param_group({"params": list(extra.parameters()), "param_names": ["a", "b"], "lr": 0.01})
        optimizer.start_epoch()
        for p in (*model.parameters(), *extra.parameters()):
            p.grad = torch.ones_like(p)
        for _ in range(4):
            optimizer.step()
        results.append(parts(optimizer, "sigma") + parts(optimizer, "gamma"))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@on_gpu
def test_bfloat16_weights_get_the_rounded_sum():
    model, optimizer = build(dtype=torch.bfloat16)
    train(model, optimizer, batches_on_gpu(3, torch.bfloat16), epoch_length=3)
    assert optimizer._fused is not None
    weights = optimizer.param_groups[0]["params"]
    for w, s, g in zip(weights, parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True):
        assert torch.equal(w, (s + g).bfloat16())


@on_any_device
def test_unaligned_and_missing_gradients():
    model, optimizer = build()
    twin, general = build(fused=False)
    for o in (optimizer, general):
        o.start_epoch()
    for step in range(6):
        for m in (model, twin):
            for index, p in enumerate(m.parameters()):
                buffer = torch.zeros(p.numel() + 1, device=DEVICE)  # a view that starts 4 bytes into its memory
                p.grad = buffer[1:].as_strided(p.shape, p.stride(), 1).fill_(index + step)
            if step == 3:
                m[0].weight.grad = None
        for o in (optimizer, general):
            o.step()
    for name in ("sigma", "gamma"):
        for a, b in zip(parts(optimizer, name), parts(general, name), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def build_adamw(seed=0):
    model = small_network(torch.float32, seed).cuda()
    return model, Decomposition(parameter_groups(model), torch.optim.AdamW, lr=1e-3, c1=0.05, c2=0.6)


@on_gpu
@pytest.mark.parametrize("build_one", [build, build_adamw])
def test_saving_and_loading_in_the_middle_of_an_epoch_is_bit_equal(build_one):
    data = batches_on_gpu(30)
    model, optimizer = build_one()
    train(model, optimizer, data[:10], epoch_length=7)
    saved = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    again, resumed = build_one(seed=5)
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    assert train(model, optimizer, data[10:]) == train(again, resumed, data[10:])
    for name in ("sigma", "gamma", "anchor"):
        assert all(torch.equal(a, b) for a, b in zip(parts(optimizer, name), parts(resumed, name), strict=True))
    assert (resumed._fused is not None) == (build_one is build)


@on_gpu
def test_a_state_saved_on_the_gpu_loads_on_the_cpu():
    model, optimizer = build()
    train(model, optimizer, batches_on_gpu(4), epoch_length=4)
    on_cpu = small_network(torch.float32)
    other = sgd(on_cpu)
    other.load_state_dict(optimizer.state_dict())
    train(on_cpu, other, batches(2, torch.float32))
    assert other.steps == 6


@on_any_device
def test_a_contiguous_state_loads_into_a_channels_last_model():
    source = small_network(torch.float32)
    saved = sgd(source)
    train(source, saved, batches(4, torch.float32), epoch_length=4)
    results = []
    for fused in (True, False):
        model, optimizer = build(fused)
        optimizer.load_state_dict(copy.deepcopy(saved.state_dict()))
        for index, p in enumerate(model.parameters()):
            p.grad = torch.full_like(p, 0.01 * index)
        for _ in range(3):
            optimizer.step()
        results.append(parts(optimizer, "sigma") + parts(optimizer, "gamma"))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@on_gpu
def test_a_captured_step_follows_epochs_learning_rate_and_evaluation():
    data = batches_on_gpu(24)
    eager_model, eager = build(lr=torch.tensor(0.05, device="cuda"), fused_base=True)
    model, optimizer = build(lr=torch.tensor(0.05, device="cuda"), fused_base=True)
    images, labels = data[0][0].clone(), data[0][1].clone()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    def feed(batch):
        images.copy_(batch[0])
        labels.copy_(batch[1])

    optimizer.start_epoch()
    eager.start_epoch()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for batch in data[:4]:
            feed(batch)
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    train(eager_model, eager, data[:4])
    losses = []
    for index, batch in enumerate(data[4:]):
        if index % 5 == 0:
            optimizer.start_epoch()
            eager.start_epoch()
        if index == 10:
            for o in (optimizer, eager):
                o.param_groups[0]["lr"].fill_(0.01)
        if index == 12:
            with optimizer.sigma_weights():
                model(images)
        feed(batch)
        if index == 14:
            step()  # an eager step between replays
            losses.append(None)
        else:
            graph.replay()
            losses.append(loss.item())
        expected = train(eager_model, eager, [batch])[0]
        assert losses[-1] is None or losses[-1] == pytest.approx(expected, rel=1e-3)
    for name in ("sigma", "gamma"):
        for a, b in zip(parts(optimizer, name), parts(eager, name), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@on_gpu
@pytest.mark.parametrize(
    ("lr", "message"), [(0.05, r"lr=torch\.tensor"), (torch.tensor(0.05), r"lr=torch\.tensor"), ("cuda", "fused=True")]
)
def test_what_cannot_be_captured_says_so(lr, message):
    model, optimizer = build(lr=torch.tensor(0.05, device="cuda") if lr == "cuda" else lr)
    train(model, optimizer, batches_on_gpu(2), epoch_length=2)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=message), torch.cuda.graph(graph):
        optimizer.step()
