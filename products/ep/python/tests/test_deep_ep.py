# SPDX-License-Identifier: BSD-3-Clause
"""gin_ep.deep_ep has the names and arguments of DeepEP V1: a recorded table. Needs no library, and no torch."""

import importlib
import inspect
import os
import sys
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = types.ModuleType("torch")
    torch.int64 = object()
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    torch.zeros = list
STANDS_IN = "torch" not in sys.modules


def setUpModule():
    """Without torch, enough of it to import gin_ep.deep_ep. torch_ranks.py tests calls on tensors, with torch."""
    if STANDS_IN:
        sys.modules["torch"] = torch


def tearDownModule():
    """Other tests see that there is no torch."""
    if STANDS_IN:
        del sys.modules["torch"]


setUpModule()
from gin_ep import deep_ep, ht  # noqa: E402
from gin_ep.deep_ep import buffer  # noqa: E402

if not STANDS_IN:
    from gin_ep.deep_ep.utils import envs, math, testing  # noqa: F401

tearDownModule()

REQUIRED = inspect.Parameter.empty

# DeepEP V1 (309785a), low latency: (argument, default) in order.
SIGNATURES = {
    "Buffer.__init__": [
        ("group", REQUIRED),
        ("num_nvl_bytes", 0),
        ("num_rdma_bytes", 0),
        ("low_latency_mode", False),
        ("num_qps_per_rank", 24),
        ("allow_nvlink_for_low_latency_mode", True),
        ("allow_mnnvl", False),
        ("use_fabric", False),
        ("explicitly_destroy", False),
        ("enable_shrink", False),
        ("comm", None),
    ],
    "Buffer.destroy": [],
    "Buffer.is_sm90_compiled": [],
    "Buffer.set_num_sms": [("new_num_sms", REQUIRED)],
    "Buffer.capture": [],
    "Buffer.get_comm_stream": [],
    "Buffer.get_low_latency_rdma_size_hint": [
        ("num_max_dispatch_tokens_per_rank", REQUIRED),
        ("hidden", REQUIRED),
        ("num_ranks", REQUIRED),
        ("num_experts", REQUIRED),
    ],
    "Buffer.get_local_buffer_tensor": [
        ("dtype", REQUIRED),
        ("size", None),
        ("offset", 0),
        ("use_rdma_buffer", False),
    ],
    "Buffer.clean_low_latency_buffer": [
        ("num_max_dispatch_tokens_per_rank", REQUIRED),
        ("hidden", REQUIRED),
        ("num_experts", REQUIRED),
    ],
    "Buffer.low_latency_dispatch": [
        ("x", REQUIRED),
        ("topk_idx", REQUIRED),
        ("num_max_dispatch_tokens_per_rank", REQUIRED),
        ("num_experts", REQUIRED),
        ("cumulative_local_expert_recv_stats", None),
        ("dispatch_wait_recv_cost_stats", None),
        ("use_fp8", True),
        ("round_scale", False),
        ("use_ue8m0", False),
        ("async_finish", False),
        ("return_recv_hook", False),
    ],
    "Buffer.low_latency_combine": [
        ("x", REQUIRED),
        ("topk_idx", REQUIRED),
        ("topk_weights", REQUIRED),
        ("handle", REQUIRED),
        ("use_logfmt", False),
        ("zero_copy", False),
        ("async_finish", False),
        ("return_recv_hook", False),
        ("out", None),
        ("combine_wait_recv_cost_stats", None),
    ],
    "Buffer.get_next_low_latency_combine_buffer": [("handle", REQUIRED)],
    "Buffer.low_latency_update_mask_buffer": [("rank_to_mask", REQUIRED), ("mask", False)],
    "Buffer.low_latency_query_mask_buffer": [("mask_status", REQUIRED)],
    "Buffer.low_latency_clean_mask_buffer": [],
    "Buffer.get_dispatch_config": [("num_ranks", REQUIRED)],
    "Buffer.get_combine_config": [("num_ranks", REQUIRED)],
    "Buffer.get_dispatch_layout": [
        ("topk_idx", REQUIRED),
        ("num_experts", REQUIRED),
        ("previous_event", None),
        ("async_finish", False),
        ("allocate_on_comm_stream", False),
    ],
    "Buffer.dispatch": [
        ("x", REQUIRED),
        ("handle", None),
        ("num_tokens_per_rank", None),
        ("num_tokens_per_rdma_rank", None),
        ("is_token_in_rank", None),
        ("num_tokens_per_expert", None),
        ("topk_idx", None),
        ("topk_weights", None),
        ("expert_alignment", 1),
        ("num_worst_tokens", 0),
        ("config", None),
        ("previous_event", None),
        ("async_finish", False),
        ("allocate_on_comm_stream", False),
    ],
    "Buffer.combine": [
        ("x", REQUIRED),
        ("handle", REQUIRED),
        ("topk_weights", None),
        ("bias", None),
        ("config", None),
        ("previous_event", None),
        ("async_finish", False),
        ("allocate_on_comm_stream", False),
    ],
    "EventOverlap.__init__": [("event", None), ("extra_tensors", None)],
    "EventOverlap.current_stream_wait": [],
    "EventHandle.current_stream_wait": [],
    "Config.__init__": [
        ("num_sms", 20),
        ("num_max_nvl_chunked_send_tokens", 6),
        ("num_max_nvl_chunked_recv_tokens", 256),
        ("num_max_rdma_chunked_send_tokens", 6),
        ("num_max_rdma_chunked_recv_tokens", 256),
    ],
    "Config.get_nvl_buffer_size_hint": [("hidden_bytes", REQUIRED), ("num_ranks", REQUIRED)],
    "Config.get_rdma_buffer_size_hint": [("hidden_bytes", REQUIRED), ("num_ranks", REQUIRED)],
}

