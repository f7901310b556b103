"""What a call from Python costs beyond the library: both in one run, medians. `make bench`, or PYTHONPATH=build/release/python python tests/bench/python_calls.py"""

import statistics
import subprocess
import sys
import time

import numpy as np

import stickybit as sb
from stickybit import _calls, _core


def median_seconds(call, repeats):
    call()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


print(f"{'call from Python':<44} {'Python':>10} {'library':>10} {'ratio':>6}")
for s, heads, d, repeats in ((16, 1, 64, 200), (128, 1, 64, 100), (512, 2, 64, 20), (1024, 1, 128, 10), (4096, 1, 128, 3)):
    x = sb.round_to(np.random.default_rng(0).standard_normal((s, heads, d)), "bf16")
    checked = _calls.call(x, x, x)
    # In turns, so that what else the machine does meets both.
    python, library = [], []
    for _ in range(3):
        python.append(median_seconds(lambda: sb.attention(x, x, x, schedule="fa3"), repeats))
        library.append(statistics.median(_core.library_seconds(checked.core, "fa3", repeats + 1)[1:]))
    a, b = min(python), min(library)
    print(f"attention s={s} h={heads} d={d}".ljust(44), f"{a * 1e3:>8.3f}ms {b * 1e3:>8.3f}ms {a / b:>6.2f}")

for name, call in (("round_to, one number", lambda: sb.round_to(1.5, "bf16")), ("block_fma, one block", lambda a=np.ones(16, sb.formats["bf16"].dtype): sb.block_fma("sm90.wgmma.bf16.f32", a, a)),
                   ("gemm 64 x 64 x 64", lambda a=np.ones((64, 64), sb.formats["bf16"].dtype): sb.gemm(a, a))):
    print(name.ljust(44), f"{median_seconds(call, 300) * 1e3:>8.3f}ms")
x = np.random.default_rng(0).standard_normal(1_000_000)
print("round_to, a million numbers".ljust(44), f"{median_seconds(lambda: sb.round_to(x, 'bf16'), 5) * 1e3:>8.3f}ms")

costs = []
for _ in range(7):
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", "import numpy, stickybit"], capture_output=True, text=True, check=True)
    rows = {line.split("|")[2].strip(): int(line.split("|")[1]) / 1e3 for line in done.stderr.splitlines() if line.count("|") == 2 and "cumulative" not in line}
    costs.append((rows["stickybit"], rows["numpy"]))
print("import, beyond NumPy".ljust(44), f"{min(c[0] for c in costs):>8.3f}ms   (NumPy {min(c[1] for c in costs):.1f} ms)")
