/* SPDX-License-Identifier: BSD-3-Clause */
/* ep.h - declarations that the files of libgin-ep.so share */
#ifndef GIN_EP_LIB_H
#define GIN_EP_LIB_H

#include "products/ep/include/gin_ep.h"
#include "products/ep/kernels/args.h"

#include <stdarg.h>
#include <string.h>

/* Sends of one kind that wait for their RECV; `handle` NULL: a free half. */
struct epSends {
	const void *handle[2];
	uint32_t next; /* the half of the next send, counted on the host */
};

struct epGpu; /* gpu.c: the kernels of a GPU */

/* Memory of windows: of one ep, or also of the ep that ginEpShrink() has made from it. */
struct epSlab {
	void *at;
	uint64_t bytes;
	uint32_t users; /* eps; the last one frees the memory */
};

/* Tickets begin shortly before they wrap around, so that tests cross that point. */
#define EP_FIRST_TICKET (0u - 6)

struct ginEp {
	ginComm_t comm;
	ginEpConfig_t config;
	struct epArgs args; /* all but `call`, which each call fills in */
	struct epGpu *gpu;  /* NULL: host threads */
	int device;
	int haveDevComm, haveWindow;
	struct epSlab *slab;
	void *state, *page, *sendBuffer;
	uint32_t directPeers;
	uint32_t domainSize; /* GIN_EP_HT: ranks of a domain */
	uint64_t bytes, handleBytes;
	struct epSends dispatches, combines;
	struct epHtPlan ht; /* of GIN_EP_HT */
	char *window;	    /* this rank's memory of config.htWindow */
	uint32_t ticket;    /* the newest one */
};

/* Offsets and sizes that follow from the configuration. */
struct epSizes {
	uint64_t slab;	 /* bytes */
	uint64_t zeroed; /* of the state: zero at the start */
	uint64_t state;	 /* zeroed, and the tables after it */
	uint64_t masked, observed, owed, chunks;
	uint64_t rankOf, firstExpert, list, numbers, slots, ranked,
		totals;			      /* offsets in the state */
	uint64_t sendBuffer;		      /* bytes; 0: none */
	uint64_t page;			      /* bytes of host memory */
	uint64_t handle;		      /* bytes */
	uint64_t htPage;		      /* offset in the page */
	uint64_t htChunks, htTickets, htSeen; /* offsets in the state */
	struct epHtPlan ht;
};

/*
 * layout.c: fills in the plan's numbers and offsets in the slab. `first` is [nRanks + 1];
 * `networked`: a peer is on a network route; domainSize: of GIN_EP_HT.
 */
void epLayout(const ginEpConfig_t *config, const uint32_t *first, uint32_t nRanks, uint32_t rank,
	      int networked, uint32_t domainSize, struct epPlan *plan, struct epSizes *sizes);

/* layout.c: the pool of an ep of GIN_EP_HT, for ht->rows rows. Returns the bytes of the slab. */
uint64_t epHtPoolLayout(struct epHtPlan *ht);

/*
 * layout.c: thread blocks of a dispatch or combine that asks for `asked`. 0: for as many as the
 * configuration says, else for `usual`.
 */
uint32_t epHtBlocks(const ginEpConfig_t *config, uint32_t asked, uint32_t usual, uint32_t most);

/* layout.c: `first` becomes [nRanks + 1]: the caller's, or as evenly as possible. */
void epFirstExperts(const ginEpConfig_t *config, uint32_t nRanks, uint32_t *first);

/* check.c: the fields of a configuration, and the arguments of a call as kernels need them. */
ginResult_t epCheckConfig(const ginEpConfig_t *config, uint32_t nRanks, ginEpConfig_t *own);
ginResult_t epCheckDispatch(ginEp_t ep, const ginEpDispatchArgs_t *in, struct epCallArgs *call);
ginResult_t epCheckCombine(ginEp_t ep, const ginEpCombineArgs_t *given, struct epCallArgs *call);

