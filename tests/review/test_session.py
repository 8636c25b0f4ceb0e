from tnlpad.review.session import locked


def test_a_review_removes_what_a_killed_server_left_and_no_hidden_files_of_others(tmp_path):
    for name in (".x.tmp", ".server.json.12.tnlpad.tmp"):
        (tmp_path / name).write_text("half")
    with locked(tmp_path):
        assert [each.name for each in tmp_path.glob(".*.tmp")] == [".x.tmp"]
