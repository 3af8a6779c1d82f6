# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # nvcc, cuda, home, out, arch, jobs: products/nccl/test/programs/run
#
# contrib.sh - NVIDIA's programs beside NCCL: custom_algos, NIIN, and the tests of nccl_ep and nccl_m2n
#
# The tests of nccl_ep and nccl_m2n need googletest's sources in GTEST_DIR, whose default is the folder of Debian's package.

export GTEST_DIR=${GTEST_DIR:-/usr/src/googletest/googletest}
has_gtest()
{
	[ -e "$GTEST_DIR/include/gtest/gtest.h" ] && return
	echo "left out: $1: there is no googletest in $GTEST_DIR"
	return 1
}

# custom_algos: the all-to-all by LSA pointers, two processes by MPI. The all-reduce, which needs multicast memory, is compiled.
compile_custom_algos()
{
	local flags
	read -ra flags <<<"$(mpi_includes)"
	[ ${#flags[@]} -gt 0 ] || return 0
	object custom_algos/alltoall "$1/alltoall/main.cu" "${flags[@]}"
	object custom_algos/allreduce "$1/allreduce/main.cu" "${flags[@]}"
}

link_custom_algos()
{
	local name flags
	read -ra flags <<<"$(mpi_libraries)"
	for name in "${names[@]}"; do
		[ "$name" != custom_algos/alltoall ] || program "$name" "$out/$name.o" "${flags[@]}"
	done
}

rows_custom_algos()
{
	[ "$1" = custom_algos/alltoall ] || { row "$1" yes "$(registers "$1")" && return; }
	# shellcheck disable=SC2086 # the command is words
	row "$1" yes "$(registers "$1")" $processes "$out/$1.program" --max-msg $((1 << 20))
}

# NIIN, NVSHMEM's calls on NCCL's device API: its functional tests, on two GPUs of one process
compile_niin() { object niin/niin_test "$1/test/niin_test.cu" "-I$1/test/compat" "-I$1/include"; }
link_niin() { program niin/niin_test "$out/niin/niin_test.o" -lcuda -lrt; }
rows_niin() { row "$1" yes "$(registers "$1")" "$out/$1.program"; }

# nccl_ep's test programs, when its library is there
build_nccl_ep_tests()
{
	wanted nccl_ep/tests && [ "$(cat "$out/nccl_ep/library.rc")" = 0 ] && has_gtest nccl_ep/tests || return 0
	try nccl_ep/tests make -C "$1/nccl_ep/tests" -k -j"$jobs" "NVCC=$nvcc" "NCCL_HOME=$home" "BUILDDIR=$out/nccl_ep/build" \
		"NVCC_GENCODE=-gencode=arch=compute_${arch#sm_},code=$arch"
	wait
}

# Two ranks as processes, which meet by a file; they share a folder for the kernels that they compile when they run. Two domains on
# one host would need two host names (hosts.c).
rows_nccl_ep_tests()
{
	local test
	row "$1" yes -
	for test in "$out"/nccl_ep/build/test/nccl_ep/test_*; do
		[[ $test != *.o ]] || continue
		# shellcheck disable=SC2016 # the inner shell expands
		routes_of=direct row "nccl_ep/${test##*/}" yes - env "NCCL_EP_JIT_CACHE_DIR=$out/nccl_ep/jit" bash -c '
			cd "$(mktemp -d "$0/run.XXXXXX")" || exit
			"$1" --rank=1 --nranks=2 --uid-file="$PWD/uid" >rank1 2>&1 &
			"$1" --rank=0 --nranks=2 --uid-file="$PWD/uid"
			result=$?
			wait $! || { result=$? && cat rank1; }
			exit $result' "$out/nccl_ep" "$test"
	done
}

# nccl_m2n's correctness tests: ranks as threads, nvcc compiles the library's sources with the test. Its Makefile names
# libnccl.so by its path.
build_nccl_m2n_tests()
{
	wanted nccl_m2n/tests && has_gtest nccl_m2n/tests || return 0
	try nccl_m2n/tests env "NVCC_APPEND_FLAGS=-t 0" make -C "$1/nccl_m2n" -j"$jobs" "CUDA_HOME=$(cuda_without_nccl)" "NCCL_HOME=$home" \
		"BUILDDIR=$out/nccl_m2n/build" "GTEST_DIR=$GTEST_DIR" "NVCC_GENCODE=-gencode=arch=compute_${arch#sm_},code=$arch" \
		basic_api_test_local
}

rows_nccl_m2n_tests()
{
	row "$1" yes -
	row nccl_m2n/basic_api_test_local yes - "$out/nccl_m2n/build/bin/basic_api_test_local" -N 2
}

# gtest_verdict LOG: the counts of googletest
gtest_verdict()
{
	local passed skipped
	passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$1" | head -n 1)
	skipped=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$1" | head -n 1)
	if [ -z "$passed" ]; then
		grep -qi "^skip" "$1" && echo skipped || echo "wrong: no verdict"
	else
		echo "ok, $passed tests${skipped:+, $skipped skipped}"
	fi
}
