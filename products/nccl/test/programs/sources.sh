# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # nvcc, cuda, home, out, arch, sizes, gpus: products/nccl/test/programs/run
#
# sources.sh - what products/nccl/test/programs/run compiles and runs of each source tree
#
# A kind has compile_KIND FOLDER and link_KIND FOLDER. Names of rows begin with a word; rows_WORD
# NAME adds rows to the table.

kind_of()
{
	if [ -e "$1/src/alltoall.cu" ] && [ -d "$1/verifiable" ]; then
		echo nccl_tests
	elif [ -d "$1/docs/examples/06_device_api" ]; then
		echo nccl
	elif [ -d "$1/deep_ep/include/deep_ep/impls" ]; then
		echo deepep
	elif [ -e "$1/csrc/kernels/nccl_gin_backend.cu" ]; then
		echo deepep_v1
	elif [ -e "$1/include/niin/rma.h" ]; then
		echo niin
	elif [ -d "$1/torch/csrc/distributed/c10d/symm_mem/ops" ]; then
		echo torch_symm
	elif [ -d "$1/nccl_ep" ]; then
		echo extensions
	elif [ -e "$1/test/gin_put_signal_visibility.cu" ]; then
		echo gin_bench
	else
		return 1
	fi
}

# The compiler's and the linker's flags of the MPI that mpicxx is for.
mpi_includes() { mpicxx --showme:compile 2>/dev/null; }
mpi_libraries() { mpicxx --showme:link 2>/dev/null | tr ' ' '\n' | grep -v '^-Wl' | tr '\n' ' '; }

# Two processes, with the environment of this script.
processes="mpirun --bind-to none --oversubscribe -n 2"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# nccl-tests: its device kernels, in the programs that it builds itself. With --mpi the rows' names begin with tests_mpi.
tests=tests${mpi:+_mpi}
compile_nccl_tests()
{
	local part flags=()
	[ -z "$mpi" ] || read -ra flags <<<"-DMPI_SUPPORT $(mpi_includes)"
	for part in alltoall all_reduce common util; do
		object "$tests/$part" "$1/src/$part.cu" -DNCCL_OS_LINUX "${flags[@]}" "-I$1/os" "-I$1/verifiable"
	done
	object "$tests/verifiable" "$1/verifiable/verifiable.cu" -DNCCL_OS_LINUX
	try "$tests/timer" "${CXX:-g++}" -std=c++17 -O2 -c "$1/src/timer.cc" -o "$out/$tests/timer.o"
	try "$tests/os" "${CXX:-g++}" -std=c++17 -O2 -DNCCL_OS_LINUX "-I$1/src" "-I$cuda/include" -c "$1/os/linux.cc" \
		-o "$out/$tests/os.o"
}

link_nccl_tests()
{
	local part flags=()
	[ -z "$mpi" ] || read -ra flags <<<"$(mpi_libraries)"
	for part in alltoall all_reduce; do
		program "$tests/$part" "$out/$tests/"{"$part",common,util,verifiable,timer,os}.o "${flags[@]}"
	done
}

# Device implementations by number; data checked against the expected result. Number 0 are NCCL's own collectives on the
# host, which go over CPUs here.
rows_tests()
{
	local number most start=()
	most=$(registers "$1")
	case $1 in
	*/alltoall | */all_reduce) ;;
	*) row "$1" yes "${most:--}" && return ;;
	esac
	start=("$out/$1.program" -t "$gpus")
	# shellcheck disable=SC2086 # the commands are words
	[ -z "$mpi" ] || start=($processes "$out/$1.program" -t 1)
	for number in 1 2 3 4; do
		# shellcheck disable=SC2086 # sizes are words
		row "$1 -D $number" yes "$most" "${start[@]}" -g 1 $sizes -R 2 -D "$number" -V 16 -c 1 -n 5 -w 2
	done
}
rows_tests_mpi() { rows_tests "$@"; }