# Arguments that only gin_ep.deep_ep has. Each has a default.
OWN = {
    "Buffer.__init__": ["device", "window_bytes"],
    "Buffer.get_low_latency_rdma_size_hint": ["num_topk"],
    "Buffer.low_latency_dispatch": ["topk_weights", "use_nvfp4", "x_global_scale"],
    "Buffer.low_latency_combine": [
        "reduce", "overlap", "packed_recv_count", "comp_signal", "block_m", "threshold", "num_sms", "src_signals",
        "src_signal_expect_value",
    ],  # fmt: skip
}

# Methods that only gin_ep.deep_ep has.
OWN_METHODS = ["Buffer.reset"]


def parameters(name):
    """(argument, default) without self."""
    owner, _, method = name.partition(".")
    found = inspect.signature(getattr(getattr(deep_ep, owner), method)).parameters
    return [(argument, value.default) for argument, value in found.items() if argument != "self"]


class Signatures(unittest.TestCase):
    def test_each_begins_as_in_v1(self):
        for name, recorded in SIGNATURES.items():
            with self.subTest(name):
                seen = parameters(name)
                self.assertEqual(seen[: len(recorded)], recorded)
                self.assertEqual([argument for argument, _ in seen[len(recorded) :]], OWN.get(name, []))
                self.assertNotIn(REQUIRED, [default for _, default in seen[len(recorded) :]])

    def test_no_public_name_is_unrecorded(self):
        for owner in (deep_ep.Buffer, deep_ep.Config, deep_ep.EventOverlap, deep_ep.EventHandle):
            for name, value in vars(owner).items():
                if callable(value) or isinstance(value, staticmethod):
                    if not name.startswith("_"):
                        self.assertIn(f"{owner.__name__}.{name}", [*SIGNATURES, *OWN_METHODS])

    def test_an_absent_name(self):
        alone = object.__new__(deep_ep.Buffer)
        with self.assertRaisesRegex(AttributeError, "Buffer of gin_ep.deep_ep has no attribute 'surprise'$"):
            alone.surprise

    def test_names_of_the_module(self):
        self.assertIs(deep_ep.topk_idx_t, torch.int64)
        self.assertIs(deep_ep.utils.EventHandle, deep_ep.EventHandle)
        self.assertIs(deep_ep.utils.EventOverlap, deep_ep.EventOverlap)
        self.assertEqual(deep_ep.Buffer.num_sms, 20)
        with self.assertRaisesRegex(AttributeError, "'HybridEPBuffer', which is of DeepEP's branch hybrid-ep: use Buffer"):
            deep_ep.HybridEPBuffer


class Alias(unittest.TestCase):
    def test_the_module_deep_ep(self):
        alias = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "alias")
        sys.path.insert(0, alias)
        self.addCleanup(sys.path.remove, alias)
        module = importlib.import_module("deep_ep")
        self.addCleanup(sys.modules.pop, "deep_ep")
        self.addCleanup(sys.modules.pop, "deep_ep.utils", None)
        self.assertIs(module.Buffer, deep_ep.Buffer)
        self.assertIs(module.topk_idx_t, torch.int64)
        self.assertIs(importlib.import_module("deep_ep.utils").EventOverlap, deep_ep.EventOverlap)


