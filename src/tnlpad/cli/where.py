"""Where runs are carried out: on which device, on this machine or a cluster, how many at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tnlpad.cli.output import fail


def checked_device(name: str) -> str:
    """The device's name, if this machine has it."""
    from tnlpad.experiments.devices import device_named

    try:
        return device_named(name)
    except ValueError as error:
        fail(f"--{error}", code=2)


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where and how to carry out a plan; nothing here changes a number but the device."""

    executor: Literal["local", "ray"]
    jobs: int
    address: str | None
    send_back: bool
    out: Path
    root: Path | None
    device: str
    quiet: bool

    @property
    def on_ray(self) -> bool:
        return self.executor == "ray"

    @property
    def on_gpu(self) -> bool:
        return self.device.startswith("cuda")


def where_to_run(
    executor: Literal["local", "ray"],
    jobs: int | None,
    address: str | None,
    send_back: bool,
    out: Path,
    root: Path | None,
    device: str,
    dry_run: bool,
    quiet: bool,
) -> Where:
    """What the options of a command line mean; those that contradict each other are refused."""
    from tnlpad.experiments.executors import available_cores

    if executor == "local" and (address is not None or send_back):
        option = "--send-back" if send_back else "--address"
        fail(f"{option} is for --executor ray: add that, or leave {option} out.", code=2)
    # The machines of a cluster may have what this one has not, and a plan needs nothing.
    elsewhere = (executor == "ray" or dry_run) and device.partition(":")[0] in ("cpu", "cuda")
    chosen = device if elsewhere else checked_device(device)
    return Where(
        executor=executor,
        jobs=jobs or (1 if chosen.startswith("cuda") else available_cores()),
        address=address,
        send_back=send_back,
        out=out,
        root=root,
        device=chosen,
        quiet=quiet,
    )
