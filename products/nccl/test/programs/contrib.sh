# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # nvcc, cuda, home, out, arch, jobs: products/nccl/test/programs/run
#
# contrib.sh - programs beside NCCL: NVIDIA's custom_algos and NIIN, the tests of nccl_ep and nccl_m2n, and gin_bench
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

# Without graphs: the baseline, ncclAlltoAll(), goes over CPUs here, and cannot be captured. By the network the LSA team is the rank
# alone: the program then compares the data of rank 0 with number 0, and that of other ranks wrongly, as it says.
rows_custom_algos()
{
	[ "$1" = custom_algos/alltoall ] || { row "$1" yes "$(registers "$1")" && return; }
	# shellcheck disable=SC2086 # the command is words
	routes_of=direct elsewhere="n/a: no LSA team" row "$1" yes "$(registers "$1")" $processes "$out/$1.program" --no-graph --max-msg $((1 << 20))
}

# NIIN, NVSHMEM's calls on NCCL's device API: its functional tests, on two GPUs of one process. They need LSA peers: they ask for no
# GIN, want pointers from nvshmem_ptr(), look at puts after nvshmem_fence(), which for GIN orders and does not wait, and NIIN has no
# scalar gets, strided puts or atomics without LSA (its README). niin/network, below, has puts by GIN.
compile_niin()
{
	object niin/niin_test "$1/test/niin_test.cu" "-I$1/test/compat" "-I$1/include"
	object niin/network products/nccl/test/programs/niin.cu "-I$1/include"
}

link_niin()
{
	local name
	for name in "${names[@]}"; do
		case $name in niin/*) program "$name" "$out/$name.o" -lcuda -lrt ;; esac
	done
}

rows_niin()
{
	[ "$1" = niin/network ] || local routes_of=direct elsewhere="n/a: no LSA team"
	row "$1" yes "$(registers "$1")" "$out/$1.program"
}

# nccl_ep's test programs, when its library is there
build_nccl_ep_tests()
{
	wanted nccl_ep/tests && [ "$(cat "$out/nccl_ep/library.rc")" = 0 ] && has_gtest nccl_ep/tests || return 0
	try nccl_ep/tests make -C "$1/nccl_ep/tests" -k -j"$jobs" "NVCC=$nvcc" "NCCL_HOME=$home" "BUILDDIR=$out/nccl_ep/build" \
		"NVCC_GENCODE=-gencode=arch=compute_${arch#sm_},code=$arch"
	wait
}

# Four ranks, as most of the tests want, as processes, which meet by a file. They share GPUs if there are fewer, and a folder for
# the kernels that they compile when they run. Two domains on one host would need two host names (hosts.c).
rows_nccl_ep_tests()
{
	local test
	row "$1" yes -
	for test in "$out"/nccl_ep/build/test/nccl_ep/test_*; do
		[[ $test != *.o ]] || continue
		# shellcheck disable=SC2016 # the inner shell expands
		routes_of=direct limit=$((limit * 3)) row "nccl_ep/${test##*/}" yes - env "NCCL_EP_JIT_CACHE_DIR=$out/nccl_ep/jit" bash -c '
			cd "$(mktemp -d "$0/run.XXXXXX")" || exit
			for rank in 1 2 3; do "$1" --rank=$rank --nranks=4 --uid-file="$PWD/uid" >rank$rank 2>&1 & done
			"$1" --rank=0 --nranks=4 --uid-file="$PWD/uid"
			result=$?
			for job in $(jobs -p); do wait "$job" || result=$?; done
			[ $result -eq 0 ] || cat rank?
			exit $result' "$out/nccl_ep" "$test"
	done
}

