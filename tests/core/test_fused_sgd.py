"""The one-pass CUDA update against the general one, inside and outside a CUDA graph."""

import copy

import pytest
import torch
from torch import nn

from tests.core.problems import batches, parts, sgd, small_network, train
from tnlpad import Decomposition, parameter_groups

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_gpu(count, dtype=torch.float32):
    return [(x.cuda(), y.cuda()) for x, y in batches(count, dtype)]


def build(fused=True, seed=0, dtype=torch.float32, fused_base=None, **options):
    model = small_network(dtype, seed).cuda().to(memory_format=torch.channels_last)
    optimizer = sgd(model, fused=fused_base, **options)
    if not fused:
        optimizer._one_pass.step = lambda *_: False
    return model, optimizer


@pytest.fixture(autouse=True)
def deterministic(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("norm", ["global", "tensor"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nesterov": True},
        {"momentum": 0.0},
        {"gamma_lr_scale": 0.5},
        {"c1": None, "sigma_penalty": None},
        {"c2": None, "gamma_penalty": None},
        {"lr": torch.tensor(0.05)},
    ],
)
def test_equals_the_general_update(norm, options):
    fused_model, fused = build(norm=norm, **options)
    model, optimizer = build(fused=False, norm=norm, **options)
    generator = torch.Generator("cuda").manual_seed(0)
    for _ in range(3):
        for o in (fused, optimizer):
            o.start_epoch()
        for _ in range(5):
            for a, b in zip(fused_model.parameters(), model.parameters(), strict=True):
                a.grad = torch.randn(a.shape, generator=generator, device="cuda").contiguous(
                    memory_format=torch.channels_last if a.ndim == 4 else torch.contiguous_format
                )
                b.grad = a.grad.clone()
            for o in (fused, optimizer):
                o.step()
    assert fused._one_pass.kernel is not None
    assert optimizer._one_pass.kernel is None
    for name in ("sigma", "gamma", "anchor"):
        for a, b in zip(parts(fused, name), parts(optimizer, name), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    weights = fused.param_groups[0]["params"]
    for w, s, g in zip(weights, parts(fused, "sigma"), parts(fused, "gamma"), strict=True):
        assert torch.equal(w, s + g)


def test_several_groups_share_the_global_norm():
    results = []
    for fused in (True, False):
        model, optimizer = build(fused)
        extra = nn.Linear(7, 3, device="cuda")
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


def test_bfloat16_weights_get_the_rounded_sum():
    model, optimizer = build(dtype=torch.bfloat16)
    train(model, optimizer, on_gpu(3, torch.bfloat16), epoch_length=3)
    assert optimizer._one_pass.kernel is not None
    weights = optimizer.param_groups[0]["params"]
    for w, s, g in zip(weights, parts(optimizer, "sigma"), parts(optimizer, "gamma"), strict=True):
        assert torch.equal(w, (s + g).bfloat16())


def test_unaligned_and_missing_gradients():
    model, optimizer = build()
    twin, general = build(fused=False)
    for o in (optimizer, general):
        o.start_epoch()
    for step in range(6):
        for m in (model, twin):
            for index, p in enumerate(m.parameters()):
                buffer = torch.zeros(p.numel() + 1, device="cuda")  # a view that starts 4 bytes into its memory
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


@pytest.mark.parametrize("build_one", [build, build_adamw])
def test_saving_and_loading_in_the_middle_of_an_epoch_is_bit_equal(build_one):
    data = on_gpu(30)
    model, optimizer = build_one()
    train(model, optimizer, data[:10], epoch_length=7)
    saved = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    again, resumed = build_one(seed=5)
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    assert train(model, optimizer, data[10:]) == train(again, resumed, data[10:])
    for name in ("sigma", "gamma", "anchor"):
        assert all(torch.equal(a, b) for a, b in zip(parts(optimizer, name), parts(resumed, name), strict=True))
    assert (resumed._one_pass.kernel is not None) == (build_one is build)


def test_a_state_saved_on_the_gpu_loads_on_the_cpu():
    model, optimizer = build()
    train(model, optimizer, on_gpu(4), epoch_length=4)
    on_cpu = small_network(torch.float32)
    other = sgd(on_cpu)
    other.load_state_dict(optimizer.state_dict())
    train(on_cpu, other, batches(2, torch.float32))
    assert other.steps == 6


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


def test_a_captured_step_follows_epochs_learning_rate_and_evaluation():
    data = on_gpu(24)
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


@pytest.mark.parametrize(
    ("lr", "message"), [(0.05, r"lr=torch\.tensor"), (torch.tensor(0.05), r"lr=torch\.tensor"), ("cuda", "fused=True")]
)
def test_what_cannot_be_captured_says_so(lr, message):
    model, optimizer = build(lr=torch.tensor(0.05, device="cuda") if lr == "cuda" else lr)
    train(model, optimizer, on_gpu(2), epoch_length=2)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=message), torch.cuda.graph(graph):
        optimizer.step()
