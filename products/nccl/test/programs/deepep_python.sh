# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # cuda, home, out, arch, jobs, only, shared: products/nccl/test/programs/run
#
# deepep_python.sh - DeepEP's Python side: its extension by its own setup.py, and its tests of the elastic buffer
#
# PYTHON has torch, ninja and the wheel of NVSHMEM, which the extension's older kernels are linked with. In DeepEP's
# folder, third-party/fmt is there. Each test starts two processes, which use torch's own NCCL for their references:
# libgin-nccl and NCCL are in one process. Kernels are compiled when a test needs them.
#
# Each test has the loading of kernels that suits it: torch has so many kernels that loading all of them takes seconds. But
# test_pp launches one of torch's for the first time while a send waits for a copy engine, and queues a copy after it. With fewer
# than 32 connections the queued copy may hold up the copy of the send (gin_proxy(7)).
#
# Some compilers link a part of libstdc++ into the extension. Its std::regex then looks for facets that the locale, of
# torch's libstdc++, does not have, and DeepEP ends by SIGSEGV before its first kernel: so libstdc++ is loaded first.

python=${PYTHON:-python3}
deepep_folder='' deepep_port=${MASTER_PORT:-8361}

# What is missing for the extension
deepep_python_lacks()
{
	[ -e "$1/third-party/fmt/include/fmt/format.h" ] || { echo "there is no third-party/fmt" && return; }
	"$python" -c '
import importlib.util as util, importlib.metadata as metadata
for name in "torch", "ninja", "setuptools":
    if not util.find_spec(name):
        raise SystemExit(f"{name} is missing")
if not any("nvshmem" in (d.metadata["Name"] or "") for d in metadata.distributions()):
    raise SystemExit("the wheel of NVSHMEM is missing")' 2>&1
}

compile_deepep_python()
{
	local lacks
	wanted deepep/python || return 0
	lacks=$(deepep_python_lacks "$1")
	[ -z "$lacks" ] || { echo "left out: deepep/python: $lacks" && return; }
	deepep_folder=$1
	# shellcheck disable=SC2016 # the inner shell expands
	try deepep/python env EP_NCCL_ROOT_DIR="$home" LDFLAGS="-L$home/lib -L$cuda/lib64/stubs -Wl,--no-as-needed -lgin-nccl -lgin" \
		CUDA_HOME="$cuda" MAX_JOBS="$jobs" TORCH_CUDA_ARCH_LIST="${arch:3:-1}.${arch: -1}" bash -c 'cd "$0" && exec "$@"' \
		"$1" "$python" setup.py --quiet build --build-base "$out/deepep/build"
}

# NICs are not needed within a domain, but a test divides by the rate that ibstat prints.
deepep_ibstat()
{
	mkdir -p "$out/deepep/bin"
	printf '#!/bin/sh\nprintf "CA '"'mlx5_0'"'\\n\\tCA type: MT4129\\n\\tPort 1:\\n\\t\\tRate: 400\\n"\n' >"$out/deepep/bin/ibstat"
	chmod +x "$out/deepep/bin/ibstat"
	command -v ibstat >/dev/null || echo "$out/deepep/bin:"
}

# deepep_test NAME TEST ARGUMENTS...: a row for one of the tests, with a port of its own; `loading`: lazy, if it is not set
deepep_test()
{
	local package libraries
	package=$(echo "$out"/deepep/build/lib.*)
	libraries=$(dirname "$(realpath "$home/lib/libgin.so")") # $home/lib has a libnccl.so.2, which torch must not find
	deepep_port=$((deepep_port + 1))
	[[ "deepep/python $1" == *"$only"* ]] || return 0
	# shellcheck disable=SC2016 # the inner shell expands
	routes_of=direct limit=$((limit * 4)) row "deepep/python $1" yes - env PYTHONFAULTHANDLER=1 LD_PRELOAD=libstdc++.so.6 LD_LIBRARY_PATH="$libraries" PYTHONPATH="$shared$package" PATH="$(deepep_ibstat)$PATH" \
		CUDA_MODULE_LOADING="${loading:-LAZY}" MASTER_PORT=$deepep_port EP_NCCL_ROOT_DIR="$home" EP_REUSE_NCCL_COMM=0 EP_SUPPRESS_NCCL_CHECK=1 \
		EP_JIT_CACHE_DIR="$out/deepep/jit" CUDA_HOME="$cuda" bash -c 'cd "$0" && exec "$@"' "$out/deepep" \
		"$python" "$deepep_folder/tests/elastic/$2.py" --num-processes 2 "${@:3}"
}

# test_ep has 144 cases, each with kernels of its own: the first one, for few tokens and for many. Then its measurements.
rows_deepep_python()
{
	local tokens
	deepep_test barrier test_barrier
	CUDA_DEVICE_MAX_CONNECTIONS=32 loading=EAGER deepep_test pp test_pp
	deepep_test agrs test_agrs
	deepep_test engram test_engram
	for tokens in 128 4096; do
		deepep_test "ep $tokens" test_ep --num-tokens $tokens --test-first-only --skip-perf-test
	done
	[ -z "${EP_ALL:-}" ] || deepep_test "ep 128, all cases" test_ep --num-tokens 128 --skip-perf-test
	for tokens in 128 4096; do
		deepep_test "times $tokens" test_ep --num-tokens $tokens --test-first-only --skip-check
	done
}

# deepep_times LOG: of rank 0, dispatch and combine
deepep_times() { sed -n 's/^ *[*@] EP: *0.* | \(dispatch\|combine\): .*(SU), \([0-9.]* us\),.*/, \1 \2/p' "$1" | tr -d '\n'; }