@unittest.skipIf(STANDS_IN, "there is no torch")
class Ranges(unittest.TestCase):
    def test_calls_are_ranges_while_the_profiler_records(self):
        call, x = buffer._shown_call, torch.zeros(3)
        self.assertIs(call(max, "combine", x), max)
        profiler = torch.autograd.profiler
        with mock.patch.object(profiler, "_is_profiler_enabled", True), mock.patch.object(
            profiler, "record_function"
        ) as record:
            self.assertEqual(call(max, "combine", x)(1, 2), 2)
        record.assert_called_once_with("gin_ep.combine, 12 bytes")


class UnknownKeywords(unittest.TestCase):
    def test_the_error_names_all(self):
        given = [None] * 5  # self, and the arguments without a default
        with self.assertRaisesRegex(TypeError, r"low_latency_dispatch.*has no argument use_mxfp4, surprise$"):
            deep_ep.Buffer.low_latency_dispatch(*given, use_mxfp4=True, use_nvfp4=True, surprise=1)
        with self.assertRaisesRegex(TypeError, "low_latency_combine.*x_global_scale"):
            deep_ep.Buffer.low_latency_combine(*given, x_global_scale=None, overlap=True)
        with self.assertRaisesRegex(TypeError, "num_bytes"):
            deep_ep.Buffer(None, num_bytes=1)

    def test_other_wrong_calls_are_python_errors(self):
        with self.assertRaisesRegex(TypeError, "topk_idx"):
            deep_ep.Buffer.low_latency_dispatch(None)


class Parts(unittest.TestCase):
    def test_a_buffer_needs_ranks(self):
        with self.assertRaisesRegex(ValueError, "group"):
            deep_ep.Buffer(None)

    def test_number_of_sms_is_even(self):
        with self.assertRaisesRegex(ValueError, "even"):
            deep_ep.Buffer.set_num_sms(21)
        self.assertEqual(deep_ep.Buffer.num_sms, 20)

    def test_events(self):
        with deep_ep.Buffer.capture() as overlap:
            self.assertIsInstance(overlap.event, deep_ep.EventHandle)
        overlap.current_stream_wait()
        with self.assertRaisesRegex(ValueError, "not asynchronous"):
            deep_ep.EventOverlap().current_stream_wait()

    def test_config_reserves_nothing(self):
        config = deep_ep.Config(24, 8, 256)
        self.assertEqual(config.num_max_nvl_chunked_send_tokens, 8)
        self.assertEqual(config.get_nvl_buffer_size_hint(7168 * 2, 8), 0)

    def test_handles_of_other_makers_are_refused(self):
        with self.assertRaisesRegex(TypeError, "low_latency_dispatch"):
            buffer._dispatch_of((torch.zeros(()), None, 1, 2, 3))

    def test_reduce(self):
        self.assertEqual(buffer._reduce_of(None, True), "none")
        self.assertEqual(buffer._reduce_of("rank", True), "rank")
        with self.assertRaisesRegex(ValueError, "topk_weights"):
            buffer._reduce_of("rank", False)
        with self.assertRaisesRegex(ValueError, "possible"):
            buffer._reduce_of("sum", True)

    def test_an_ep_serves_its_own_shape(self):
        """And fewer experts a token. A new one gets the masks of the buffer."""
        made = []

        class Made:
            def __init__(self, comm, **keywords):
                self.masked = []
                made.append(self)

            def set_mask(self, *arguments):
                self.masked.append(arguments)

        one = object.__new__(deep_ep.Buffer)
        one.__dict__.update(
            _eps={}, _masks={1: True, 2: False}, low_latency_mode=True, enable_shrink=True, communicator=None,
            _device=types.SimpleNamespace(type="cpu"),
        )  # fmt: skip
        with mock.patch.object(buffer.ep, "Ep", Made):
            shapes = (4, 32, 8, 4), (4, 32, 8, 2), (4, 32, 9, 2), (4, 64, 8, 2), (5, 32, 8, 2), (4, 32, 8, 5)
            numbers = [made.index(one._ep(*shape)) for shape in shapes]
        self.assertEqual(numbers, [0, 0, 1, 2, 3, 4])
        self.assertEqual([each.masked for each in made], [[(1, True, None), (2, False, None)]] * 5)

    def test_room_for_rows_of_experts(self):
        """Counted rows; else each token at each of its experts, and what alignment adds to each own expert."""
        handle = types.SimpleNamespace(
            num_recv_tokens_per_expert_list=[], expert_alignment=4, num_max_tokens_per_rank=3, _counts=[0] * 3,
            topk_idx=types.SimpleNamespace(shape=(3, 5)),
        )  # fmt: skip
        room = deep_ep.ElasticBuffer._expanded_room
        self.assertEqual(room(types.SimpleNamespace(num_ranks=2), handle), 20)  # 2 * 3 * 2 + 2 * 3, rounded up to 4
        handle.num_recv_tokens_per_expert_list = [8, 4]
        self.assertEqual(room(types.SimpleNamespace(num_ranks=2), handle), 12)

    def test_checked_functions_keep_their_names(self):
        self.assertEqual(deep_ep.Buffer.low_latency_combine.__name__, "low_latency_combine")


