/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h - libgin-stream.so: the device calls that a host puts on a stream
 *
 * One thread of a kernel makes them, where nvcc has built the plug-in, or the calling thread, for
 * ranks without a GPU.
 */
#ifndef GIN_LIB_STREAM_STREAM_H
#define GIN_LIB_STREAM_STREAM_H

#include "gin.h"

#define STREAM_PLUGIN "libgin-stream.so"
#define STREAM_SYMBOL "ginStreamCalls"

enum streamStep {
	streamPut,    /* a put, which raises `signal` unless `value` is 0; its source is read */
	streamSignal, /* adds `value` to the peer's `signal` */
	streamWait    /* adds `value` to the shadow of `signal`, and waits for that value */
};

struct streamJob {
	const ginDevComm *dc; /* ginDevComm.self */
	uint32_t step;	      /* enum streamStep */
	uint32_t context, signal;
	int32_t peer; /* not of a wait */
	uint64_t value;
	ginWindow_t dst, src;
	uint64_t dstOff, srcOff, bytes;
};

/* The GPU's clock, in pinned host memory: the kernel answers each question. */
struct streamClock {
	uint64_t now;
	uint32_t asked, answered; /* questions 1 to STREAM_CLOCK_ROUNDS */
};

#define STREAM_CLOCK_ROUNDS 16u

struct streamCalls {
	size_t size;
	int kernels; /* built with a kernel for GPUs */
	/*
	 * Loads the kernel for the current context: CUDA may wait for running kernels meanwhile.
	 * Returns NULL, or the reason why there is no kernel.
	 */
	const char *(*load)(void);
	/* Returns NULL, or why CUDA refuses. `stream` is a cudaStream_t of the current context. */
	const char *(*launch)(const struct streamJob *job, void *stream);
	/* Launches the kernel that answers; it ends by itself if it is not asked. */
	const char *(*clock)(struct streamClock *clock, void *stream);
	/* Makes the calls on this thread: for a rank without a GPU. */
	void (*run)(const struct streamJob *job);
};

#endif
