# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154 # cuda, home, out, arch, jobs, python: products/nccl/test/programs/run
#
# torch_symm.sh - PyTorch's operators of symmetric memory that use NCCL's device API, between two processes: ranks.py

# The folder of libgin.so, or of NCCL's own library. $home/lib of libgin has a libnccl.so.2, which torch must not find.
beside_torch() { [ -e "$home/lib/libgin.so" ] && dirname "$(realpath "$home/lib/libgin.so")" || echo "$home/lib"; }

# has_torch NAME: can PYTHON build extensions of torch?
has_torch()
{
	LD_LIBRARY_PATH=$(beside_torch) "$python" -c 'import torch, setuptools' 2>/dev/null && command -v ninja >/dev/null && return
	echo "left out: $1: torch, setuptools or ninja is missing"
	return 1
}

compile_torch_symm()
{
	wanted torch_symm/python && has_torch torch_symm/python || return 0
	try torch_symm/python env LD_LIBRARY_PATH="$(beside_torch)" GIN_NCCL_HOME="$home" CUDA_HOME="$cuda" MAX_JOBS="$jobs" \
		TORCH_CUDA_ARCH_LIST="${arch:3:-1}.${arch: -1}" "$python" products/nccl/test/programs/torch_symm/ranks.py build "$1" \
		"$out/torch_symm/build"
}

link_torch_symm() { :; }

# The operators load and store peers' memory. Their grids are at most 16 blocks of 128 threads for a peer, each of which copies rows
# one after the other: with long tensors they take the time of these loads, on NCCL as on libgin.
rows_torch_symm()
{
	local most
	most=$(registers "$1")
	row "$1" yes "${most:--}"
	deepep_port=$((deepep_port + 1))
	routes_of="direct nccl" elsewhere="n/a: no LSA team" limit=$((limit * 2)) row torch_symm/operators yes - env LD_LIBRARY_PATH="$(beside_torch)" \
		MASTER_PORT=$deepep_port CUDA_MODULE_LOADING=LAZY "$python" products/nccl/test/programs/torch_symm/ranks.py run \
		"$out/torch_symm/build"
}

torch_symm_verdict()
{
	grep -q '^PASSED$' "$1" || { echo "wrong: no verdict" && return; }
	echo "ok$(sed -n 's/^time \(.*\)/; \1/p' "$1" | tr -d '\n')"
}