# NCCL's examples. With --mpi the rows' names begin with examples_mpi.
examples=examples${mpi:+_mpi}
compile_nccl()
{
	local source name flags=()
	[ -z "$mpi" ] || read -ra flags <<<"-DMPI_SUPPORT $(mpi_includes)"
	try "$examples/utils" "${CXX:-g++}" -std=c++17 -O2 "${flags[@]}" "-I$home/include" "-I$cuda/include" \
		"-I$1/docs/examples/common/include" -c "$1/docs/examples/common/src/utils.cc" -o "$out/$examples/utils.o"
	for source in "$1"/docs/examples/0[67]_*/*/c/main.cu; do
		name=$(basename "$(dirname "$(dirname "$source")")")
		object "$examples/${source:$((${#1} + 15)):2}_$name" "$source" "-I$1/docs/examples/common/include" \
			"-I$1/docs/examples/07_kernel_fusion/include"
	done
	[ ! -d "$1/contrib/custom_algos" ] || compile_custom_algos "$1/contrib/custom_algos"
}

link_nccl()
{
	local name flags=()
	[ -z "$mpi" ] || read -ra flags <<<"$(mpi_libraries)"
	for name in "${names[@]}"; do
		case $name in "$examples"/0*) program "$name" "$out/$name.o" "$out/$examples/utils.o" "${flags[@]}" ;; esac
	done
	link_custom_algos
}

rows_examples()
{
	case $1 in
	*/utils) row "$1" yes - ;;
	*)
		# shellcheck disable=SC2086 # the command is words
		row "$1" yes "$(registers "$1")" ${mpi:+$processes} "$out/$1.program"
		;;
	esac
}
rows_examples_mpi() { rows_examples "$@"; }

# DeepEP V2: its kernels, with the flags of its JIT, which nvcc extends by NVCC_APPEND_FLAGS: the hybrid kernels
# change their number of registers, and so cannot call functions. A row, its header, and a kernel with numbers of a usual
# size. Where DeepEP has multi-node numbers there are 2 hosts of 8 ranks.
deepep_kernels()
{
	cat <<-END
		dispatch_nvl dispatch dispatch_impl<true,true,false,24,4,8,8,14336,0,4096,256,8,1,17,1000000000>
		dispatch_gin dispatch dispatch_impl<false,true,false,24,4,8,8,14336,0,4096,256,8,1,17,1000000000>
		dispatch_hybrid hybrid_dispatch hybrid_dispatch_impl<true,false,24,4,4,4,2,8,14336,0,4096,256,8,1,17,1000000000>
		combine_nvl combine combine_impl<true,false,true,24,16,8,7168,4096,256,8,17,1000000000>
		combine_gin combine combine_impl<false,false,true,24,16,8,7168,4096,256,8,17,1000000000>
		combine_hybrid hybrid_combine hybrid_combine_impl<false,true,24,8,4,2,8,7168,4096,256,8,17,1000000000>
		barrier_nvl barrier barrier_impl<true,1,512,1,8,1000000000,false>
		barrier_gin barrier barrier_impl<false,2,512,2,8,1000000000,false>
		engram_fetch engram_fetch engram_fetch_impl<17,4096,512,0,4,8,1,0,256,ncclTeamTagWorld>
		engram_wait engram_fetch_wait engram_fetch_wait_impl<8,256>
		pp_send pp_send_recv pp_send_impl<8,8,200000,1000000000>
		pp_recv pp_send_recv pp_recv_impl<8,8,200000,1000000000>
	END
}

