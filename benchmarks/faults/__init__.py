"""Faults for `benchmarks.soak`: mangled inputs, flipped bits, kills and full disks."""

import os

# Before NumPy is imported: threads would make a fork unsafe, and tiny arrays slower.
SINGLE_THREADED = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ.update(SINGLE_THREADED)
