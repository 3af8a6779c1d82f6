// SPDX-License-Identifier: BSD-3-Clause
// niin - NIIN's puts, signals, gets and barriers by GIN, between two GPUs of one process
//
// NIIN's own test needs LSA peers: it looks at puts after nvshmem_fence(). Here each PE looks at
// what its peer has put after the peer's signal, as NVSHMEM asks. Linked by
// products/nccl/test/programs/run.
#include "nvshmem.h"

#include <cstdio>
#include <cstdlib>

enum { PES = 2, MOST = 65536, ROUNDS = 50, THREADS = 128 };

#define NEED(call)                                                                                 \
	do {                                                                                       \
		if (call) {                                                                        \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call,                      \
				ncclGetLastError(nullptr));                                        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* The symmetric heap. */
struct Heap {
	unsigned source[MOST], put[MOST], signalled[MOST], got[MOST];
	unsigned word;
	uint64_t signal;
};

/* What a program saw wrong: puts, puts with a signal, gets, single words. */
struct Wrong {
	unsigned of[4];
};

__device__ unsigned valueOf(int pe, int round, size_t i)
{
	return (pe + 1) * 0x9e3779b9u ^ round * 0x85ebca6bu ^
	       static_cast<unsigned>(i) * 2654435761u;
}

__device__ void compare(unsigned *wrong, const volatile unsigned *seen, size_t n, int pe, int round)
{
	for (size_t i = threadIdx.x; i < n; i += blockDim.x)
		if (seen[i] != valueOf(pe, round, i))
			atomicAdd(wrong, 1);
}

__global__ void exchange(niinContext *context, size_t n, int first, Wrong *wrong)
{
	if (threadIdx.x == 0)
		niin_g_ctx = context;
	__syncthreads();
	Heap *heap = static_cast<Heap *>(niin_heap_base());
	const int me = nvshmem_my_pe(), peer = !me;

	for (int round = first; round < first + ROUNDS; round++) {
		for (size_t i = threadIdx.x; i < n; i += blockDim.x)
			heap->source[i] = valueOf(me, round, i);
		__threadfence_system();
		__syncthreads();
		if (threadIdx.x == 0) {
			nvshmem_uint_p(&heap->word, valueOf(me, round, n), peer);
			nvshmem_uint_put(heap->put, heap->source, n, peer);
			nvshmem_uint_put_signal(heap->signalled, heap->source, n, &heap->signal, 1,
						NVSHMEM_SIGNAL_ADD, peer);
			nvshmem_signal_wait_until(&heap->signal, NVSHMEM_CMP_GE, round);
			nvshmem_uint_get(heap->got, heap->source, n, peer);
		}
		__syncthreads();
		compare(&wrong->of[0], heap->put, n, peer, round);
		compare(&wrong->of[1], heap->signalled, n, peer, round);
		compare(&wrong->of[2], heap->got, n, peer, round);
		if (threadIdx.x == 0 &&
		    *const_cast<volatile unsigned *>(&heap->word) != valueOf(peer, round, n))
			wrong->of[3]++;
		__syncthreads(); /* the block has read what the next round overwrites */
		if (threadIdx.x == 0)
			nvshmem_barrier_all();
		__syncthreads();
	}
}

int main()
{
	static const char *const what[] = {"put", "put_signal", "get", "p"};
	const size_t counts[] = {1, 3, 64, 1000, MOST};
	int devices[PES] = {0, 1}, failed = 0, passed = 0, first = 1;
	ncclComm_t comms[PES];
	niinContext_host host[PES];
	niinContext *contexts[PES];
	Wrong *wrong;
	void *heaps[PES];

	NEED(ncclCommInitAll(comms, PES, devices));
	NEED(cudaMallocManaged(&wrong, PES * sizeof(Wrong)));
	for (int i = 0; i < PES; i++) {
		NEED(cudaSetDevice(i));
		NEED(ncclMemAlloc(&heaps[i], sizeof(Heap)));
		NEED(cudaMemset(heaps[i], 0, sizeof(Heap)));
		NEED(cudaMalloc(&contexts[i], sizeof(niinContext)));
	}
	NEED(ncclGroupStart());
	for (int i = 0; i < PES; i++)
		NEED(niinInit(comms[i], heaps[i], sizeof(Heap), &host[i], true, 0, 1, 0));
	NEED(ncclGroupEnd());
	for (int i = 0; i < PES; i++) {
		host[i].peerNativeAtomic = host[i].forceSeparatePutSignal = false;
		NEED(cudaSetDevice(i));
		NEED(niinCommit(&host[i], contexts[i]));
		NEED(cudaDeviceSynchronize());
	}
	for (size_t n : counts) {
		for (int i = 0; i < PES; i++)
			wrong[i] = Wrong();
		for (int i = 0; i < PES; i++) {
			NEED(cudaSetDevice(i));
			exchange<<<1, THREADS>>>(contexts[i], n, first, &wrong[i]);
		}
		for (int i = 0; i < PES; i++) {
			NEED(cudaSetDevice(i));
			NEED(cudaDeviceSynchronize());
		}
		first += ROUNDS;
		for (int i = 0; i < PES; i++) {
			for (int k = 0; k < 4; k++) {
				(wrong[i].of[k] ? failed : passed)++;
				if (wrong[i].of[k])
					printf("FAIL: %s, %zu words, PE %d: %u wrong\n", what[k], n,
					       i, wrong[i].of[k]);
			}
		}
	}
	printf("Total: %d passed, %d failed\n", passed, failed);
	return failed != 0;
}
