# SPDX-License-Identifier: BSD-3-Clause
"""ranks.py N [--cuda | --hosts] - the backend of PyTorch's symmetric memory, by N processes with gloo

On tensors of the CPU by backend GIN_CPU, with --cuda on those of GPUs by backend GIN, a GPU for each rank, or for
several ranks where there are fewer GPUs; with --hosts the last third of the ranks is on another host, as far as
libgin knows. The cases run in one set of processes; in the last one rank 1 is killed.
"""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

import libgin.host as host
import libgin.torch
import libgin.torch_symm as gin

DIST_ERROR = torch.distributed.DistBackendError
CUDA, HOSTS = "--cuda" in sys.argv, "--hosts" in sys.argv
BACKEND = "GIN" if CUDA else "GIN_CPU"
if CUDA:
    ordinal = (int(sys.argv[1]) if len(sys.argv) > 3 else 0) % torch.cuda.device_count()
    torch.set_default_device(torch.device("cuda", ordinal))
    torch.cuda.set_device(ordinal)
DEVICE = torch.get_default_device()


def host_of(rank, size):
    return rank * 3 // (2 * size)


def raises(words, kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        assert words in str(error), f"{error!r} lacks {words!r}"
        return
    raise AssertionError(f"{function} did not raise {words!r}")


def meet():
    """All ranks come here, and what they have launched is done."""
    if CUDA:
        torch.cuda.synchronize()
    dist.barrier()


class Rank:
    def __init__(self, rank, size, path):
        self.rank, self.size, self.path = rank, size, path
        self.right, self.left = (rank + 1) % size, (rank - 1) % size
        self.join(0)

    def join(self, number):
        store = dist.FileStore(f"{self.path}/{number}", self.size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.size)
        self.group = dist.group.WORLD

    def symmetric(self, *shape, dtype=torch.float32, group=None):
        tensor = symm_mem.empty(*shape, dtype=dtype, device=DEVICE)
        return tensor, symm_mem.rendezvous(tensor, group or self.group)


def handles(r):
    tensor, handle = r.symmetric(1000)
    assert symm_mem.get_backend(DEVICE) == BACKEND
    assert (handle.rank, handle.world_size) == (r.rank, r.size)
    assert handle.buffer_size == 4000 and handle.signal_pad_size == 9216
    assert handle.multicast_ptr == 0
    assert tensor.eq(0).all()
    tensor.fill_(r.rank)
    handle.barrier(channel=1)
    assert handle.get_buffer(r.right, (1000,), torch.float32).eq(r.right).all()
    handle.barrier(channel=1)
    handle.get_buffer(r.right, (2, 5), torch.float32, 100).fill_(50 + r.rank)
    handle.put_signal(r.right, channel=2)
    handle.wait_signal(r.left, channel=2)
    assert tensor[100:110].eq(50 + r.left).all() and tensor[110:].eq(r.rank).all()
    handle.put_signal(r.right, channel=3)
    meet()
    raised = handle.get_signal_pad(r.rank).view(torch.int32).nonzero().flatten().tolist()
    assert raised == [3 * r.size + r.left], raised  # PyTorch's place of the word
    handle.wait_signal(r.left, channel=3)


def foreign(r):
    """Memory that is not ours."""
    assert symm_mem.rendezvous(torch.zeros(8), r.group) is None
    arguments = torch.zeros(8), torch.zeros(1), 0, 0, 0, r.group.group_name
    raises("is not symmetric memory", ValueError, gin.put_signal, *arguments)


def failures(r):
    tensor, handle = r.symmetric(8)
    words = f"rank {r.rank} of {r.size}: wait_signal on channel 4: no signal of rank {r.left} within 30 ms"
    raises(words, DIST_ERROR, handle.wait_signal, r.left, 4, 30)
    raises("maximum supported channel", RuntimeError, handle.barrier, 9216 // 4 // r.size)
    raises("must be in [0", RuntimeError, handle.put_signal, r.size, 0)
    if r.rank:
        raises("no signal of rank 0", DIST_ERROR, handle.barrier, 5, 50)
    meet()
    handle.barrier(channel=5)  # the round that failed
    gin.check(r.group, DEVICE)


def groups(r):
    """One tensor in several groups, of which each rank is in some; a group for the allocation."""
    pairs = [dist.new_group([first, first + 1]) for first in range(r.size - 1)]
    tensor, handle = r.symmetric(4)
    tensor.fill_(r.rank)
    for first, pair in enumerate(pairs):
        if r.rank not in (first, first + 1):
            continue
        both = symm_mem.rendezvous(tensor, pair)
        assert both.world_size == 2
        both.barrier()
        other = both.get_buffer(1 - both.rank, (4,), torch.float32)
        assert other.eq(2 * first + 1 - r.rank).all()
        both.barrier()
    make = torch._C._distributed_c10d._SymmetricMemory.empty_strided_p2p
    own = make((16,), (1,), torch.float32, DEVICE, r.group.group_name, 77)
    assert symm_mem.rendezvous(own, r.group).world_size == r.size
    again = torch._C._distributed_c10d._SymmetricMemory.rendezvous(own)
    assert again.world_size == r.size


def devices(r):
    """Tensors of all ranks on one GPU, then of each on its own, which for rank 0 is that GPU."""
    first = torch.device("cuda", 0)
    for device in first, DEVICE, first:
        tensor = symm_mem.empty(8, device=device).fill_(r.rank)
        torch.cuda.synchronize(device)
        handle = symm_mem.rendezvous(tensor, r.group)
        with torch.cuda.device(device):
            handle.barrier()
            got = handle.get_buffer(r.right, (8,), torch.float32)
            assert got.device == device and got.eq(r.right).all()
            handle.barrier()


def lifetimes(r):
    tensor, handle = r.symmetric(64)
    tensor.fill_(r.rank + 1)
    meet()
    del tensor  # the handle keeps the memory
    gc.collect()
    assert handle.get_buffer(r.left, (64,), torch.float32).eq(r.left + 1).all()
    handle.barrier()
    tensor, second = r.symmetric(64)
    del second
    tensor.fill_(3)
    for i in range(20):
        r.symmetric(32)[1].barrier()
    handle.barrier()


def names(r):
    """Groups with the names of older ones are other groups. Their tensors outlive them."""
    tensor, handle = r.symmetric(4)
    name = r.group.group_name
    gin.close(r.group, DEVICE)
    raises("the group is closed", DIST_ERROR, handle.barrier)
    second, second_handle = r.symmetric(4)
    dist.destroy_process_group()
    second_handle.barrier()
    r.join(1)
    third, third_handle = r.symmetric(4)
    assert r.group.group_name == name
    third.fill_(r.rank)
    third_handle.barrier()
    assert third_handle.get_buffer(r.right, (4,), torch.float32).eq(r.right).all()
    third_handle.barrier()
    second_handle.barrier()


def windows(r):
    """A kernel of libgin, on host threads, puts into a symmetric tensor."""
    tensor, handle = r.symmetric(64, dtype=torch.int32)
    source, _ = r.symmetric(64, dtype=torch.int32)
    source.fill_(r.rank + 7)
    to, of = libgin.torch.window(tensor[16:], r.group), libgin.torch.window(source, r.group)
    assert to.offset == 64 and to.nbytes == 192 and of.offset == 0
    dc = gin.communicator(r.group).device(signals=1)

    def kernel():
        what = to, to.offset, of, 0, 64
        signal_zero = host.STRONG, None, 0, 1
        posted = host.ginPut(dc, 0, r.right, *what, *signal_zero, host.NO_COUNTER, host.THREAD, 0)
        come = host.ginWaitSignal(dc, 0, None, 0, 1, host.THREAD, host.seconds(20))
        assert (posted, come) == (0, 0)

    host.launch(1, 1, kernel)
    assert tensor[16:32].eq(r.left + 7).all() and tensor[32:].eq(0).all() and tensor[:16].eq(0).all()
    dc.close()


def reduces(r):
    """PyTorch's own kernel, which takes pointers and pads; then one of ours in a graph that is replayed."""
    name = r.group.group_name
    tensor, handle = r.symmetric(4096, dtype=torch.bfloat16)
    for turn in range(20):
        tensor.fill_(r.rank + turn)
        total = torch.ops.symm_mem.one_shot_all_reduce(tensor, "sum", name)
        assert total.eq(sum(range(r.size)) + turn * r.size).all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        handle.get_buffer(r.right, (4096,), torch.bfloat16).add_(1)
        handle.barrier(channel=8)
    tensor.zero_()
    handle.barrier(channel=9)
    for _ in range(50):
        graph.replay()
    handle.barrier(channel=9)
    assert tensor.eq(50).all()
    gin.check(r.group, DEVICE)


def operators(r):
    """In a graph of torch.compile, and beside one."""
    name, size = r.group.group_name, r.size
    whole, handle = r.symmetric(size, 8)
    inbox, _ = r.symmetric(8)

    def gather(whole, x):
        torch.ops.gin_symm.all_gather(whole, x * 2, 6, name)
        return whole + 1

    def shift(inbox, x):
        torch.ops.gin_symm.put_signal(inbox[4:], x[:3] + 1, r.right, 1, 7, name)
        torch.ops.gin_symm.wait_signal(inbox, r.left, 7, name)
        return inbox * 1

    x = torch.full((8,), float(r.rank))
    wanted = torch.arange(size).view(size, 1).expand(size, 8) * 2 + 1
    for function in gather, torch.compile(gather, fullgraph=True, backend="eager"):
        assert function(whole, x).eq(wanted).all()
        handle.barrier()
        whole.zero_()
        handle.barrier()
    for function in shift, torch.compile(shift, fullgraph=True, backend="eager"):
        got = function(inbox[:], x[:])
        assert got[5:].eq(r.left + 1).all() and got[:5].eq(0).all(), got
        handle.barrier()
        inbox.zero_()
        handle.barrier()


def far(r):
    """Ranks of another host have no addresses here. What needs them says so; the rest works."""
    name, hosts = r.group.group_name, [host_of(rank, r.size) for rank in range(r.size)]
    near = [host == hosts[r.rank] for host in hosts]
    peer = near.index(False)
    whole, handle = r.symmetric(r.size, 8)
    assert [address != 0 for address in handle.buffer_ptrs] == near
    raises("across nodes", RuntimeError, handle.get_buffer, peer, (8,), torch.float32)
    words = "has no direct route to this rank"
    for use in "buffer_ptrs_dev", "signal_pad_ptrs", "signal_pad_ptrs_dev":
        raises(f"{use}: rank {peer} of host", DIST_ERROR, getattr, handle, use)
    raises(words, DIST_ERROR, handle.get_signal_pad, peer)
    for turn in range(5):
        torch.ops.gin_symm.all_gather(whole, torch.full((8,), 10.0 * turn + r.rank), 6, name)
        assert whole.eq(torch.arange(r.size).view(r.size, 1) + 10 * turn).all()
        handle.barrier()
    source, _ = r.symmetric(8)
    inbox, _ = r.symmetric(8)
    source.fill_(r.rank)
    torch.ops.gin_symm.put_signal(inbox[4:], source[2:5], r.right, 1, 7, name)
    torch.ops.gin_symm.wait_signal(inbox, r.left, 7, name)
    assert inbox[5:].eq(r.left).all() and inbox[:5].eq(0).all(), inbox
    arguments = inbox, torch.zeros(3), peer, 0, 7, name
    raises("the source is to be symmetric memory", DIST_ERROR, gin.put_signal, *arguments)
    groups = [dist.new_group([rank for rank in range(r.size) if hosts[rank] == host]) for host in (0, 1)]
    both = symm_mem.rendezvous(inbox, groups[hosts[r.rank]])  # the remedy
    assert both.signal_pad_ptrs and both.buffer_ptrs_dev and all(both.buffer_ptrs)
    both.barrier()
    for i in range(both.world_size):
        left = (near.index(True) + i - 1) % r.size
        assert both.get_buffer(i, (3,), torch.float32, 5).eq(left).all()
    both.barrier()


def absent(r):
    """A rank that does not come to the first rendezvous is named; Ctrl-C ends the wait."""
    pair = dist.new_group([0, 1])
    if r.rank == 0:
        tensor = symm_mem.empty(4, device=DEVICE)
        os.environ["GIN_TIMEOUT"] = "1"
        raises("rank 1 did not come", DIST_ERROR, symm_mem.rendezvous, tensor, pair)
        os.environ["GIN_TIMEOUT"] = "60"
        main = threading.main_thread().ident
        threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
        try:
            raises("interrupted", DIST_ERROR, symm_mem.rendezvous, tensor, pair)
            time.sleep(10)
            raise AssertionError("Ctrl-C was lost")
        except KeyboardInterrupt:
            pass
    meet()


def killed(r):
    """Barriers and signals end by the death; their limits are far beyond the test's."""
    tensor, handle = r.symmetric(4)
    handle.barrier()
    store = dist.distributed_c10d._get_default_store()
    if r.rank == 1:  # all others are out of the barrier
        store.wait([f"out {rank}" for rank in range(r.size) if rank != 1])
        os.kill(os.getpid(), signal.SIGKILL)
    store.set(f"out {r.rank}", "")
    began = time.monotonic()
    if CUDA:  # PyTorch's kernel, which knows no limit
        torch.ops.symm_mem.one_shot_all_reduce(tensor, "sum", r.group.group_name)
        torch.cuda.synchronize()
    raises("rank 1", DIST_ERROR, handle.barrier, 0, 600000)
    print(f"rank {r.rank}: barrier() raised {time.monotonic() - began:.2f} s after rank 1 was killed")
    raises("rank 1", DIST_ERROR, handle.wait_signal, 1, 1)
    raises("rank 1", DIST_ERROR, gin.check, r.group, DEVICE)
    raises("rank 1", DIST_ERROR, symm_mem.rendezvous, tensor, r.group)


if HOSTS:
    CASES = [far, absent, killed]
else:
    CASES = [handles, foreign, failures, groups, lifetimes, names, operators, absent, killed]
    CASES.insert(6, reduces if CUDA else windows)
if CUDA and torch.cuda.device_count() > 1:
    CASES.insert(4, devices)


def child(rank, size, path):
    symm_mem.set_backend(BACKEND)
    r = Rank(rank, size, path)
    for case in CASES:
        case(r)
        if rank == 0:
            print(f"ok: {case.__name__}", flush=True)


def environment(rank, size):
    if not HOSTS:
        return None
    hosts = {"GIN_HOSTID": str(host_of(rank, size)), "GIN_BACKEND": "proxy", "GIN_TRANSPORT": "ofi"}
    return {**os.environ, **hosts}


def main(size):
    with tempfile.TemporaryDirectory() as path:
        command = [sys.executable, os.path.abspath(__file__)]
        ranks = [
            subprocess.Popen([*command, str(r), str(size), path, *sys.argv[2:]], env=environment(r, size))
            for r in range(size)
        ]
        codes = [rank.wait() for rank in ranks]
    wanted = [-signal.SIGKILL if rank == 1 else 0 for rank in range(size)]
    if codes != wanted:
        sys.exit(f"the ranks ended with {codes}, expected {wanted}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        main(int(sys.argv[1]))
    else:
        child(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
