import pytest

from tnlpad.experiments.config import configure
from tnlpad.experiments.run import run

METHODS = ("self", "self+tnlpad", "dividemix", "dividemix+tnlpad")


def options(method, noise="symmetric:0.4", dataset="cifar10"):
    return configure(dataset, noise=noise, method=method).options


def test_self_on_cifar_has_iterations_of_100_and_40_epochs():
    config = configure("cifar10", noise="symmetric:0.4", method="self")
    assert (config.epochs, config.milestones, config.batch_size) == (220, (40, 80), 64)
    assert config.options["iterations"] == 4
    assert config.options["first_share"] * 220 == pytest.approx(100, abs=0.1)


def test_dividemix_on_cifar_is_run_as_its_authors_do():
    config = configure("cifar10", noise="symmetric:0.4", method="dividemix+tnlpad")
    assert (config.epochs, config.milestones, config.batch_size) == (300, (151,), 128)
    assert (config.learning_rate, config.weight_decay) == (0.02, 5e-4)
    assert config.options["warmup_epochs"] == 10
    assert options("dividemix", dataset="cifar100")["warmup_epochs"] == 30
    # Half as many images of each kind as in a batch, where theirs are 64 and 64.
    assert configure("cifar10", method="standard").batch_size == 64


@pytest.mark.parametrize(
    ("dataset", "noise", "expected"),
    [
        ("cifar10", "symmetric:0.2", 0),
        ("cifar10", "symmetric:0.4", 25),
        ("cifar10", "symmetric:0.8", 25),
        ("cifar10", "symmetric:0.9", 50),
        ("cifar10", "asymmetric:0.4", 0),
        ("cifar100", "symmetric:0.2", 25),
        ("cifar100", "symmetric:0.4", 150),
    ],
)
def test_the_weight_of_unlabelled_images(dataset, noise, expected):
    assert options("dividemix", noise, dataset)["lambda_u"] == expected


def test_what_depends_on_the_kind_of_noise():
    assert [options("dividemix", f"{kind}:0.4")["warmup_entropy"] for kind in ("symmetric", "asymmetric")] == [0, 1]
    assert [options("dividemix", f"symmetric:{r}")["averaged_losses"] for r in (0.4, 0.9)] == [1, 5]


def test_combinations_have_the_datasets_own_c2():
    assert options("self+tnlpad")["c2"] == options("dividemix+tnlpad")["c2"] == options("tnlpad")["c2"] == 0.6
    assert options("self+tnlpad", dataset="mnist")["c2"] == 2.0


@pytest.mark.parametrize("method", METHODS)
def test_the_name_of_a_run_bears_the_plus_sign(method, tmp_path):
    short = {"epochs": 1, **({"warmup_epochs": 0} if "dividemix" in method else {})}
    folder = run(configure("digits", noise="symmetric:0.4", method=method, settings=short), tmp_path)
    assert f"_{method}_" in folder.path.name
    assert f"--method {method} " in folder.summary()["command"]
    assert folder.model_file.exists()


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_digits_with_40_percent_wrong_labels(method, tmp_path):
    """The last epoch beats plain training's by a wide margin, and hardly a wrong label is believed."""
    folders = [run(configure("digits", noise="symmetric:0.4", method=name), tmp_path) for name in ("standard", method)]
    standard, ours = (folder.summary()["last"]["test_accuracy"] for folder in folders)
    assert ours > 0.85
    assert ours > standard + 0.15
    first, *_, last = (record["selection"] for record in folders[1].epochs())
    for name, picked in last.items():
        assert first[name] == {"picked": 1293, "precision": pytest.approx(0.6, abs=0.02)}
        assert picked["precision"] > 0.95
        assert picked["picked"] * picked["precision"] > 0.85 * first[name]["precision"] * 1293