compile_deepep()
{
	local row header kernel flags
	mkdir -p "$out/deepep"
	while read -r row header kernel; do
		row=deepep/$row
		printf '#include <deep_ep/impls/%s.cuh>\nusing namespace deep_ep::elastic;\n' "$header" >"$out/$row.cu"
		printf 'static void __instantiate_kernel() { auto ptr = reinterpret_cast<void*>(&%s); }\n' "$kernel" >>"$out/$row.cu"
		flags=
		[[ $row != *_hybrid ]] || flags=-DGIN_NO_CALLS
		NVCC_APPEND_FLAGS=$flags try "$row" $nvcc -std=c++20 --diag-suppress=39,161,174,177,186,940,3012 --ptxas-options=--register-usage-level=10 \
			-Xptxas -v "-I$home/include" "-I$1/deep_ep/include" "-arch=${arch}a" -O3 --expt-relaxed-constexpr \
			--expt-extended-lambda -Xcompiler -fPIC,-O3,-fconcepts,-Wno-deprecated-declarations,-Wno-abi \
			-cubin -o "$out/$row.cubin" "$out/$row.cu"
	done < <(deepep_kernels)
	try deepep/run $nvcc -std=c++20 --diag-suppress=39,161,174,177,186,940,3012 -Xptxas -v "-I$home/include" \
		"-I$1/deep_ep/include" "-arch=${arch}a" -O3 --expt-relaxed-constexpr --expt-extended-lambda \
		-c products/nccl/test/programs/deepep.cu -o "$out/deepep/run.o"
	compile_deepep_python "$1"
}

link_deepep() { program deepep/run "$out/deepep/run.o"; }

# deepep.cu runs some of the kernels; they do not run on the proxy route.
rows_deepep()
{
	case $1 in
	deepep/run) routes_of="direct gdaki" row "$1" yes "$(registers "$1")" "$out/$1.program" ;;
	deepep/python) row "$1" yes - && rows_deepep_python ;;
	*) row "$1" yes "$(registers "$1")" ;;
	esac
}

# A folder like the CUDA toolkit's, without the NCCL that it may have: Makefiles name its include folder first.
cuda_without_nccl()
{
	local entry
	mkdir -p "$out/cuda/include"
	for entry in "$cuda"/*; do
		[ "${entry##*/}" = include ] || ln -sfn "$entry" "$out/cuda/${entry##*/}"
	done
	for entry in "$cuda"/include/*; do
		[[ ${entry##*/} == nccl* ]] || ln -sfn "$entry" "$out/cuda/include/${entry##*/}"
	done
	echo "$out/cuda"
}

# The folder above MPI's include folder with mpi.h.
ep_mpi()
{
	local folder
	folder=$(mpi_includes | tr ' ' '\n' | sed -n 's/^-I//p' | while read -r f; do [ ! -e "$f/mpi.h" ] || echo "$f"; done | head -n 1)
	dirname "$folder"
}

