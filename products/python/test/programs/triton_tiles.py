# SPDX-License-Identifier: BSD-3-Clause
"""triton_tiles.py - a product of tiles that arrive one by one: waits in a pipelined loop of Triton.

Any number of processes on GPUs, as torchrun starts them, or one. The consumer starts 50 ms before
the left neighbour sends a tile, so a load that Triton moves above its wait gets an old tile: that
is what the line "without after" counts. With after() every product has to be right. Both kernels
are loaded before one waits: CUDA may load a kernel only when running kernels have ended.
"""

import os
import time

import triton.language as tl

import libgin.triton as gin

LIMIT = tl.constexpr(5_000_000_000)  # nanoseconds
SIDE, TILES = 64, 8


@gin.jit(do_not_specialize=["tiles", "round"])
def consume(
    dc,
    a,
    b,
    c,
    status,
    tiles,
    round,
    SIDE: tl.constexpr,
    AFTER: tl.constexpr,
    STAGES: tl.constexpr,
):
    """c = the sum of a[i] @ b[i], SIDE x SIDE each. Signal i says that a[i] has arrived."""
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    total = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    result = 0
    for i in tl.range(0, tiles, num_stages=STAGES):
        waited = gin.wait_signal(dc, i, round, timeout=LIMIT)
        result |= waited
        tile = i * SIDE * SIDE + row * SIDE + column
        left, right = a, b
        if AFTER:
            left, right = gin.after(a, waited), gin.after(b, waited)
        total = tl.dot(tl.load(left + tile), tl.load(right + tile), total)
    tl.store(c + row * SIDE + column, total)
    tl.store(status, result)


@gin.jit(do_not_specialize=["tiles", "right"])
def produce(dc, inbox, outbox, status, right, tiles, nbytes):
    result = 0
    for i in range(0, tiles):
        at = i * nbytes
        result |= gin.put(dc, right, inbox, at, outbox, at, nbytes, signal=i, timeout=LIMIT)
    tl.store(status, result)


class Tiles:
    def __init__(self, comm):
        import torch

        import libgin.torch

        self.comm, self.torch = comm, torch
        shape = TILES, SIDE, SIDE
        options = {"dtype": torch.float16, "device": comm.device_index}
        self.a, self.source = (libgin.torch.empty(*shape, **options) for _ in range(2))
        self.b = torch.randint(-4, 5, shape, device="cuda").to(torch.float16)
        self.c = torch.zeros(SIDE, SIDE, device="cuda")
        self.status = torch.full((2,), -1, dtype=torch.int32, device="cuda")
        self.other = torch.cuda.Stream()

    def consume(self, dc, tiles, number, after, stages):
        options = {"SIDE": SIDE, "AFTER": after, "STAGES": stages}
        consume[(1,)](dc, self.a, self.b, self.c, self.status, tiles, number, **options)

    def produce(self, dc, inbox, outbox, tiles):
        right = (self.comm.rank + 1) % self.comm.size
        arguments = self.status[1:], right, tiles, 2 * SIDE * SIDE
        produce[(1,)](dc, inbox, outbox, *arguments)

    def round(self, dc, inbox, outbox, number, after, stages):
        """Whether the product is right, after one exchange."""
        torch, comm = self.torch, self.comm
        generator = torch.Generator().manual_seed(1000 * number + comm.rank)
        self.source.copy_(torch.randint(-4, 5, self.source.shape, generator=generator))
        torch.cuda.synchronize()
        comm.barrier()
        self.consume(dc, TILES, number, after, stages)
        time.sleep(0.05)
        with torch.cuda.stream(self.other):
            self.produce(dc, inbox, outbox, TILES)
        torch.cuda.synchronize()
        dc.raise_for(int(self.status[0] | self.status[1]))
        comm.barrier()
        want = torch.einsum("iab,ibc->ac", self.a.float().cpu(), self.b.float().cpu())
        return torch.equal(self.c.cpu(), want)

    def rounds(self, name, after, stages, count):
        with (
            self.comm.register(self.a) as inbox,
            self.comm.register(self.source) as outbox,
            self.comm.device(signals=TILES) as dc,
        ):
            try:
                self.consume(dc, 0, 1, after, stages)
            except RuntimeError as error:
                if "PassManager" not in str(error):
                    raise
                return print(f"tiles, {name}, {stages} stages: Triton refuses them", flush=True)
            self.produce(dc, inbox, outbox, 0)
            self.torch.cuda.synchronize()
            numbers = range(1, count + 1)
            good = sum(self.round(dc, inbox, outbox, i, after, stages) for i in numbers)
        what = f"tiles, {name}, {stages} stages: rank {self.comm.rank} of {self.comm.size}"
        print(f"{what}: {good} of {count} products right", flush=True)
        assert not after or good == count


def main():
    import torch

    import libgin

    count = int(os.environ.get("ROUNDS", "5"))
    with libgin.Communicator() as comm:
        torch.cuda.set_device(comm.device_index)
        tiles = Tiles(comm)
        tiles.rounds("after", True, 1, count)
        tiles.rounds("after", True, 3, count)
        tiles.rounds("without after", False, 3, count)


if __name__ == "__main__":
    main()
