"""Faults for `benchmarks.soak`: mangled inputs, flipped bits, kills and full disks."""