# nccl-extensions: nccl_ep's library and, where there is MPI, its test, by its own Makefile, and nccl_m2n's kernels. nccl_ep
# compiles its kernels with nvcc when it runs, and keeps them in the folder of NCCL_EP_JIT_CACHE_DIR.
compile_extensions()
{
	local source goals="lib"
	[ -z "$(mpi_includes)" ] || goals="MPI=1 MPI_HOME=$(ep_mpi) lib ep_test"
	# shellcheck disable=SC2086 # the goals are words
	try nccl_ep/library make -C "$1/nccl_ep" -j"$jobs" "CUDA_HOME=$(cuda_without_nccl)" "NCCL_HOME=$home" "BUILDDIR=$out/nccl_ep/build" \
		"NVCC_GENCODE=-gencode=arch=compute_${arch#sm_},code=$arch" $goals
	for source in "$1"/nccl_m2n/src/*.cu; do
		object "nccl_m2n/$(basename "$source" .cu)" "$source" "-I$1/nccl_m2n/src" "-I$1/nccl_m2n/include"
	done
	build_nccl_m2n_tests "$1"
}

# The test is linked again, with hosts.c and, with --one-gpu, one_gpu.c.
link_extensions()
{
	local build=$out/nccl_ep/build flags
	build_nccl_ep_tests "$1"
	[ -e "$build/test/nccl_ep/ep_test.o" ] && wanted nccl_ep/library || return 0
	read -ra flags <<<"$(mpi_libraries)"
	[ "$out/nccl_ep/hosts.o" -nt products/nccl/test/programs/hosts.c ] || ${CC:-cc} -O2 -c products/nccl/test/programs/hosts.c -o "$out/nccl_ep/hosts.o" || exit 1
	program nccl_ep/library "$build/test/nccl_ep/ep_test.o" "$out/nccl_ep/hosts.o" "-L$build/lib" -lnccl_ep -Xlinker -rpath -Xlinker "$build/lib" \
		"${flags[@]}" -lcuda
}

# Low latency, then high throughput; ep_test checks the data that experts get and give back.
# Each run compiles its kernels. ep_test starts the dispatch, and then loads the kernel of the combine. The load waits for
# running kernels, and holds up copies of the proxy: ranks on one GPU or one host, by the network, wait for each other
# then. While nvcc compiles the combine, the dispatch ends.
# -a ht with a rank in each domain wants experts and tokens by fours.
rows_nccl_ep()
{
	local arguments
	[ "$1" != nccl_ep/tests ] || { rows_nccl_ep_tests "$1" && return; }
	row "$1" yes -
	[ -e "$out/$1.program" ] || return 0
	for arguments in "-a ll" "-a ht -t 64 -e 8"; do
		# shellcheck disable=SC2016,SC2086 # the inner shell expands; the command is words
		row "nccl_ep/ep_test $arguments" yes - bash -c 'NCCL_EP_JIT_CACHE_DIR=$(mktemp -d "$0/jit.XXXXXX") exec "$@"' \
			"$out/nccl_ep" $processes "$out/$1.program" $arguments
	done
}

# Two files have no kernel.
rows_nccl_m2n()
{
	local most
	[ "$1" != nccl_m2n/tests ] || { rows_nccl_m2n_tests "$1" && return; }
	most=$(registers "$1")
	row "$1" yes "${most:--}"
}

# verdict NAME LOG: what a program that ended with 0 says of its data
verdict()
{
	local wrong
	case $1 in
	tests/* | tests_mpi/*)
		wrong=$(sed -n 's/^# Out of bounds values *: *\([0-9]*\).*/\1/p' "$2")
		if [ "${wrong:-x}" = 0 ]; then
			echo "ok, $(sed -n 's/^# Avg bus bandwidth *: *\([0-9.]*\).*/\1/p' "$2") GB/s"
		else
			refused "$2" || echo "wrong: ${wrong:-no result}"
		fi
		;;
	deepep/python*) echo "ok$(deepep_times "$2")" ;;
	deepep_v1/*) echo "ok$(deepep_v1_times "$2")" ;;
	torch_symm/*) torch_symm_verdict "$2" ;;
	gin_bench/*write_bw*) echo "ran, data not checked$(gin_bench_times "$2")" ;;
	gin_bench/*) grep -q "check=failed\|FAILED" "$2" && echo wrong || echo "ok$(gin_bench_times "$2")" ;;
	nccl_ep/test_* | nccl_m2n/basic*) gtest_verdict "$2" ;;
	custom_algos/*) [ "$(grep -c '^\[Correctness .*\] PASS' "$2")" = 2 ] && echo ok || refused "$2" || echo wrong ;;
	niin/*) sed -n 's/^Total: \([0-9]*\) passed, 0 failed$/ok, \1 tests/p' "$2" | grep . || echo wrong ;;
	*)
		if grep -q "FAILED\|check failed" "$2"; then
			echo "wrong"
		elif grep -q "PASSED\|SUCCESS" "$2"; then
			echo ok
		else
			refused "$2" || echo "wrong: no verdict"
		fi
		;;
	esac
}

# refused LOG: the program says that it needs what libgin does not have; or DeepEP calls cuStreamBatchMemOp() of CUDA 11,
# which the driver refuses (products/nccl/docs/deepep.md)
refused()
{
	! grep -q "cuda_driver.cu.*CUDA_ERROR_NOT_SUPPORTED" "$1" || { echo "refused by CUDA" && return; }
	grep -qi "requires multimem support\|requires CUDA P2P\|does not support multimem\|expected 1 for" "$1" &&
		echo "refused"
}
