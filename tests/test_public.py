import tnlpad


def test_every_public_name_resolves():
    assert len(tnlpad.__all__) >= 4
    for name in tnlpad.__all__:
        assert getattr(tnlpad, name) is not None
    assert set(dir(tnlpad)) == set(tnlpad.__all__)
