// SPDX-License-Identifier: BSD-3-Clause
//
// ffi.cc - libgin-ffi.so: the device calls of gin_functions(3) for host threads, as symbols
//
// For languages that compile no C++: libgin.host, and the interpreter of Triton kernels. Compiled
// with GIN_DEVICE_CHECKS: Python is slow, and its users should see sentences, not signals.
#define GIN_C_FN extern "C" __attribute__((visibility("default")))
#include <gin_device.cuh>

// GIN_DEVICE_ABI of the headers that this file was compiled with.
GIN_C_FN uint32_t ginFfiAbi(void)
{
	return GIN_DEVICE_ABI;
}

GIN_C_FN ginResult_t ginFfiLaunch(uint32_t grid, uint32_t block, void (*fn)(void *), void *arg)
{
	return ginHostLaunch(grid, block, fn, arg);
}

GIN_C_FN uint32_t ginFfiThread(void)
{
	return ginThreadIndex();
}

GIN_C_FN uint32_t ginFfiBlock(void)
{
	return ginBlockIndex();
}
