# SPDX-License-Identifier: BSD-3-Clause
"""What calls refuse, and with which words. Needs the library; ranks are threads."""

import ctypes
import gc
import os
import unittest
import weakref
from unittest import mock

import numpy as np

import gin_ep
from gin_ep import _tensor, ep

SHAPE = dict(experts=4, topk=2, hidden=32, max_tokens=4)


def alone(function):
    """Runs function(comm) on a communicator of one rank."""
    return gin_ep.run_threads(1, function)[0]


class Lifetimes(unittest.TestCase):
    def test_a_send_keeps_what_it_reads(self):
        """Temporaries, from the send until its result has received; NumPy has no order of a stream."""

        def sends(comm):
            with gin_ep.Ep(comm, **SHAPE) as layer:
                x, topk_idx = np.ones((4, 32), np.uint16), np.zeros((4, 2), np.int64)
                topk_idx[:, 1] = 1
                kept = [weakref.ref(x), weakref.ref(topk_idx)]
                received = layer.dispatch(x, topk_idx, phase="send")
                del x, topk_idx
                gc.collect()
                alive = [ref() is not None for ref in kept]
                received.receive()
                rows = received.x.copy()
                kept.append(weakref.ref(rows))
                combined = layer.combine(rows, received, np.zeros((4, 2), np.int64), phase="send")
                del rows
                gc.collect()
                alive.append(kept[2]() is not None)
                combined.receive()
                del received, combined
                gc.collect()
                return alive, [ref() is not None for ref in kept]

        self.assertEqual(alone(sends), ([True] * 3, [False] * 3))


    def test_a_call_on_a_stream_keeps_what_it_reads(self):
        def calls(comm):
            with gin_ep.Ep(comm, **SHAPE) as layer:
                x = np.ones((4, 32), np.uint16)
                kept = weakref.ref(x)
                received = layer.dispatch(x, np.zeros((4, 1), np.int64), stream=1)
                del x
                gc.collect()
                alive = kept() is not None
                del received
                gc.collect()
                return alive, kept() is not None

        self.assertEqual(alone(calls), (True, False))


class Described(ctypes.Structure):
    """DLTensor"""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("dims", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    ]  # fmt: skip


class Exchanges(unittest.TestCase):
    """Tensors of a type with DLPack's exchange functions, which give an offset in bytes and no strides."""

    def test_a_tensor(self):
        memory = np.zeros(4 * 32 + 16, np.uint16)
        first = 8 + -memory.ctypes.data % 16 // 2
        shape = (ctypes.c_int64 * 2)(4, 32)

        @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Described))
        def describe(tensor, out):
            place = ctypes.addressof(shape)
            out[0] = Described(memory.ctypes.data, (1, 0), 2, 4, 16, 1, place, None, 2 * tensor.first)
            return 0

        words = (ctypes.c_void_p * 7)(1, None, None, None, None, ctypes.cast(describe, ctypes.c_void_p), None)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        name = b"dlpack_exchange_api"

        class Tensor:
            __dlpack_c_exchange_api__ = new(ctypes.addressof(words), name, None)
            shape = (4, 32)

            def __init__(self, first):
                self.first = first

        def calls(comm):
            with gin_ep.Ep(comm, **SHAPE) as layer:
                x = memory[first : first + 128].reshape(4, 32)
                x[...] = np.arange(128).reshape(4, 32)
                topk_idx = np.zeros((4, 1), np.int64)
                out = layer.empty_like_received(x, 1)
                tensor = Tensor(first)
                layer.dispatch(tensor, topk_idx, out=out)
                return out.x[0, :4].tolist() == x.tolist()

        self.assertTrue(alone(calls))


