"""The encoder of texts: its features, its files, and texts of every kind."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tnlpad.errors import DataError
from tnlpad.features import text as module
from tnlpad.features.encoder import ARRAYS, DESCRIPTION, load_encoder
from tnlpad.features.text import TextEncoder

WORDS = {
    "sport": "goal team match player score ball league coach win season",
    "food": "bread soup cheese oven butter taste salt plate kitchen sauce",
}


def sentences(count=60, seed=0):
    """Return sentences about two subjects, and the subject of each."""
    random = np.random.default_rng(seed)
    subjects = [list(WORDS)[row % 2] for row in range(count)]
    return [" ".join(random.choice(WORDS[each].split(), 6)) for each in subjects], np.array(subjects)


def test_texts_of_one_subject_are_similar():
    texts, subjects = sentences()
    features = TextEncoder.fit(texts, seed=1).transform(texts)
    assert features.dtype == np.float32
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    same = subjects[:, None] == subjects[None]
    similarity = unit @ unit.T
    assert similarity[same].mean() > similarity[~same].mean() + 0.2


def test_the_features_are_those_of_scikit_learn():
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, _ = sentences(400)  # enough that a rare term is left out
    texts[0] += " unique"
    encoder = TextEncoder.fit(texts, seed=1)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True, min_df=2)
    both = hstack([words.fit_transform(texts), characters.fit_transform(texts)])
    assert encoder.terms["words"] == tuple(words.get_feature_names_out())
    assert "unique" not in encoder.terms["words"]
    np.testing.assert_allclose(encoder.transform(texts), both @ encoder.projection, atol=1e-5)
    np.testing.assert_allclose(encoder.projection.T @ encoder.projection, np.eye(encoder.dimensions), atol=1e-4)


def test_seed_and_texts_determine_the_encoder():
    texts, _ = sentences(40)
    first, again, other = (TextEncoder.fit(texts, seed=seed).transform(texts) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_text_has_the_same_features_in_any_company(monkeypatch):
    texts, _ = sentences()
    encoder = TextEncoder.fit(texts)
    whole = encoder.transform(texts)
    monkeypatch.setattr(module, "BATCH", 7)
    np.testing.assert_array_equal(encoder.transform(texts), whole)
    np.testing.assert_array_equal(encoder.transform(texts[5:6]), whole[5:6])
    assert encoder.transform([]).shape == (0, encoder.dimensions)


def test_it_is_read_exactly_in_another_process(tmp_path):
    texts, _ = sentences()
    texts += ["", "größe 大きい 🎉🎉 <b>&amp;</b>"]
    encoder = TextEncoder.fit(texts, seed=1)
    encoder.to_files(tmp_path / "encoder")
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    code = (
        "import json; from pathlib import Path; import numpy as np\n"
        "from tnlpad.features.encoder import load_encoder\n"
        "texts = json.loads(Path('texts.json').read_text())\n"
        "np.save('features.npy', load_encoder(Path('encoder')).transform(texts))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert np.load(tmp_path / "features.npy").tobytes() == encoder.transform(texts).tobytes()
    again = load_encoder(tmp_path / "encoder")
    assert isinstance(again, TextEncoder)
    assert again.feature_names[0] == "text component 0"


def test_unseen_words_and_empty_texts():
    texts, _ = sentences()
    encoder = TextEncoder.fit(texts)
    features = encoder.transform(["", "   ", "зебра", "goal"])
    assert not features[:3].any()
    assert features[3].any()


@pytest.mark.parametrize(
    "texts",
    [
        ["我喜欢这部电影", "这部电影很无聊", "我不喜欢", "电影很好"],
        ["🎉🎉", "😡", "🎉", "😡😡"],
        ["ab", "a", "b", ""],
        ["١٢٣ مرحبا", "مرحبا بك", "שלום", "สวัสดี"],
        ["one text"],
        ["!", "?", "!", "?!"],
    ],
)
def test_any_script_and_few_texts(tmp_path, texts):
    encoder = TextEncoder.fit(texts)
    features = encoder.transform(texts)
    assert features.shape == (len(texts), encoder.dimensions)
    assert np.isfinite(features).all()
    assert features.any()
    encoder.to_files(tmp_path)
    np.testing.assert_array_equal(TextEncoder.from_files(tmp_path).transform(texts), features)


def test_chinese_characters_are_words():
    encoder = TextEncoder.fit(["我喜欢电影", "我喜欢书", "电影无聊", "书无聊"])
    assert {"电", "电 影", "书"} <= set(encoder.terms["words"])


def test_texts_without_characters_are_refused():
    with pytest.raises(DataError, match=r"the 2 texts to train on are empty\. .*--text"):
        TextEncoder.fit(["", "  "])


def test_of_many_texts_a_part_is_enough_and_terms_are_limited(monkeypatch):
    texts, subjects = sentences(300)
    monkeypatch.setattr(module, "MAX_FITTED_ROWS", 50)
    monkeypatch.setattr(module, "MAX_TERMS", 30)
    monkeypatch.setattr(module, "MAX_CHARACTERS", 1000)
    encoder = TextEncoder.fit([*texts, "x" * 10_000], seed=1, max_components=5)
    assert (encoder.dimensions, [len(each) for each in encoder.terms.values()]) == (5, [30, 30])
    features = encoder.transform(texts)
    means = np.stack([features[subjects == each].mean(0) for each in WORDS])
    nearest = np.linalg.norm(features[:, None] - means, axis=2).argmin(1)
    assert (np.array(list(WORDS))[nearest] == subjects).mean() > 0.9


def test_damaged_files_are_named(tmp_path):
    texts, _ = sentences()
    TextEncoder.fit(texts).to_files(tmp_path)
    description = json.loads((tmp_path / DESCRIPTION).read_text())
    with np.load(tmp_path / ARRAYS) as file:
        arrays = dict(file)
    for change in ({"terms": {"words": [], "characters": []}}, {"settings": None}, {"terms": {}}):
        (tmp_path / DESCRIPTION).write_text(json.dumps(description | change))
        with pytest.raises(DataError, match="is damaged"):
            load_encoder(tmp_path)
    (tmp_path / DESCRIPTION).write_text(json.dumps(description))
    np.savez(tmp_path / ARRAYS, **(arrays | {"projection": arrays["projection"][:-1]}))
    with pytest.raises(DataError, match="is damaged"):
        load_encoder(tmp_path)
    np.savez(tmp_path / ARRAYS, **(arrays | {"weights_words": 1e300 * arrays["weights_words"].astype(float)}))
    with pytest.raises(DataError, match="is damaged"):
        load_encoder(tmp_path)
    np.savez(tmp_path / ARRAYS, **(arrays | {"projection": np.array([{}], object)}))
    with pytest.raises(DataError, match=r"cannot be read .*'projection' holds Python objects.*Train again"):
        load_encoder(tmp_path)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"input": "filename"}, "'input' is unknown"),  # it would read the files that texts name
        ({"ngram_range": [1, 10**9]}, "ngram_range"),
        ({"ngram_range": []}, "ngram_range"),
        ({"analyzer": "magic"}, "analyzer is 'magic'"),
        ({"token_pattern": "("}, "token_pattern"),
        ({"token_pattern": "(a)(b)"}, "token_pattern"),
    ],
)
def test_only_known_options_of_a_vectoriser_are_taken(tmp_path, options, reason):
    TextEncoder.fit(sentences()[0]).to_files(tmp_path)
    description = json.loads((tmp_path / DESCRIPTION).read_text())
    description["settings"]["words"] |= options
    (tmp_path / DESCRIPTION).write_text(json.dumps(description))
    with pytest.raises(DataError, match=f"is damaged .of the words, .*{reason}"):
        load_encoder(tmp_path)