/*
 * check.c: takes a struct of a caller that may be older or newer into *own, which has the values of
 * `init`, a macro.
 */
ginResult_t epTakeStruct(const char *name, const char *init, const void *in, size_t least,
			 void *own, size_t size);

/* check.c: a tensor as a call needs it. */
int epElementBytes(int32_t type);

/* layout.c: the bytes and scales of a row of `hidden` elements, of one type of rows. */
struct epFormat {
	uint32_t bytes, scales, scaleBytes; /* scaleBytes: of one scale */
};

struct epFormat epFormatOf(uint32_t rows, uint32_t hidden);
ginResult_t epNeed(const char *name, const ginEpTensor_t *t, int type, int nDims,
		   const int64_t *size);
ginResult_t epNeedPacked(const char *name, const ginEpTensor_t *t, int type, int nDims,
			 const int64_t *size, int optional);
ginResult_t epNeedRows(const char *name, const ginEpTensor_t *t, int type, int nDims,
		       const int64_t *size, struct epRowsOf *rows);

/* ht_check.c: the arguments of the calls of high throughput as kernels need them. */
ginResult_t epHtCheckLayout(const ginEpHtLayoutArgs_t *args, uint32_t nRanks,
			    struct epHtCall *call);
ginResult_t epHtCheckNotify(ginEp_t ep, const ginEpHtNotifyArgs_t *args, struct epHtCall *call);
ginResult_t epHtCheckDispatch(ginEp_t ep, const ginEpHtDispatchArgs_t *args, struct epHtCall *call);
ginResult_t epHtCheckCombine(ginEp_t ep, const ginEpHtCombineArgs_t *args, struct epHtCall *call);

/* error.c: keeps the sentence for ginEpGetLastError(); returns `result`. */
ginResult_t epFail(ginResult_t result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A call of libgin has failed: keeps its sentence. */
ginResult_t epFailGin(ginResult_t result, const char *what);

/* launch.c: runs a variant by `grid` blocks or fewer. */
ginResult_t epLaunch(ginEp_t ep, uint32_t variant, uint32_t grid, uint32_t block,
		     const struct epCallArgs *call, void *stream);

/*
 * launch.c: runs a variant, on host threads where `gpu` is NULL; `shared`: bytes of scratch of a
 * block on a GPU.
 */
ginResult_t epRunKernel(struct epGpu *gpu, uint32_t variant, uint32_t grid, uint32_t block,
			size_t shared, struct epArgs *args, void *stream);

/* Fails with the first failure of a kernel, if it stops later calls. */
ginResult_t epStopped(ginEp_t ep);

/*
 * control.c: this rank has no memory for an allgather. The others do not wait for it: a wrong call
 * of one rank fails on all.
 */
ginResult_t epCannotMeet(ginComm_t comm);

/* control.c: zeroes signals and state, on all ranks between two barriers; or fails on all. */
ginResult_t epStartAnew(ginEp_t ep);

/* control.c: waits until the puts of this rank have completed, except for puts to a dead rank. */
void epFlush(ginEp_t ep);

/* gpu.c. The kernels of a GPU are loaded once. */
ginResult_t epGpuOpen(int ordinal, struct epGpu **gpu);
void epGpuClose(struct epGpu *gpu);
const char *epGpuKernels(const struct epGpu *gpu);
ginResult_t epGpuWrite(struct epGpu *gpu, void *dst, const void *src, size_t bytes);
ginResult_t epGpuClear(struct epGpu *gpu, void *dst, size_t bytes);
ginResult_t epGpuSync(struct epGpu *gpu);
/* Thread blocks that run at a time. */
uint32_t epGpuBlocks(const struct epGpu *gpu);
/* Shared memory of a block of dispatch and combine of high throughput. */
uint32_t epGpuShared(const struct epGpu *gpu);
ginResult_t epGpuLaunch(struct epGpu *gpu, uint32_t variant, uint32_t grid, uint32_t block,
			size_t shared, const struct epArgs *args, void *stream);

#endif
