"""Attack the program for a while, and count broken promises."""
import argparse, os, time, tempfile
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks.faults import samples
os.environ.update(samples.SINGLE_THREADED)
from benchmarks.faults.case import Case
from benchmarks.faults.inputs import KINDS
from benchmarks.faults.mangled import Inputs
import torch, pyarrow.parquet, openpyxl, sklearn.neighbors, PIL.Image, tnlpad.cli.check, tnlpad.fitting, tnlpad.data.own.inspect, tnlpad.suspects.prediction_files, tnlpad.training.checkpoint
PIL.Image.init(); torch.set_num_threads(1)
print("threads", len(os.listdir("/proc/self/task")))

def main():
    p = argparse.ArgumentParser(); p.add_argument("--minutes", type=float, default=1); p.add_argument("--seed", type=int, default=1); p.add_argument("--batch", type=int, default=50); p.add_argument("--kind"); p.add_argument("--repeat")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as f:
        os.environ["TNLPAD_CACHE"] = f + "/cache"
        inputs = Inputs(Path(f))
        if a.repeat:
            case = Case.named(a.repeat)
            for x in inputs.attack([case], a.seed): print(x.kind, x.detail)
            return
        end = time.time() + 60 * a.minutes
        n = Counter(); bad = defaultdict(list); spent = Counter()
        while time.time() < end:
            for kind in [a.kind] if a.kind else KINDS:
                t = time.time()
                inputs.sample(kind)
                if n[kind] == 0: print(kind, "sample", round(time.time() - t, 2))
                t = time.time()
                cases = [Case(part="mangled", kind=kind, number=n[kind] + i) for i in range(a.batch)]
                for x in inputs.attack(cases, a.seed): bad[x.kind].append(x)
                n[kind] += a.batch; spent[kind] += time.time() - t
                if time.time() > end: break
        for kind in n: print(f"{kind:22} {n[kind]:6} {1000*spent[kind]/n[kind]:8.1f} ms")
        for kind, xs in sorted(bad.items(), key=lambda x: -len(x[1])):
            print(f"== {len(xs)} x {kind}: {xs[0].case}"); print(xs[0].detail)
main()
