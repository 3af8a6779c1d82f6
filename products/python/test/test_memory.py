# SPDX-License-Identifier: BSD-3-Clause
"""Memory: buffers, arrays of them, their ends."""

import gc
import re
import sys
import threading

import numpy as np
import pytest
from conftest import has_module, left_out, python

import libgin
from libgin import _dlpack, memory


def test_arrays_of_a_buffer():
    buffer = libgin.alloc(4096, "none")
    array, other = np.asarray(buffer), np.from_dlpack(buffer)
    array[:] = 7
    assert array.nbytes == 4096 and other.sum() == 7 * 4096
    assert array.ctypes.data == other.ctypes.data == buffer.address == buffer.data_ptr()
    assert not hasattr(buffer, "__cuda_array_interface__")
    assert buffer.__dlpack_device__() == (_dlpack.CPU, 0)
    assert "4096 bytes" in repr(buffer)


def test_memory_lives_as_long_as_its_arrays():
    buffer = libgin.alloc(4096, "none")
    array, other = np.asarray(buffer), np.from_dlpack(buffer)
    free = buffer._finalizer
    del buffer, array
    gc.collect()
    assert free.alive
    del other
    gc.collect()
    assert not free.alive


def test_a_capsule_that_nobody_takes():
    buffer = libgin.alloc(64, "none")
    free = buffer._finalizer
    capsule = buffer.__dlpack__()
    del buffer
    gc.collect()
    assert free.alive
    del capsule
    gc.collect()
    assert not free.alive and not _dlpack._lent
    with pytest.raises(BufferError):
        libgin.alloc(64, "none").__dlpack__(copy=True)


class OnlyDlpack:
    """An array of a package that has nothing but DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def test_the_memory_of_an_array_by_dlpack():
    array = np.zeros((3, 1, 40), dtype=np.float32)
    for part in (array, array[1:], array[:, :, None], array[0, 0, 5:5]):
        assert memory.span_of(OnlyDlpack(part)) == (part.ctypes.data, part.nbytes)
    for wrong in (array[:, :, ::2], array.T):
        with pytest.raises(ValueError, match="not"):
            memory.span_of(OnlyDlpack(wrong))
    with pytest.raises(TypeError, match="a list is neither"):
        memory.span_of([1])
    text = np.array(["ab", "c"])
    assert memory.span_of(text) == (text.ctypes.data, 2 * 2 * 4)


def test_the_lanes_and_the_offset_of_a_capsule():
    """NumPy and torch lend elements of one lane, from their first byte on."""
    buffer = libgin.alloc(4096, "none")

    class Vectors:
        def __dlpack__(self):
            made = buffer.__dlpack__()
            address = _dlpack._pointer_of(made, b"dltensor")
            tensor = _dlpack.DLTensor.from_address(address)
            tensor.shape[0], tensor.bits, tensor.lanes, tensor.byte_offset = 3, 16, 4, 64
            return made

    assert memory.span_of(Vectors()) == (buffer.address + 64, 3 * 4 * 2)


def test_a_read_only_array_by_dlpack():
    array = np.zeros(8)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="the array (is read-only|does not lend its memory)"):
        memory.span_of(OnlyDlpack(array))


def test_memory_in_a_child():
    code = (
        "import libgin, os, numpy as np\n"
        "comm = libgin.Communicator(device='none'); libgin.alloc(8, 'none')\n"
        "if not os.fork():\n"
        "    np.asarray(libgin.alloc(64, 'none'))[:] = 1\n"
        "    try: comm.register(None)\n"
        "    except libgin.InvalidUsageError as error: print('refused:', error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait(); comm.close()"
    )
    assert re.search("^refused: .*comm belongs to the process that forked this one", python(code), re.M)


def test_no_bytes():
    buffer = libgin.alloc(0, "none")
    assert buffer.address == 0 and memory.span_of(buffer) == (0, 0)


def test_host_memory():
    array = np.asarray(libgin.alloc_host(64, "none"))
    assert not array.any()


def test_memory_serves_later_communicators_and_outlives_them():
    with libgin.Communicator(device="none") as comm:
        array = np.asarray(comm.alloc(64))
        with comm.register(array):
            pass
    with libgin.Communicator(device="none") as comm, comm.register(array):
        array[:] = 3
    assert array.sum() == 3 * 64


def test_threads_allocate_and_free_at_one_time():
    def main():
        for _ in range(200):
            np.asarray(libgin.alloc(64, "none"))[:] = 1

    threads = [threading.Thread(target=main) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_arrays_at_the_end_of_the_process():
    code = (
        "import libgin, numpy as np\n"
        "class Keep: pass\n"
        "keep = Keep(); keep.a = np.from_dlpack(libgin.alloc(64, 'none')); keep.me = keep\n"
        "comm = libgin.Communicator(device='none')\n"
        "window = comm.register(libgin.alloc(64, 'none'))\n"
        "print('end')"
    )
    assert python(code).splitlines() == ["end"]


def test_torch():
    if not has_module("torch"):
        left_out("torch tensors", f"{sys.executable} has no torch")
    import torch

    from libgin import torch as gin_torch

    tensor = gin_torch.empty(4, 8, dtype=torch.bfloat16, device="none")
    tensor.fill_(3)
    assert tensor.shape == (4, 8) and tensor.is_contiguous()

    def body(comm):
        own = gin_torch.empty(16, dtype=torch.int64, device="none")
        own.fill_(comm.rank)
        with comm.register(own) as window:
            comm.barrier()
            other = gin_torch.peer_tensor(window, 1 - comm.rank, own)
            seen = other.tolist()
            comm.barrier()
        with pytest.raises(ValueError, match="contiguous"):
            comm.register(own.view(4, 4).t())
        return seen

    assert libgin.run_threads(2, body) == [[1] * 16, [0] * 16]
