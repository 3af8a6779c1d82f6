# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # cuda, home, out, arch, jobs, only, shared: products/nccl/test/programs/run
#
# deepep_v1.sh - DeepEP V1 on NCCL's device API (DeepEP's pull request 521): its extension by its own setup.py, with
# ENABLE_NCCL, and its low-latency test
#
# PYTHON has torch and ninja. Two processes use torch's own NCCL beside libgin-nccl. The test makes a communicator for every four
# experts of a rank. By the network all kernels are loaded first: a kernel that is loaded while another waits would hold up the
# copies for which that one may wait (gin_proxy(7)). internode.cu takes minutes of a CPU to compile; nvcc uses all CPUs. Not with
# -DGIN_CALLS: --split-compile gives functions more registers than kernels of 1,024 threads have, and nvlink refuses.

deepep_v1_folder=''

compile_deepep_v1()
{
	local part
	[ -z "$headers" ] || for part in internode_ll internode nccl_gin_backend; do # their registers beside NCCL's
		object "deepep_v1/$part" "$1/csrc/kernels/$part.cu" -DENABLE_NCCL -DDISABLE_AGGRESSIVE_PTX_INSTRS -rdc=true \
			--ptxas-options=--register-usage-level=10 "-I$1/csrc"
	done
	wanted deepep_v1/python || return 0
	has_torch deepep_v1/python || return 0
	deepep_v1_folder=$1
	# shellcheck disable=SC2016 # the inner shell expands
	try deepep_v1/python env LD_LIBRARY_PATH="$(beside_torch)" ENABLE_NCCL=1 NCCL_DIR="$home" CUDA_HOME="$cuda" MAX_JOBS="$jobs" \
		TORCH_CUDA_ARCH_LIST="${arch:3:-1}.${arch: -1}" NVCC_APPEND_FLAGS="-Xptxas -v --split-compile=0 ${NVCC_APPEND_FLAGS:-}" bash -c 'cd "$0" && exec "$@"' \
		"$1" "$python" setup.py build --build-base "$out/deepep_v1/build"
}

link_deepep_v1() { :; }

# deepep_v1_test NAME ARGUMENTS...: a row of test_low_latency.py, by one route, with the loading of kernels that suits it
deepep_v1_test()
{
	deepep_port=$((deepep_port + 1))
	[[ "deepep_v1/python $1" == *"$only"* ]] || return 0
	limit=$((limit * 3)) row "deepep_v1/python $1" yes - env PYTHONFAULTHANDLER=1 LD_PRELOAD=libstdc++.so.6 \
		LD_LIBRARY_PATH="$(beside_torch)" PYTHONPATH="$shared$(echo "$out"/deepep_v1/build/lib.*)" MASTER_PORT=$deepep_port \
		CUDA_MODULE_LOADING="${loading:-LAZY}" CUDA_DEVICE_MAX_CONNECTIONS=32 DEEP_EP_BACKEND=nccl \
		"$python" "$deepep_v1_folder/tests/test_low_latency.py" --num-processes 2 "${@:2}"
}

# By the network each communicator has threads of its own, which poll: two communicators, and 36 by the direct route.
rows_deepep_v1()
{
	local most
	most=$(registers "$1")
	row "$1" yes "${most:--}"
	[ "$1" = deepep_v1/python ] || return 0
	routes_of=direct deepep_v1_test "ll 16 experts" --num-experts 16
	routes_of=network loading=EAGER deepep_v1_test "ll 16 experts, network" --num-experts 16
	routes_of=direct deepep_v1_test "ll 288 experts, logfmt" --use-logfmt
}

# deepep_v1_times LOG: of rank 0, dispatch and combine
deepep_v1_times()
{
	sed -n 's/^\[rank 0\] Dispatch bandwidth: .*avg_t=\([0-9.]*\) us | Combine bandwidth: .*avg_t=\([0-9.]*\) us.*/, dispatch \1 us, combine \2 us/p' "$1" |
		head -n 1
}
