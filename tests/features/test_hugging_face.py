"""Tests with tiny, randomly initialised models that the tests write."""

import json

import numpy as np
import pytest
import torch

from tests.features.test_backbone import shape
from tnlpad.errors import DataError
from tnlpad.features.backbone import resolve_backbone
from tnlpad.features.extract import extract_texts
from tnlpad.features.hugging_face import image_model, text_model

transformers = pytest.importorskip("transformers", reason="the extra [integrations] is not installed")

PROCESSOR = {
    "do_center_crop": True,
    "crop_size": {"height": 28, "width": 28},
    "size": {"shortest_edge": 32},
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.3, 0.4],
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a"]
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def saved(model, folder, processor=PROCESSOR):
    model.save_pretrained(folder)
    if processor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@pytest.fixture
def dinov2(tmp_path):
    torch.manual_seed(0)
    config = transformers.Dinov2Config(**TINY, image_size=28, patch_size=14)
    return saved(transformers.Dinov2Model(config), tmp_path / "tiny-dinov2")


@pytest.fixture
def bert(tmp_path):
    folder = tmp_path / "tiny-bert"
    folder.mkdir()
    torch.manual_seed(0)
    config = transformers.BertConfig(**TINY, vocab_size=len(WORDS), max_position_embeddings=16)
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    return folder


def test_an_image_model_of_a_folder(dinov2):
    resolved = resolve_backbone(str(dinov2), shape())
    backbone = resolved.backbone
    assert (backbone.pixels, backbone.dimensions) == (28, 16)
    assert backbone.identity.startswith("tiny-dinov2-")
    assert backbone.identity in resolved.sentence
    images = torch.rand(2, 3, 28, 28)
    mean, std = (torch.tensor(PROCESSOR[key]).view(3, 1, 1) for key in ("image_mean", "image_std"))
    model = transformers.AutoModel.from_pretrained(dinov2).eval()
    with torch.no_grad():
        wanted = model(pixel_values=(images - mean) / std).pooler_output
        torch.testing.assert_close(backbone.module()(images), wanted)


def test_the_identity_is_that_of_the_content(dinov2, tmp_path):
    before = image_model(str(dinov2)).identity
    moved = tmp_path / "elsewhere" / "tiny-dinov2"
    moved.parent.mkdir()
    dinov2.rename(moved)
    assert image_model(str(moved)).identity == before
    (moved / "preprocessor_config.json").write_text(json.dumps({**PROCESSOR, "image_mean": [0, 0, 0]}))
    assert image_model(str(moved)).identity != before


def test_a_model_of_images_and_texts(tmp_path):
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        text_config={**TINY, "vocab_size": 8, "max_position_embeddings": 8},
        vision_config={**TINY, "image_size": 28, "patch_size": 14},
        projection_dim=12,
    )
    folder = saved(transformers.CLIPModel(config), tmp_path / "clip")
    backbone = image_model(str(folder))
    assert backbone.dimensions == 12
    images = torch.rand(3, 3, 28, 28)
    with torch.no_grad():
        rows = backbone.module()(images)
    assert rows.shape == (3, 12)
    assert rows.std(0).min() > 0


def test_a_pooling_layer_without_weights_is_not_used(tmp_path):
    torch.manual_seed(0)
    config = transformers.ViTConfig(**TINY, image_size=28, patch_size=14)
    folder = saved(transformers.ViTModel(config, add_pooling_layer=False), tmp_path / "vit")
    first, second = (image_model(str(folder)).module() for _ in range(2))
    images = torch.rand(2, 3, 28, 28)
    with torch.no_grad():
        assert torch.equal(first(images), second(images))


