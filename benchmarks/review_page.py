"""Speed of the page of `tnlpad review` with many image files, in a headless Chromium beside the server.

A made-up run is written to a temporary folder, and the command is started on it as a user would. Each turn opens the
page in a new tab. It measures the time from the request of the page until the first picture is shown, then the times
between frames while the list of all samples is scrolled: by a wheel (100 pixels in a frame) and in a hurry (a whole
screen in a frame, so that every card is new). Without pauses of the page, a frame takes 16.7 ms. At the end it takes
the memory of the server.

    python -m benchmarks.review_page [--samples 200000] [--turns 5] [--save record.json]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from PIL import Image

from benchmarks.machine import leave, machine, versions
from benchmarks.review_server import memory, write_run
from tests.chromium import Chromium, chromium
from tnlpad.records.samples import read_samples

WIDTHS = {"desktop": 1280, "phone": 400}
PICTURES, SIDE = 200, 160  # different files, and their width in pixels
SCROLLED_SECONDS = 4
STEPS = {"wheel": "100", "hurry": "scroller.clientHeight"}  # pixels in a frame
NOTE_FIRST_PICTURE = """
document.addEventListener("load", event => {
  if (event.target.matches?.("img")) globalThis.firstPicture ??= performance.now();
}, true);
"""
SCROLL = """(async () => {
  const scroller = document.getElementById("scroller"), times = [];
  scroller.scrollTop = 0;
  let last = await new Promise(requestAnimationFrame);
  const end = last + %d;
  while (last < end) {
    scroller.scrollTop += %s;
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
})()"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--save", type=Path, help="write the record as JSON to this file")
    arguments = parser.parse_args()
    pages: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "runs" / "made"
        write_run(run, "files", arguments.samples)
        write_pictures(run)
        with serving(run) as (address, process), chromium() as browser:
            for name, width in WIDTHS.items():
                turns = [measure(browser, f"{address}#show=all", width) for _ in range(arguments.turns)]
                pages[name] = {"first_picture_seconds": spread([first for first, _ in turns])}
                for step in STEPS:
                    pages[name][step] = frames([time for _, times in turns for time in times[step]])
                print(name, pages[name], flush=True)
            megabytes = {"at the end": memory(process, "VmRSS"), "highest": memory(process, "VmHWM")}
    print(f"server, MB: {megabytes}")
    leave(
        {
            "benchmark": "review_page",
            "machine": machine("cpu"),
            "versions": versions(),
            "command": f"python -m benchmarks.review_page --samples {arguments.samples} --turns {arguments.turns}",
            "samples": arguments.samples,
            "turns": arguments.turns,
            "pages": pages,
            "server_megabytes": megabytes,
        },
        arguments.save,
    )


def write_pictures(run: Path) -> None:
    """Write the pictures of the run: some hundred files, to which all others are links."""
    generator = np.random.default_rng(0)
    originals = []
    for number in range(PICTURES):
        small = Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        originals.append(run.parent / f"{number}.jpg")
        small.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(originals[-1])
    paths = read_samples(run)["path"]
    for folder in {os.path.dirname(path) for path in paths}:
        os.makedirs(folder, exist_ok=True)
    for row, path in enumerate(paths):
        os.link(originals[row % PICTURES], path)


@contextmanager
def serving(run: Path) -> Iterator[tuple[str, int]]:
    """Start the command; yield the address of the page and the process."""
    command = [sys.executable, "-m", "tnlpad", "review", str(run), "--no-browser", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()


def measure(browser: Chromium, address: str, width: int) -> tuple[float, dict[str, list[float]]]:
    """Open the page once; return seconds until the first picture, and milliseconds between frames by way to scroll."""
    with browser.open("about:blank", width) as page:
        page.call("Network.setCacheDisabled", cacheDisabled=True)
        page.call("Page.addScriptToEvaluateOnNewDocument", source=NOTE_FIRST_PICTURE)
        page.call("Page.navigate", url=address)
        first = page.until("globalThis.firstPicture", seconds=60) / 1000
        page.until("document.getElementById('list').ariaBusy === 'false'")
        times = {name: page.run(SCROLL % (1000 * SCROLLED_SECONDS, step)) for name, step in STEPS.items()}
        assert page.complaints == [], page.complaints
    return first, times


def spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(values), 3), "highest": round(max(values), 3)}


def frames(times: Sequence[float]) -> dict[str, float]:
    """Return percentiles of the milliseconds between frames."""
    middle, high = np.percentile(times, [50, 95])
    return {"frames": len(times), "median_ms": round(float(middle), 1), "percentile_95_ms": round(float(high), 1)}


if __name__ == "__main__":
    main()