class HighThroughput(unittest.TestCase):
    def test_pool_and_timeout(self):
        def calls(comm):
            layer = gin_ep.HtEp(comm, experts=4, topk=2, tokens=4, row_bytes=64, recv_tokens=2)
            rooms = [layer.info.htRecvTokens]
            layer.grow(3)
            rooms.append(layer.info.htRecvTokens)
            with mock.patch("gin_ep.ht._abi.call") as call:
                layer.counts(mock.Mock(ticket=1), timeout=0.5)
            layer.destroy()
            return rooms, call.call_args.args[3]

        self.assertEqual(alone(calls), ([2, 3], 500_000_000))

    def test_a_window(self):
        """Its memory is divided, and freed after its last tensor."""

        def calls(comm):
            make, native = _tensor.NumpyMaker(), ep.native()
            window = gin_ep.Window(comm, 4096)

            def new(size):
                array = window.empty(make, (size, 2), "uint8")
                at = _tensor.address(array) - window.address
                return array, at if 0 <= at < 4096 else None

            parts = [new(size)[0] for size in (1, 256, 257, 512)]  # take 512, 512, 1024 and 1024 bytes
            ends = [new(513)[1], new(512)[1]]
            del parts[1], parts[1]
            gaps = [new(769)[1], new(768)[1], new(1)[1]]
            window.close()
            window.close()
            after, opened = new(1)[1], [gin_ep.Window(comm, 4096)]
            del parts[:]
            opened += [gin_ep.Window(comm, 4096) for _ in range(63)]
            with self.assertRaisesRegex(RuntimeError, "64 windows of gin_ep are open"):
                gin_ep.Window(comm, 4096)
            numbers = [one._number for one in opened]
            for one in opened:
                one.close()
            return ends, gaps, after, window._number, numbers

        self.assertEqual(alone(calls), ([None, 3072], [None, 512, 512], None, 0, [1, 0, *range(2, 64)]))
        with self.assertRaisesRegex(ValueError, "size is 0: give bytes"):
            alone(lambda comm: gin_ep.Window(comm, 0))

    def test_functions_of_a_memory_pool(self):
        """torch calls them for a window's number; what has no room is elsewhere."""

        def calls(comm):
            first, window = gin_ep.Window(comm, 512), gin_ep.Window(comm, 2048)
            library = ctypes.CDLL(ep.native().__file__)
            malloc, free = getattr(library, "gin_ep_malloc_001"), getattr(library, "gin_ep_free_001")
            malloc.restype, malloc.argtypes = ctypes.c_void_p, (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
            free.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
            taken = [malloc(size, 0, None) for size in (1000, 1000, 600)]
            free(taken[0], 1000, 0, None)
            again = malloc(600, 0, None)
            first.close()
            window.close()
            for at in again, *taken[1:]:
                free(at, 1000, 0, None)
            return [0 <= at - window.address < 2048 for at in taken], again == taken[0]

        self.assertEqual(alone(calls), ([True, True, False], True))

    def test_numbers(self):
        """ctypes takes any integer, and drops the bits that do not fit."""
        shape = dict(experts=4, topk=2, tokens=4, row_bytes=64)

        def calls(comm):
            layer = gin_ep.HtEp(comm, **shape)
            goes = np.ones((4, 1), bool)
            wrong = [
                (name, 2**32 + 4, lambda **given: gin_ep.HtEp(comm, **{**shape, **given}))
                for name in ("experts", "topk", "tokens", "row_bytes", "scale_bytes", "recv_tokens", "sms")
            ]
            wrong += [
                ("timeout", -1, lambda **given: gin_ep.HtEp(comm, **shape, **given)),
                ("timeout", -1, lambda **given: layer.counts(mock.Mock(ticket=1), **given)),
                ("rows", 2**32 + 9, layer.grow),
                ("expertAlignment", -1, lambda **given: layer.notify(goes, np.ones(4, np.int32), alignment=-1)),
            ]
            for name, value, call in wrong:
                with self.assertRaisesRegex(ValueError, f"{name} is {value}: give"):
                    call(**{name: value})
            layer.destroy()

        alone(calls)


class Communicators(unittest.TestCase):
    def test_allgather(self):
        def gather(comm):
            return comm.rank, comm.size, comm.device, comm.allgather(bytes([comm.rank, 7]))

        parts = [bytes([rank, 7]) for rank in range(3)]
        self.assertEqual(gin_ep.run_threads(3, gather), [(rank, 3, None, parts) for rank in range(3)])

    def test_of_mpi4py(self):
        board = gin_ep.comm._Board(2)

        class Mpi:
            """What is used of an mpi4py communicator."""

            def __init__(self, rank):
                self.rank = rank

            def Get_rank(self):
                return self.rank

            def Get_size(self):
                return 2

            def allgather(self, data):
                return board.allgather(self.rank, data)

        def both(outer):
            with gin_ep.Communicator.from_mpi(Mpi(outer.rank), "none") as comm:
                return comm.rank, comm.size, comm.allgather(b"x")

        self.assertEqual(gin_ep.run_threads(2, both), [(rank, 2, [b"x", b"x"]) for rank in range(2)])

    def test_an_exception_of_a_rank_ends_all(self):
        def fails(comm):
            if comm.rank == 1:
                raise KeyError("rank 1 has failed")
            comm.barrier()

        with self.assertRaisesRegex(KeyError, "rank 1 has failed"):
            gin_ep.run_threads(3, fails)

    def test_an_exception_of_the_callers_allgather(self):
        def fails(data):
            raise KeyError("no network")

        with self.assertRaises(gin_ep.GinError) as caught:
            gin_ep.Communicator(fails, 0, 2, device="none")
        self.assertIsInstance(caught.exception.__cause__, KeyError)

    def test_too_few_bytes(self):
        with self.assertRaises(gin_ep.GinError) as caught:
            gin_ep.Communicator(lambda data: [b"", b""], 0, 2, device="none")
        self.assertIn("0 bytes of rank 0", str(caught.exception.__cause__))

    def test_devices(self):
        for wrong in ("abacus", "cuda:one"):
            with self.assertRaisesRegex(ValueError, f"device '{wrong}': give \"auto\""):
                gin_ep.Communicator(device=wrong)


class Eps(unittest.TestCase):
    def test_a_keyword_that_is_not_there(self):
        with self.assertRaisesRegex(TypeError, "colour, size"):
            gin_ep.Ep(None, size=1, colour=2, **SHAPE)

    def test_words_that_are_not_there(self):
        for keyword, value in (("reduce", "sum"), ("on_lost", "wait"), ("rows", ["fp4"])):
            with self.subTest(keyword), self.assertRaisesRegex(ValueError, f"{keyword} is .*; possible are"):
                alone(lambda comm: gin_ep.Ep(comm, **{**SHAPE, keyword: value}))

    def test_numbers(self):
        wrong = (
            ("experts", -1, ValueError, "experts is -1: give 0 to 4294967295"),
            ("topk", 2**32 + 2, ValueError, "topk is 4294967298: give 0 to"),
            ("hidden", 32.0, TypeError, "hidden is 32.0: give an integer"),
            ("max_tokens", "4", TypeError, "max_tokens is '4': give an integer"),
            ("max_sms", -1, ValueError, "max_sms is -1"),
            ("contexts", None, TypeError, "contexts is None"),
            ("timeout", -1, ValueError, "timeout is -1: give seconds"),
            ("timeout", float("inf"), ValueError, "timeout is inf: give seconds"),
            ("timeout", "1", TypeError, "timeout is '1': give seconds"),
            ("first_experts", [0, -1], ValueError, "first_experts is -1"),
        )
        for name, value, kind, words in wrong:
            with self.subTest(name), self.assertRaisesRegex(kind, words):
                gin_ep.bytes_needed(1, **{**SHAPE, name: value})

    def test_a_timeout_is_in_seconds(self):
        rest = dict(rows=["bf16"], reduce="none", first_experts=None, on_lost="error", max_sms=0, contexts=0)
        self.assertEqual(ep._config(1, **SHAPE, **rest, timeout=0.5).timeout, 500_000_000)

    def test_rows_that_are_not_aligned_are_copied(self):
        memory = np.arange(4096, dtype=np.uint16)
        start = -memory.ctypes.data % 16 // 2
        for more, copied in ((0, False), (2, True), (4, True), (8, False)):
            rows = memory[start + more :][:64].reshape(2, 32)
            ready = _tensor.rows_ready(rows)
            self.assertEqual(ready is not rows, copied)
            self.assertEqual(ready.ctypes.data % 16, 0)
            self.assertTrue((ready == rows).all())

    def test_the_librarys_words(self):
        with self.assertRaisesRegex(gin_ep.GinError, "ginEpCreate: .*hidden"):
            alone(lambda comm: gin_ep.Ep(comm, **{**SHAPE, "hidden": 33}))

    def test_too_few_first_experts(self):
        with self.assertRaisesRegex(ValueError, "first_experts has 1 numbers, 1 ranks need 2"):
            alone(lambda comm: gin_ep.Ep(comm, **SHAPE, first_experts=[0]))
        with self.assertRaisesRegex(ValueError, "8 ranks need 9"):
            gin_ep.bytes_needed(8, **SHAPE, first_experts=[0, 4])

    def test_bytes_grow_with_tokens(self):
        few = gin_ep.bytes_needed(8, **SHAPE)
        many = gin_ep.bytes_needed(8, **{**SHAPE, "max_tokens": 64})
        self.assertGreater(many, few)

    def test_the_memory_that_from_deepep_names(self):
        shape = dict(experts=288, topk=8, hidden=7168, max_tokens=128)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../docs/from-deepep.md")) as file:
            self.assertIn(f"else {gin_ep.bytes_needed(8, **shape) / 1e6:.0f} MB;", file.read())

    def test_a_destroyed_one(self):
        def use(comm):
            ep = gin_ep.Ep(comm, **SHAPE)
            ep.destroy()
            ep.destroy()
            ep.masks()

        with self.assertRaisesRegex(ValueError, "destroyed"):
            alone(use)


class Dispatches(unittest.TestCase):
    def refused(self, kind, words, x, topk, **keywords):
        def use(comm):
            with gin_ep.Ep(comm, **SHAPE) as ep:
                with self.assertRaisesRegex(kind, words):
                    ep.dispatch(x, topk, **keywords)

        alone(use)

    def test_arguments(self):
        x, topk = np.zeros((2, 32), np.uint16), np.zeros((2, 1), np.int64)
        self.refused(TypeError, "x has dtype float64", x.astype(np.float64), topk)
        self.refused(TypeError, "x is a list", x.tolist(), topk)
        self.refused(ValueError, "2 dimensions", x[0], topk)
        self.refused(ValueError, "layout is 'token'", x, topk, layout="token")
        self.refused(ValueError, "scales is 'f16'", x, topk, fp8=True, scales="f16")
        self.refused(gin_ep.GinError, "ginEpDispatch", np.zeros((5, 32), np.uint16), np.zeros((5, 1), np.int64))
        self.refused(gin_ep.GinError, "ginEpDispatch", x, topk.astype(np.float32))

    def test_memory_of_another_device(self):
        """No GPU is needed: the calls say that the ranks have one."""
        x, topk = np.zeros((2, 32), np.uint16), np.zeros((2, 1), np.int64)
        calls = ep.native().Calls(0, 0, 64)
        with self.assertRaisesRegex(ValueError, "x is on the CPU, the ranks use GPU 0"):
            calls.dispatch(x, None, topk, None, None, None, None, (None,) * 8, None, 1, 0, 0, 3)

    def test_handles(self):
        def use(comm):
            with gin_ep.Ep(comm, **SHAPE) as ep:
                x, topk = np.zeros((2, 32), np.uint16), np.zeros((2, 1), np.int64)
                received = ep.dispatch(x, topk)
                gaps = np.zeros(2 * len(received.handle), np.uint8)[::2]
                for wrong in (received.handle[1:], gaps, received.src_info):
                    with self.assertRaisesRegex(ValueError, "handle needs [0-9]+ bytes of uint8 without gaps"):
                        ep.combine(received.x, wrong, topk)
                for wrong in (None, 5):
                    with self.assertRaisesRegex(TypeError, "handle is a"):
                        ep.combine(received.x, wrong, topk)

        alone(use)

    def test_outputs_of_the_caller(self):
        def use(comm):
            with gin_ep.Ep(comm, **SHAPE) as ep:
                x, topk = np.full((2, 32), 0x3F80, np.uint16), np.zeros((2, 1), np.int64)
                out = ep.empty_like_received(x, 1)
                self.assertIs(ep.dispatch(x, topk, out=out), out)
                self.assertEqual(out.count.tolist(), [2, 0, 0, 0])
                out.count = out.count.astype(np.float32)
                with self.assertRaisesRegex(gin_ep.GinError, "recvCount"):
                    ep.dispatch(x, topk, out=out)

        alone(use)

    def test_strides_and_places(self):
        """x, topk_idx and the rows of combine are copied where the kernels could not read them."""

        def use(comm):
            with gin_ep.Ep(comm, **SHAPE) as ep:
                values = np.arange(2 * 32, dtype=np.uint16).reshape(2, 32)
                topk = np.zeros((2, 3), np.int64)[:, ::2]
                topk[...] = [[0, 1], [1, 2]]
                for wide, first in (40, 1), (33, 1), (36, 0):  # rows are 80, 66 or 72 bytes apart
                    x = np.zeros((2, wide), np.uint16)[:, first : first + 32]
                    x[...] = values
                    received = ep.dispatch(x, topk)
                    self.assertEqual(received.x[0, 0].tolist(), values[0].tolist())
                    self.assertEqual(received.x[1, :2].tolist(), values.tolist())
                self.assertEqual(received.count.tolist(), [1, 2, 1, 0])
                rows = np.zeros(received.x.shape[:2] + (40,), np.uint16)[..., 3:35]
                rows[0, 0] = 0x3F80
                once = ep.combine(rows, received, topk[:, :1])
                self.assertEqual(once.out[0].tolist(), [0x3F80] * 32)

        alone(use)

    def test_a_destroyed_one_in_calls(self):
        def use(comm):
            ep = gin_ep.Ep(comm, **SHAPE)
            ep.destroy()
            ep.dispatch(np.zeros((2, 32), np.uint16), np.zeros((2, 1), np.int64))

        with self.assertRaisesRegex(ValueError, "the Ep is destroyed"):
            alone(use)

    def test_received_twice(self):
        def use(comm):
            with gin_ep.Ep(comm, **SHAPE) as ep:
                received = ep.dispatch(np.zeros((2, 32), np.uint16), np.zeros((2, 1), np.int64), phase="send")
                received.receive()
                with self.assertRaisesRegex(RuntimeError, "nothing is left"):
                    received.receive()
                with self.assertRaisesRegex(RuntimeError, "nothing is left"):
                    ep.dispatch(np.zeros((2, 32), np.uint16), np.zeros((2, 1), np.int64)).receive()

        alone(use)

    def test_a_wrong_expert_is_recorded(self):
        def use(comm):
            with gin_ep.Ep(comm, **SHAPE) as ep:
                self.assertIsNone(ep.failure())
                try:
                    ep.dispatch(np.zeros((2, 32), np.uint16), np.array([[0, 1], [2, 4]]))
                except gin_ep.GinError as error:
                    self.assertRegex(str(error), "4")
                    return None
                return ep.failure()

        failure = alone(use)
        if failure is not None:
            self.assertEqual((failure.call, failure.expected, failure.seen), ("dispatch send", 3, 4))


class Masks(unittest.TestCase):
    def test_set_and_clear(self):
        def use(comm):
            with gin_ep.Ep(comm, **SHAPE) as ep:
                seen = [ep.masks()]
                ep.set_mask(1 - comm.rank, True)
                seen.append(ep.masks())
                ep.clear_masks()
                return seen + [ep.masks()]

        none = ([False, False], [False, False])
        for rank, seen in enumerate(gin_ep.run_threads(2, use)):
            self.assertEqual(seen, [none, ([False, False], [rank == 1, rank == 0]), none])


if __name__ == "__main__":
    unittest.main()