@unittest.skipIf(STANDS_IN, "there is no torch")
class Pools(unittest.TestCase):
    """What Window asks of torch for tensors on a GPU; torch_ranks.py --cuda has the tensors."""

    def test_a_window(self):
        calls, make = mock.MagicMock(), mock.Mock()
        made = object.__new__(ht.Window)
        made.__dict__.update(comm=types.SimpleNamespace(device=3), _number=9, _pools=None)
        with mock.patch.multiple(
            torch.cuda, MemPool=calls.MemPool, use_mem_pool=calls.use, is_current_stream_capturing=calls.captured
        ), mock.patch.object(torch.cuda.memory, "CUDAPluggableAllocator", calls.Allocator), mock.patch.object(
            ht.ep, "native", lambda: types.SimpleNamespace(__file__="native.so")
        ):
            calls.MemPool.side_effect = range(10)
            calls.captured.return_value = False
            self.assertEqual(made.empty(make, (4, 8), "bf16"), make.empty.return_value)
            calls.use.assert_called_once_with(1, 3)
            calls.use.return_value.__exit__.assert_called_once()
            calls.captured.return_value = True
            made.empty(make, (4, 8), "bf16")
            self.assertEqual((made.mem_pool, calls.use.call_count), (0, 1))
            made.renew()
            self.assertEqual(made.mem_pool, 2)
        calls.Allocator.assert_called_once_with("native.so", "gin_ep_malloc_011", "gin_ep_free_011")
        make.empty.assert_called_with((4, 8), "bf16")


@unittest.skipIf(STANDS_IN, "there is no torch")
class OfTheTests(unittest.TestCase):
    """What DeepEP's own tests import from deep_ep.utils."""

    def test_casts(self):
        rows = torch.randn(5, 300, generator=torch.Generator().manual_seed(7))
        rows = (rows * torch.tensor([[1e-3], [1], [30], [0], [9]])).to(torch.bfloat16)
        codes, scales = math.per_token_cast_to_fp8(rows)
        self.assertEqual((codes.dtype, codes.shape, scales.shape), (torch.float8_e4m3fn, (5, 300), (5, 3)))
        back = math.per_token_cast_back(codes, scales)
        most = rows.abs().amax(dim=1, keepdim=True)
        self.assertTrue(((back - rows).abs() <= most / 28 * 1.01).all())  # half a step at the end of e4m3
        self.assertLess(math.calc_diff(back, rows), 1e-3)
        self.assertEqual(math.calc_diff(rows, rows), 0)
        exponents = torch.tensor([[127, 128, 126]] * 5, dtype=torch.uint8)
        words = torch.nn.functional.pad(exponents, (0, 1)).view(torch.int32)
        powers = torch.tensor([[1.0, 2.0, 0.5]] * 5)
        self.assertTrue(torch.equal(math.per_token_cast_back(codes, words), math.per_token_cast_back(codes, powers)))

    def test_unique(self):
        x = torch.tensor([[3, 3, -1, 1], [-1, -1, -1, -1], [0, 1, 2, 3]])
        math.inplace_unique(x, 4)
        self.assertEqual(x.tolist(), [[3, 1, -1, -1], [-1] * 4, [3, 2, 1, 0]])

    def test_grouped_scores(self):
        scores = torch.arange(1.0, 9.0).view(1, 8)
        chosen = math.create_grouped_scores(scores, torch.tensor([[1, 3]]), 4)
        self.assertEqual(chosen.tolist(), [[0, 0, 3, 4, 0, 0, 7, 8]])

    def test_numbers(self):
        self.assertEqual((math.ceil_div(7, 2), math.align(7, 4), math.align(8, 4)), (4, 8, 8))
        self.assertEqual(math.hash_tensor(torch.tensor([1, -3], dtype=torch.int32)), -2)


if __name__ == "__main__":
    unittest.main()
