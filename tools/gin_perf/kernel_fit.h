// SPDX-License-Identifier: BSD-3-Clause
// kernel_fit.h - what a kernel takes of an SM
#ifndef GIN_PERF_KERNEL_FIT_H
#define GIN_PERF_KERNEL_FIT_H

struct KernelFit {
	int registers = 0;    // of a thread; 0: a body ran on host threads
	int localBytes = 0;   // of a thread: stack and spilled registers
	int sharedBytes = 0;  // of a block
	int blocksPerSm = 0;  // blocks of the measured size that an SM runs at a time
	double occupancy = 0; // their threads, as a part of the threads that an SM can run
};

#endif