# nccl_m2n's correctness tests: ranks as threads, nvcc compiles the library's sources with the test. Its Makefile names
# libnccl.so by its path, and NCCL_HOME/include by -isystem. Compilers search the toolkit's folder, in which there may be another
# nccl.h, before those of -isystem, and ignore a -I of a folder that -isystem names: -I names a folder of links to the headers. With
# MPI also the test of processes, which share GPUs if there are fewer than ranks; it is not linked with MPI's C++ functions.
build_nccl_m2n_tests()
{
	local goals=basic_api_test_local
	wanted nccl_m2n/tests && has_gtest nccl_m2n/tests || return 0
	[ -z "$(mpi_includes)" ] || goals="MPI_HOME=$(ep_mpi) $goals basic_api_test_mpi"
	mkdir -p "$out/include" && ln -sfn "$home"/include/* "$out/include/"
	# shellcheck disable=SC2086 # the goals are words
	try nccl_m2n/tests env "NVCC_APPEND_FLAGS=-t 0 --split-compile=0 -I$out/include -DOMPI_SKIP_MPICXX ${NVCC_APPEND_FLAGS:-}" make -C "$1/nccl_m2n" -j"$jobs" "CUDA_HOME=$(cuda_without_nccl)" "NCCL_HOME=$home" \
		"BUILDDIR=$out/nccl_m2n/build" "GTEST_DIR=$GTEST_DIR" "NVCC_GENCODE=-gencode=arch=compute_${arch#sm_},code=$arch" $goals
}

# Most cases need 4 or 8 ranks. Two groups of tests run only when they are named; googletest then complains of parameters
# that the program leaves out.
rows_nccl_m2n_tests()
{
	local bin=$out/nccl_m2n/build/bin group ranks=${processes% 2}
	row "$1" yes -
	row nccl_m2n/basic_api_test_local yes - "$bin/basic_api_test_local" -N 2
	for group in local_collective_progress devcomm_fence_failures; do
		row "nccl_m2n/basic_api_test_local $group" yes - env "GTEST_FILTER=-GoogleTestVerification*" \
			"$bin/basic_api_test_local" -N 2 --filter "$group"
	done
	[ -e "$bin/basic_api_test_mpi" ] || return 0
	# shellcheck disable=SC2086 # the command is words
	limit=$((limit * 3)) row "nccl_m2n/basic_api_test_mpi, 8 ranks" yes - $ranks 8 "$bin/basic_api_test_mpi"
}

# gtest_count WORD LOG: of googletest, with colours or without
gtest_count() { sed -n "s/^\(.\[0;32m\)*\[  $1 *\] *\(.\[m\)*\([0-9]*\) test.*/\3/p" "$2" | head -n 1; }

# gtest_verdict LOG: the counts of googletest
gtest_verdict()
{
	local passed skipped
	passed=$(gtest_count PASSED "$1") skipped=$(gtest_count SKIPPED "$1")
	if [ -z "$passed" ]; then
		grep -qi "^skip" "$1" && echo skipped || echo "wrong: no verdict"
	else
		echo "ok, $passed tests${skipped:+, $skipped skipped}"
	fi
}

# gin_bench, crenal/nccl_deviceapi_bench: the benchmarks of GIN that use no names inside of NCCL; two processes by MPI
compile_gin_bench()
{
	local name flags
	read -ra flags <<<"$(mpi_includes)"
	[ ${#flags[@]} -gt 0 ] || { echo "left out: gin_bench: there is no MPI" && return; }
	for name in gin_put_signal_visibility gin_put_signal_pingpong_paper nccl_gin_{pingpong,negzero_pingpong,multipeer_pingpong,write_bw}_perf; do
		object "gin_bench/$name" "$1/test/$name.cu" "-I$1/src" "${flags[@]}"
	done
}

link_gin_bench()
{
	local name flags
	read -ra flags <<<"$(mpi_libraries)"
	for name in "${names[@]}"; do
		case $name in gin_bench/*) program "$name" "$out/$name.o" "${flags[@]}" ;; esac
	done
}

# gin_put_signal_pingpong_paper is not run: a kernel of its rank 1 first reads the signal that rank 0 may have raised by then, and
# waits for one more, on any library.
rows_gin_bench()
{
	local bytes
	[[ $1 != *paper ]] || { row "$1" yes "$(registers "$1")" && return; }
	for bytes in 8 65536 4194304; do
		# shellcheck disable=SC2046,SC2086 # the command is words
		row "$1 $bytes" yes "$(registers "$1")" $processes "$out/$1.program" --bytes $bytes --iters 200 $(gin_bench_options "$1")
	done
}

# gin_bench_options NAME: a check of the data, where the program offers one; visibility always checks, write_bw never does
gin_bench_options()
{
	case $1 in
	*visibility | *write_bw*) ;;
	*) echo --check ;;
	esac
}

# gin_bench_times LOG: the first time or bandwidth that the program prints
gin_bench_times() { grep -oE "(one_way_us|bw_gib_s)=[0-9.]+" "$1" | head -n 1 | sed "s/^/, /"; }
