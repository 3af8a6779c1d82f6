# SPDX-License-Identifier: BSD-3-Clause
"""Times of calls and of kernels, as DeepEP's tests take them. Needs a GPU."""

import contextlib
import json
import os
import tempfile

import torch
import torch.distributed as dist


def flush_l2_cache(enabled=True):
    """Writes 256 MB, so that the L2 cache has nothing of before."""
    if enabled:
        torch.zeros(int(256e6) // 4, dtype=torch.int, device="cuda")


def bench(fn, num_warmups=50, num_tests=50, post_fn=None, flush_l2=True):
    """(mean, least, most) seconds of a call on the current stream, by events. The first one is left out."""
    torch.cuda.synchronize()
    for _ in range(num_warmups):
        fn()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(num_tests)]
    for start, end in pairs:
        flush_l2_cache(flush_l2)
        start.record()
        fn()
        end.record()
        if post_fn is not None:
            post_fn()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) / 1e3 for start, end in pairs][1:]
    return sum(times) / len(times), min(times), max(times)


@contextlib.contextmanager
def _quiet(wanted):
    """Standard output and error of the process, and of its C libraries, go nowhere."""
    if not wanted:
        yield
        return
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w") as nowhere:
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
        try:
            yield
        finally:
            for number, old in zip((1, 2), kept):
                os.dup2(old, number)
                os.close(old)


def _profile(fn, num_tests, flush_l2, before):
    """torch's profile of the second half of the calls."""
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, schedule=schedule, acc_events=True) as profiler:
        for _ in range(2):
            for _ in range(num_tests):
                flush_l2_cache(flush_l2)
                before()
                fn()
            torch.cuda.synchronize()
            profiler.step()
    return profiler


def _kernels(profiler, trace_path):
    """(name, start, seconds) of each kernel, in order."""
    with tempfile.TemporaryDirectory() as folder:
        path = trace_path or os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
    kernels = [(event["name"], event["ts"], event["dur"] / 1e6) for event in events if event.get("cat") == "kernel"]
    return sorted(kernels, key=lambda kernel: kernel[1])


def bench_kineto(
    fn,
    kernel_names,
    num_tests=30,
    suppress_kineto_output=False,
    trace_path=None,
    flush_l2=True,
    barrier_comm_profiling=False,
    num_kernels_per_period=1,
    barrier=None,
):
    """Mean seconds of the kernels that have each name, by torch's profiler.

    A name must belong to one kernel at most. With num_kernels_per_period > 1: a list, for the first, second, ...
    kernel of each call.
    """
    names = (kernel_names,) if isinstance(kernel_names, str) else kernel_names
    if int(os.environ.get("EP_USE_NVIDIA_TOOLS", 0)):  # another profiler is in charge
        return 1 if isinstance(kernel_names, str) else (1,) * len(names)
    word = torch.ones(1, dtype=torch.float, device="cuda")
    barrier = barrier or (lambda: dist.all_reduce(word))

    def together():
        if barrier_comm_profiling:
            torch.cuda._sleep(20_000_000)  # so that all ranks have launched before a kernel begins
            barrier()

    fn()
    torch.cuda.synchronize()
    with _quiet(suppress_kineto_output):
        kernels = _kernels(_profile(fn, num_tests, flush_l2, together), trace_path)
    found = []
    for name in names:
        kinds = {kernel for kernel, _, _ in kernels if name in kernel}
        assert len(kinds) <= 1, f"{name} is in the names of {len(kinds)} kernels: {sorted(kinds)}"
        times = [seconds for kernel, _, seconds in kernels if name in kernel]
        assert len(times) % num_kernels_per_period == 0, f"{name}: {len(times)} kernels"
        parts = [times[i::num_kernels_per_period] for i in range(num_kernels_per_period)]
        means = [sum(part) / len(part) if part else 0 for part in parts]
        found.append(means if num_kernels_per_period > 1 else means[0])
    return found[0] if isinstance(kernel_names, str) else found
