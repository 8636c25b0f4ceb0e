"""Find wrong labels: from a run's per-sample scores to a ranked list, its files, its page and cleaned data."""

FORMATS = ("csv", "parquet", "label-studio", "cleanlab", "html")
DEFAULT_FORMATS = ("csv", "html")
