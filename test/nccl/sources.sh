# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # nvcc, cuda, home, out, arch, sizes, gpus: test/nccl/run
#
# sources.sh - what test/nccl/run compiles and runs of each source tree
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
	elif [ -d "$1/nccl_ep" ]; then
		echo extensions
	else
		return 1
	fi
}

# nccl-tests: its device kernels, in the programs that it builds itself.
compile_nccl_tests()
{
	local part
	for part in alltoall all_reduce common util; do
		object "tests/$part" "$1/src/$part.cu" -DNCCL_OS_LINUX "-I$1/os" "-I$1/verifiable"
	done
	object tests/verifiable "$1/verifiable/verifiable.cu" -DNCCL_OS_LINUX
	try tests/timer "${CXX:-g++}" -std=c++17 -O2 -c "$1/src/timer.cc" -o "$out/tests/timer.o"
	try tests/os "${CXX:-g++}" -std=c++17 -O2 -DNCCL_OS_LINUX "-I$1/src" "-I$cuda/include" -c "$1/os/linux.cc" \
		-o "$out/tests/os.o"
}

link_nccl_tests()
{
	local part
	for part in alltoall all_reduce; do
		program "tests/$part" "$out/tests/"{"$part",common,util,verifiable,timer,os}.o
	done
}

# Device implementations by number; one thread for each GPU, data checked against the expected result.
rows_tests()
{
	local number most
	most=$(registers "$1")
	case $1 in
	tests/alltoall) set -- "$1" "1 2 3 4" ;;
	tests/all_reduce) set -- "$1" "1 2 3 4" ;;
	*) row "$1" yes "${most:--}" && return ;;
	esac
	for number in $2; do
		# shellcheck disable=SC2086 # sizes are words
		row "$1 -D $number" yes "$most" "$out/$1.program" -t "$gpus" -g 1 $sizes -R 2 -D "$number" -V 16 -c 1 \
			-n 5 -w 2
	done
}

# NCCL's examples, one thread for each GPU.
compile_nccl()
{
	local source name
	try examples/utils "${CXX:-g++}" -std=c++17 -O2 "-I$home/include" "-I$cuda/include" \
		"-I$1/docs/examples/common/include" -c "$1/docs/examples/common/src/utils.cc" -o "$out/examples/utils.o"
	for source in "$1"/docs/examples/0[67]_*/*/c/main.cu; do
		name=$(basename "$(dirname "$(dirname "$source")")")
		object "examples/${source:$((${#1} + 15)):2}_$name" "$source" "-I$1/docs/examples/common/include" \
			"-I$1/docs/examples/07_kernel_fusion/include"
	done
}

link_nccl()
{
	local name
	for name in "${names[@]}"; do
		case $name in examples/0*) program "$name" "$out/$name.o" "$out/examples/utils.o" ;; esac
	done
}

rows_examples()
{
	case $1 in
	examples/utils) row "$1" yes - ;;
	*) row "$1" yes "$(registers "$1")" "$out/$1.program" ;;
	esac
}

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
}

link_deepep() { :; }
rows_deepep() { row "$1" yes "$(registers "$1")"; }

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

# nccl-extensions: nccl_ep's library by its own Makefile (it compiles kernels when it runs), and nccl_m2n's kernels.
compile_extensions()
{
	local source
	try nccl_ep/library make -C "$1/nccl_ep" -j"$jobs" "CUDA_HOME=$(cuda_without_nccl)" "NCCL_HOME=$home" "BUILDDIR=$out/nccl_ep/build" \
		"NVCC_GENCODE=-gencode=arch=compute_${arch#sm_},code=$arch" lib
	for source in "$1"/nccl_m2n/src/*.cu; do
		object "nccl_m2n/$(basename "$source" .cu)" "$source" "-I$1/nccl_m2n/src" "-I$1/nccl_m2n/include"
	done
}

link_extensions() { :; }
rows_nccl_ep() { row "$1" yes -; }

# Two files have no kernel.
rows_nccl_m2n()
{
	local most
	most=$(registers "$1")
	row "$1" yes "${most:--}"
}

# verdict NAME LOG: what a program that ended with 0 says of its data
verdict()
{
	local wrong
	case $1 in
	tests/*)
		wrong=$(sed -n 's/^# Out of bounds values *: *\([0-9]*\).*/\1/p' "$2")
		if [ "${wrong:-x}" = 0 ]; then
			echo "ok, $(sed -n 's/^# Avg bus bandwidth *: *\([0-9.]*\).*/\1/p' "$2") GB/s"
		else
			refused "$2" || echo "wrong: ${wrong:-no result}"
		fi
		;;
	*)
		if grep -q "FAILED" "$2"; then
			echo "wrong"
		elif grep -q "PASSED\|SUCCESS" "$2"; then
			echo ok
		else
			refused "$2" || echo "wrong: no verdict"
		fi
		;;
	esac
}

# refused LOG: the program says that it needs what libgin does not have
refused()
{
	grep -qi "requires multimem support\|requires CUDA P2P\|does not support multimem\|expected 1 for" "$1" &&
		echo "refused"
}
