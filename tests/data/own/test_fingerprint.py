import numpy as np

from tests.data.own_files import class_folders, picture, save
from tnlpad.data.own import open_dataset
from tnlpad.data.own.fingerprint import fingerprint


def test_the_fingerprint_tells_data_apart_and_not_their_place(tmp_path):
    def fingerprint(name, change=lambda folder: None):
        folder = class_folders(tmp_path / name)
        change(folder)
        return open_dataset(folder).shape.fingerprint

    first = fingerprint("one")
    assert fingerprint("two") == first
    assert fingerprint("relabelled", lambda f: (f / "cat" / "0.png").rename(f / "dog" / "9.png")) != first
    assert fingerprint("changed", lambda f: save(f / "cat" / "0.png", picture(77))) != first
    assert fingerprint("renamed", lambda f: (f / "cat" / "2.png").rename(f / "cat" / "3.png")) != first
    assert fingerprint("more", lambda f: save(f / "cat" / "4.png", picture(78))) != first


def test_where_a_text_ends_is_part_of_it():
    def of(ids, class_names, parts):
        return fingerprint("files", ids, np.array([0, 1]), class_names, parts, (b"0", b"1"))

    lists = [
        (("ab", "c"), ("x", "y"), None),
        (("a", "bc"), ("x", "y"), None),
        (("ab", "c"), ("xy", ""), None),
        (("ab", "c"), ("x", "y"), ("train", "test")),
    ]
    assert len({of(*each) for each in lists}) == len(lists)