def test_missing_weights_are_noticed(dinov2):
    from safetensors.torch import load_file, save_file

    file = dinov2 / "model.safetensors"
    tensors = load_file(file)
    del tensors["layernorm.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(DataError, match=r"lacks weights, such as layernorm\.weight"):
        image_model(str(dinov2))


def test_pickled_weights_are_refused(dinov2):
    (dinov2 / "model.safetensors").unlink()
    (dinov2 / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(DataError, match=r"pytorch_model\.bin.*safe_serialization"):
        image_model(str(dinov2))
    (dinov2 / "pytorch_model.bin").unlink()
    with pytest.raises(DataError, match="no weights"):
        image_model(str(dinov2))


def test_code_of_a_model_is_not_run(dinov2):
    config = json.loads((dinov2 / "config.json").read_text())
    config.update(model_type="own_kind", auto_map={"AutoModel": "own.Model", "AutoConfig": "own.Config"})
    (dinov2 / "config.json").write_text(json.dumps(config))
    (dinov2 / "own.py").write_text("raise SystemExit('code of the model was run')")
    with pytest.raises(DataError, match="cannot be loaded"):
        image_model(str(dinov2))


def test_damaged_weights(dinov2):
    file = dinov2 / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(DataError, match="cannot be loaded"):
        image_model(str(dinov2))


def test_folders_that_hold_no_image_model(tmp_path, dinov2):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no config\.json"):
        image_model(str(tmp_path / "empty"))
    with pytest.raises(DataError, match="no such folder"):
        image_model(str(tmp_path / "missing"))
    (dinov2 / "preprocessor_config.json").unlink()
    with pytest.raises(DataError, match=r"preprocessor_config\.json"):
        image_model(str(dinov2))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"crop_size": 1e999}, "size inf. 1 to 1024 is possible"),
        ({"crop_size": float("nan")}, "size nan"),
        ({"crop_size": {"height": 10**400}}, "size {'height': 1000"),
        ({"image_mean": 5}, "image_mean is 5, not a list"),
        ({"image_mean": [0.5, 1e999, 0.5]}, "image_mean is a list, not a list of which each is a number"),
        ({"image_std": ["0.5"] * 3}, "image_std is a list, not a list of which each is a number"),
        ({"image_std": [0.5, 0, 0.5]}, "image_std has a number that is not above 0"),
    ],
)
def test_settings_of_images_that_cannot_be_used(dinov2, changed, reason):
    (dinov2 / "preprocessor_config.json").write_text(json.dumps({**PROCESSOR, **changed}))
    with pytest.raises(DataError, match=rf"tiny-dinov2.* its image processor.*{reason}"):
        image_model(str(dinov2))
    (dinov2 / "preprocessor_config.json").write_text(json.dumps({**PROCESSOR, "image_mean": 5, "do_normalize": False}))
    assert image_model(str(dinov2)).pixels == 28


def test_a_name_that_is_not_on_disk(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="somebody/model is not on disk") as caught:
        resolve_backbone("somebody/model", shape())
    assert str(caught.value).count(".") == 1


def test_a_name_that_cannot_be_downloaded(monkeypatch):
    import huggingface_hub

    def download(name, local_files_only=False, **options):
        raise (FileNotFoundError if local_files_only else ConnectionError)("no route to the hub")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(DataError, match=r"cannot be downloaded \(no route to the hub\)"):
        resolve_backbone("somebody/model", shape())


def test_a_word_that_is_no_name():
    with pytest.raises(DataError, match="not auto, none, lite, a folder"):
        resolve_backbone("two words", shape())


def test_texts_are_the_mean_of_their_tokens(bert):
    backbone = text_model(str(bert))
    assert (backbone.dimensions, backbone.max_tokens) == (16, 16)
    texts = ["good film", "a bad film a bad film", "good"]
    rows = backbone.embed(texts)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    model = transformers.AutoModel.from_pretrained(bert).eval()
    with torch.no_grad():  # one by one, so that nothing is padded
        wanted = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy() for text in texts]
    np.testing.assert_allclose(rows, wanted, atol=1e-5)
    assert backbone.embed([]).shape == (0, 16)
    assert backbone.embed(["good film " * 100]).shape == (1, 16)


@pytest.mark.parametrize("most", [float("inf"), float("nan"), "many", [1]])
def test_a_number_of_tokens_that_cannot_be_used(bert, most):
    (bert / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": most}))
    with pytest.raises(DataError, match="tokens at most, which is not a number"):
        text_model(str(bert))


def test_a_sentence_model(bert):
    modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Normalize")]
    (bert / "modules.json").write_text(json.dumps(modules))
    (bert / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 4}))
    (bert / "1_Pooling").mkdir()
    (bert / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    backbone = text_model(str(bert))
    assert (backbone.max_tokens, backbone.first_token, backbone.unit_length) == (4, True, True)
    rows = backbone.embed(["good film", "good film bad bad"])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    (bert / "modules.json").write_text(json.dumps([*modules, {"type": "sentence_transformers.models.Dense"}]))
    with pytest.raises(DataError, match="module Dense"):
        text_model(str(bert))


def test_texts_go_through_the_cache(bert, tmp_path):
    backbone = text_model(str(bert))
    texts = ["good film", "bad", "good film"]
    cache = tmp_path / "cache"
    first = extract_texts(texts, backbone, cache=cache)
    np.testing.assert_allclose(first, backbone.embed(texts), atol=1e-5)
    (bert / "model.safetensors").unlink()  # not needed for what is cached
    assert np.array_equal(extract_texts(texts[::-1], backbone, cache=cache), first[::-1])


def test_a_text_model_without_a_tokenizer(dinov2):
    with pytest.raises(DataError, match="tokenizer"):
        text_model(str(dinov2))
