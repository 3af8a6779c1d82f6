# SPDX-License-Identifier: BSD-3-Clause
"""ranks - operators of PyTorch's symmetric memory that use NCCL's device API, on libgin-nccl, beside torch's collectives

    ranks build SOURCES OUTPUT      # SOURCES: PyTorch's, or its torch/csrc/distributed/c10d/symm_mem/ops alone
    ranks run OUTPUT                # two processes, each with a GPU

GIN_NCCL_HOME is libgin's NCCL_HOME, or a folder with NCCL's own include and lib, to compare with: NCCL before 2.29 has what
all_to_all_permute needs alone. The operators are PyTorch's files, unchanged. dist.all_to_all_single() and
dist.all_reduce() over torch's own NCCL give the expected values, which are compared bit by bit. The last lines have times.
"""

import importlib.util
import os
import sys

import torch
import torch.distributed as dist
from torch.utils import cpp_extension

NAME = "gin_torch_symm"
OPERATORS = ("nccl_all_to_all_permute", "nccl_alltoall_vdev", "nccl_reduce_scatter_offset")
HEADERS = ("macros.hpp", "nccl_dev_cap.hpp", "nccl_devcomm_cache.hpp", "nccl_devcomm_manager.hpp", "nccl_device_shims.hpp",
           "nccl_extension.hpp", "NCCLSymmetricMemory.hpp")
FLAGS = ["-O3", "--expt-relaxed-constexpr", "--extended-lambda", "-DCUB_WRAPPED_NAMESPACE=at_cuda_detail", "-Xptxas", "-v"]  # PyTorch's
FOLDER = "torch/csrc/distributed/c10d/symm_mem"
HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("GIN_NCCL_HOME", "")
IS_OWN = os.path.exists(f"{HOME}/include/gin.h")
LIBRARIES = ["-lgin-nccl", "-lgin"] if IS_OWN else ["-l:libnccl.so.2"]


def build(sources, output):
    os.makedirs(f"{output}/include/{FOLDER}", exist_ok=True)
    for header in HEADERS:
        with open(f"{output}/include/{FOLDER}/{header}", "w", encoding="utf-8") as file:
            file.write("#include <stand_in.h>\n")
    count = 3 if IS_OWN or os.path.exists(f"{HOME}/include/nccl_device/reduce_copy.h") else 1
    defined = [f"-DOPERATORS={count}"]
    cpp_extension.load(
        NAME, [f"{HERE}/symmetric.cc"] + [f"{sources}/{FOLDER}/ops/{name}.cu" for name in OPERATORS[:count]],
        extra_include_paths=[f"{HOME}/include", f"{output}/include", HERE], build_directory=output, verbose=True,
        extra_cflags=["-O2"] + defined, extra_cuda_cflags=FLAGS + defined,
        extra_ldflags=[f"-L{HOME}/lib"] + LIBRARIES + [f"-Wl,-rpath,{HOME}/lib", "-Wl,-Bsymbolic"], is_python_module=False)


