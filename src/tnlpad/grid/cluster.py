"""The connection to a Ray cluster, and whether it has room."""

import logging
import math
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

CONNECT_TIMEOUT_SECONDS = 10


class RayUnavailable(Exception):
    """Ray is not installed, not reachable, or has no machine that is large enough."""


def import_ray() -> ModuleType:
    """Return Ray; raises RayUnavailable if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import, which reads it
    try:
        import ray
    except ImportError as error:
        raise RayUnavailable("Ray is not installed. Install it: pip install 'tnlpad[ray]'") from error
    module: ModuleType = ray
    return module


@contextmanager
def connected(ray: ModuleType, address: str | None) -> Iterator[None]:
    """Connect to the cluster within the block; an existing connection is used and kept."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    try:
        _check_reachable(address)
        # The output of jobs stays in Ray's logs, since stdout is for results.
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise RayUnavailable(
            f"No Ray cluster at {address or 'this machine'} ({error}). Check the address, or start one there: "
            "ray start --head. A cluster that asks for a token needs RAY_AUTH_MODE=token here as well."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise OSError if nothing listens there; Ray would retry for many minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_SECONDS).close()


def require_room(ray: ModuleType, needs: Mapping[str, float], workers: int = 1) -> None:
    """Raise RayUnavailable if the machines are not large enough for so many workers; Ray would wait for others.

    Args:
        ray: The module.
        needs: Number of GPUs and CPUs of each worker, as "GPU" and "CPU".
        workers: Number of workers at the same time.
    """
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = sum(_room(machine, needs) for machine in machines)
    if room >= workers:
        return
    there = "; ".join(f"{machine.get('GPU', 0):g} GPUs and {machine.get('CPU', 0):g} CPUs" for machine in machines)
    each = f"{needs['GPU']:g} GPUs and {needs['CPU']:g} CPUs"
    if workers == 1:
        missing = f"A run needs {each}, but no machine of the cluster has that many"
    else:
        missing = f"{workers} ranks need {each} each, but the cluster has room for {room:g}"
    raise RayUnavailable(f"{missing} ({there}). Request fewer.")


def _room(machine: Mapping[str, float], needs: Mapping[str, float]) -> float:
    """Return how many workers fit on a machine."""
    return min((machine.get(name, 0) // need for name, need in needs.items() if need), default=math.inf)
