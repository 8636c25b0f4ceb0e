from tnlpad.cli.run_progress import epoch_line


def test_the_line_of_an_epoch_leaves_room_for_the_bar():
    judged = {"sigma": {"validation_loss": 12.3456}}
    record = {"epoch": 100, "train_loss": 12.3456, "validation_accuracy": 1.0, "test_accuracy": 1.0, "judged": judged}
    assert epoch_line(record, 100) == "100/100 loss 12.346 validation 12.346, 100.0 % test 100.0 %"
    assert len(epoch_line(record, 100)) <= 80 - 11 - 8  # the bar, and the time left