class Ranks:
    """this process's rank: checks of each operator"""

    def __init__(self, rank, ranks, output):
        self.rank, self.ranks = rank, ranks
        spec = importlib.util.spec_from_file_location(NAME, f"{output}/{NAME}.so")
        self.ops = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.ops)
        self.has_all = hasattr(self.ops, "reduce_scatter_offset")
        identity = [self.ops.unique_id() if rank == 0 else None]
        dist.broadcast_object_list(identity)
        self.ops.open(identity[0], rank, ranks)
        torch.manual_seed(rank)

    def meet(self):
        torch.cuda.synchronize()
        dist.barrier()

    def symmetric(self, *sizes, dtype):
        return self.ops.empty(list(sizes), torch.empty(0, dtype=dtype, device="cuda"))

    def filled(self, *sizes, dtype):
        """whole numbers, whose sums are exact in every type"""
        tensor = self.symmetric(*sizes, dtype=dtype)
        tensor.copy_(torch.randint(-64, 65, sizes, device="cuda"))
        return tensor

    def same(self, what, seen, expected):
        if not torch.equal(seen, expected):
            raise SystemExit(f"FAILED: {what}: rank {self.rank}: {(seen != expected).sum().item()} of {seen.numel()} differ")

    def exchanged(self, parts):
        """parts[p] goes to rank p"""
        parts = parts.contiguous()
        out = torch.empty_like(parts)
        dist.all_to_all_single(out, parts)
        return out

    def permute(self, rows, columns, dtype):
        p, what = self.ranks, f"all_to_all_permute {rows} x {columns} {dtype}"
        wide, tall = self.filled(rows, p * columns, dtype=dtype), self.filled(p * rows, columns, dtype=dtype)
        out = torch.full((p, rows, columns), 99, dtype=dtype, device="cuda")
        self.meet()
        self.ops.all_to_all_permute(wide, out, 1, 0)
        self.same(what, out, self.exchanged(wide.view(rows, p, columns).transpose(0, 1)))
        out = torch.full((rows, p, columns), 99, dtype=dtype, device="cuda")
        self.ops.all_to_all_permute(tall, out, 0, 1)
        self.same(what + " (0, 1)", out, self.exchanged(tall.view(p, rows, columns)).transpose(0, 1))
        self.meet()

    def vdev(self, most, width, dtype):
        """parts of half of `most` rows or more: the operator's first block writes over offsets that blocks which begin late read"""
        p = self.ranks
        splits, results = self.symmetric(p, dtype=torch.int64), self.symmetric(2, p, dtype=torch.int64)
        given, out = self.symmetric(p * most, width, dtype=dtype), self.symmetric(p * most, width, dtype=dtype)
        for turn in range(8):
            given.copy_(torch.randint(-64, 65, given.shape, device="cuda"))
            out.fill_(99)
            splits.copy_(torch.randint(most // 2, most + 1, (p,), device="cuda"))
            received = self.exchanged(splits.view(p, 1)).view(p)
            n, expected = received.sum().item(), out.clone()
            dist.all_to_all_single(expected[:n], given[: splits.sum().item()].contiguous(), received.tolist(), splits.tolist())
            self.meet()
            self.ops.all_to_all_vdev(given, out, splits, results)
            self.meet()
            self.same(f"all_to_all_vdev, turn {turn}", out, expected)
            self.same("splits", results[0], received)
            self.same("offsets", results[1], received.cumsum(0) - received)

    def reduce_scatter(self, rows, columns, dtype):
        p = self.ranks
        given = self.filled(rows, columns, dtype=dtype)
        total = given.clone()
        dist.all_reduce(total)
        for dim in 0, 1:
            size = given.shape[dim]
            edges = [size // 8, size // 4, size // 2, 3 * size // 4]  # two short blocks, two long ones
            for offsets in None, edges:
                ends = offsets or [(i + 1) * size // p for i in range(p)]
                blocks = [total.narrow(dim, begin, end - begin) for begin, end in zip([0] + ends[:-1], ends)]
                out = [torch.full_like(block.contiguous(), 99) for block in blocks[self.rank :: p]]
                self.meet()
                self.ops.reduce_scatter_offset(given, out, dim, offsets, None)
                for seen, block in zip(out, blocks[self.rank :: p]):
                    self.same(f"reduce_scatter_offset dim {dim}, {dtype}, offsets {offsets}", seen, block)
        self.meet()

    def time(self, what, ours, theirs):
        """microseconds of each call, in turns"""
        us = {}
        for name, call in (("libgin", ours), ("torch", theirs)) * 2:
            for _ in range(5):
                call()
            self.meet()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(50):
                call()
            end.record()
            torch.cuda.synchronize()
            us[name] = min(us.get(name, 1e9), begin.elapsed_time(end) * 1e3 / 50)
            self.meet()
        if self.rank == 0:
            print(f"time {what}: {us['libgin']:.1f} us, torch {us['torch']:.1f} us", flush=True)

    def times(self):
        p = self.ranks
        for rows in 16, 256, 4096:
            wide = self.filled(rows, p * 2048, dtype=torch.bfloat16)
            out = torch.empty((p, rows, 2048), dtype=torch.bfloat16, device="cuda")
            parts = torch.empty((p, rows, 2048), dtype=torch.bfloat16, device="cuda")

            def theirs():
                parts.copy_(wide.view(rows, p, 2048).transpose(0, 1))
                dist.all_to_all_single(out, parts)

            self.time(f"all_to_all_permute {rows} x {p} x 2048", lambda: self.ops.all_to_all_permute(wide, out, 1, 0), theirs)
            if not self.has_all:
                continue
            sums = [torch.empty((rows, 2048), dtype=torch.bfloat16, device="cuda")]
            whole = torch.empty((rows * 2048,), dtype=torch.bfloat16, device="cuda")
            self.time(f"reduce_scatter_offset {rows} x {p} x 2048",
                      lambda: self.ops.reduce_scatter_offset(wide, sums, 1, None, None),
                      lambda: dist.reduce_scatter_tensor(whole, wide.view(-1)))


def run(rank, ranks, output):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    test = Ranks(rank, ranks, output)
    for dtype in torch.bfloat16, torch.float32:
        for rows, columns in (1, 8), (7, 64), (129, 1024), (1024, 4096):
            test.permute(rows, columns, dtype)
        if test.has_all:
            test.vdev(300, 1024, dtype)
    for dtype in (torch.bfloat16, torch.float16, torch.float32) if test.has_all else ():
        for rows, columns in (8, 16), (64, 1000), (1024, 2048):
            test.reduce_scatter(rows, columns, dtype)
    test.times()
    test.meet()
    test.ops.close()
    dist.destroy_process_group()
    if rank == 0:
        print("PASSED")


if __name__ == "__main__":
    if sys.argv[1:2] == ["build"] and len(sys.argv) == 4:
        build(sys.argv[2], os.path.abspath(sys.argv[3]))
    elif sys.argv[1:2] == ["run"] and len(sys.argv) == 3:
        torch.multiprocessing.spawn(run, args=(2, os.path.abspath(sys.argv[2])), nprocs=2)
    else:
        raise SystemExit(__doc__)
