/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_ep.h - expert parallelism on libgin: dispatch tokens to experts, combine the results
 *
 * C11, usable from C++. Library libgin-ep.so; gin_ep(7) is the introduction. Conventions:
 *  - A call returns ginSuccess or an error. Outputs are written on success only.
 *  - ginEpGetLastError() returns one sentence about the calling thread's last failed call of this
 *    library.
 *  - "Collective": every rank of the communicator makes the call, in one order.
 *  - A `stream` is a CUstream (cudaStream_t); NULL is the legacy default stream. Without a GPU
 *    streams are ignored: host threads do the work, and the call returns when the work is done.
 *  - ginEpDispatch() and ginEpCombine() enqueue kernels. They allocate nothing, wait for nothing
 *    and may be captured in a graph, which may be replayed any number of times.
 *  - Structs start with their size; the _INIT macros set it. Later versions append fields.
 */
#ifndef GIN_EP_H
#define GIN_EP_H

#include "gin.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The state of one MoE layer shape on a communicator. Opaque. */
typedef struct ginEp *ginEp_t;

/* Element types of tensors. */
enum ginEpType {
	ginEpBf16 = 0,
	ginEpF32 = 1,
	ginEpF8E4m3 = 2,  /* largest finite value 448, no infinity (e4m3fn) */
	ginEpUe8m0x4 = 3, /* four exponents of 8 bits in an int32, the first in the low byte */
	ginEpI32 = 4,
	ginEpI64 = 5,
	ginEpU8 = 6
};

/* A tensor of the caller. `data` NULL: there is none, and the other fields are ignored. */
typedef struct ginEpTensor {
	void *data;
	int32_t type; /* enum ginEpType */
	int32_t nDims;
	int64_t size[4];
	int64_t stride[4]; /* in elements */
} ginEpTensor_t;

/* ginEpConfig_t.modes, ginEpDispatchArgs_t.mode */
#define GIN_EP_LL 1u /* low latency, 1 to some hundred tokens of a rank: ginEpDispatch() */
#define GIN_EP_HT 2u /* high throughput, thousands of tokens: ginEpHtDispatch() */

/* ginEpConfig_t.rowTypes, ginEpDispatchArgs_t.rows: elements of the rows that dispatch sends */
#define GIN_EP_ROWS_BF16 1u
#define GIN_EP_ROWS_F8 2u   /* e4m3 with one scale for 128 elements */
#define GIN_EP_ROWS_MXF8 4u /* mxfp8: e4m3 with one exponent of 8 bits (UE8M0) for 32 elements */
/*
 * nvfp4: two e2m1 in a byte, the first in the low bits, with one e4m3 scale for 16 elements. The
 * global scale stays with the caller.
 */
#define GIN_EP_ROWS_NVF4 8u
#define GIN_EP_ROWS_ALL 15u

/* How combine adds the rows of one token. */
#define GIN_EP_REDUCE_RANK                                                                         \
	1u /* the experts' rank adds its rows and sends one; weights from dispatch */
#define GIN_EP_REDUCE_NONE 2u /* every expert's row is sent; the token's rank adds all */

/* ginEpConfig_t.onLost: the effect of a rank that does not answer */
/*
 * This call and all later calls fail until ginEpReset(); waits of other ranks for this rank fail.
 */
#define GIN_EP_LOST_ERROR 0u
#define GIN_EP_LOST_MASK 1u /* the rank is masked: left out from then on */

/* ginEpDispatchArgs_t.phase, ginEpCombineArgs_t.phase */
#define GIN_EP_SEND 1u
#define GIN_EP_RECV 2u
#define GIN_EP_BOTH 3u

/* Layout of the received rows. */
#define GIN_EP_EXPERT_MAJOR 0u /* [local expert][row]: a row for each (token, expert) */
#define GIN_EP_RANK_MAJOR 1u   /* [source rank][slot]: one row for each (token, source rank) */

/* Scales of GIN_EP_ROWS_F8; an element is its e4m3 value times the scale. */
#define GIN_EP_SCALE_F32 0u   /* amax / 448, float */
#define GIN_EP_SCALE_POW2 1u  /* the next power of two that is not smaller, float */
#define GIN_EP_SCALE_UE8M0 2u /* POW2, given out as exponents (ginEpUe8m0x4) */

/* Where recvScales of GIN_EP_ROWS_MXF8 and GIN_EP_ROWS_NVF4 are. */
#define GIN_EP_SCALE_STRIDED 0u /* by the strides of recvScales */
/*
 * In blocks of 128 rows and 4 scales, which Tensor Cores of Blackwell read: a block has 512 bytes,
 * scale s of row r is byte (r % 32) * 16 + r / 32 % 4 * 4 + s % 4 of block [r / 128][s / 4].
 */
#define GIN_EP_SCALE_BLOCKS 3u

#define GIN_EP_MAX_TOPK 32u
#define GIN_EP_MAX_EXPERTS 8192u
#define GIN_EP_MAX_TOKENS 32768u
#define GIN_EP_MAX_HIDDEN 65536u
#define GIN_EP_MAX_RANKS 1024u

/*
 * The configuration of an ep. All fields but timeout, onLost, maxSms, htSms, sendBuffer and
 * htWindowBytes are equal on all ranks.
 */
typedef struct ginEpConfig {
	size_t size;	  /* sizeof(ginEpConfig_t) */
	uint32_t modes;	  /* GIN_EP_LL or GIN_EP_HT; for both, make two eps */
	uint32_t experts; /* of all ranks, at most GIN_EP_MAX_EXPERTS */
	/*
	 * [nRanks + 1]: rank r has the experts firstExpert[r] to firstExpert[r + 1] - 1. NULL: as
	 * evenly as possible; the first ranks get one more. Read by ginEpCreate() only.
	 */
	const uint32_t *firstExpert;
	uint32_t topk;	       /* most experts of a token, 1 to GIN_EP_MAX_TOPK */
	uint32_t hidden;       /* most elements of a row, a multiple of 16 */
	uint32_t maxTokens;    /* LL: most tokens of a rank in one dispatch */
	uint32_t htTokens;     /* HT: most tokens of a rank in one dispatch; else 0 */
	uint32_t htRecvTokens; /* HT: rows of the pool; 0: nRanks * htTokens, which is enough */
	uint32_t rowTypes;     /* GIN_EP_ROWS_, or several: which rows will be sent */
	uint32_t reduce;     /* GIN_EP_REDUCE_RANK, or GIN_EP_REDUCE_NONE: both kinds of combine */
	uint32_t contexts;   /* of the device communicator; 0: chosen */
	uint32_t maxSms;     /* thread blocks of a kernel are at most this many; 0: chosen */
	uint64_t timeout;    /* nanoseconds that a call waits for a rank; 0: no limit */
	uint32_t onLost;     /* GIN_EP_LOST_ERROR or GIN_EP_LOST_MASK */
	uint32_t sendBuffer; /* 1: memory for ginEpSendBuffer(); 0: none */
	uint32_t htRowBytes; /* HT: most bytes of a row, a multiple of 16; 0: 2 * hidden */
	uint32_t htScaleBytes; /* HT: most bytes of a row's scales; 0: 4 * ceil(hidden / 128) */
	uint32_t htSms;	       /* HT: thread blocks of dispatch and combine; 0: chosen */
	uint32_t pad;	       /* 0 */
	/*
	 * HT: a window that all ranks have registered, of htWindowBytes here: recvX and x that lie
	 * in it are not copied; {NULL}: none. It outlives the ep.
	 */
	ginWindow_t htWindow;
	uint64_t htWindowBytes;
} ginEpConfig_t;

#define GIN_EP_CONFIG_INIT                                                                         \
	{                                                                                          \
		sizeof(ginEpConfig_t), GIN_EP_LL, 0, NULL, 8, 0, 128, 0, 0, GIN_EP_ROWS_ALL,       \
			GIN_EP_REDUCE_NONE, 0, 0, 100000000000ull, GIN_EP_LOST_ERROR, 0, 0, 0, 0,  \
			0, {NULL}, 0                                                               \
	}

/* An ep, seen from this rank. */
typedef struct ginEpInfo {
	size_t size; /* sizeof(ginEpInfo_t), set by the caller */
	int32_t rank, nRanks;
	int32_t device;	      /* CUDA ordinal, or GIN_DEVICE_NONE */
	int32_t directPeers;  /* ranks that this rank stores to, this rank included */
	uint32_t experts;     /* of all ranks */
	uint32_t firstExpert; /* of this rank */
	uint32_t localExperts;
	uint32_t topk, hidden, maxTokens; /* of the configuration */
	uint32_t recvRows;		  /* rows of a local expert in recvX: nRanks * maxTokens */
	uint32_t contexts;		  /* of the device communicator */
	uint64_t handleBytes;		  /* device memory of a handle, aligned to 16 bytes */
	uint64_t bytes;			  /* device memory that the ep has taken */
	/* "host threads", or the architecture: "sm_90"; "sm_90 traced": they write records */
	char kernels[32];
	uint32_t htTokens, htRecvTokens; /* of the configuration, as chosen; 0 without GIN_EP_HT */
} ginEpInfo_t;

#define GIN_EP_INFO_INIT                                                                           \
	{                                                                                          \
		sizeof(ginEpInfo_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", 0, 0            \
	}

/*
 * ginEpCreate - make the state of a layer: windows, a device communicator, kernels
 *
 * Collective. `comm` must outlive the ep. With a GPU the calling thread's current context is not
 * used: the ep takes the primary context of the communicator's device. Fails on all ranks with one
 * result. ginErrorInvalidArgument: a field is out of range or differs between ranks;
 * ginErrorUnsupported: no backend connects a pair of ranks, or this build has no kernels for the
 * GPU; ginErrorAbi: the kernels were built for another libgin; errors of ginMemAlloc(),
 * ginWindowRegister() and ginDevCommCreate().
 */
ginResult_t ginEpCreate(ginComm_t comm, const ginEpConfig_t *config, ginEp_t *ep);

/*
 * ginEpDestroy - free an ep
 *
 * Collective; returns at once if the communicator has failed. No kernel may use the ep any more.
 * NULL is allowed. `ep` is freed whatever the call returns.
 */
ginResult_t ginEpDestroy(ginEp_t ep);

/*
 * ginEpBytes - device memory that ginEpCreate() would take on a rank of nRanks
 *
 * Any thread, no communicator. An upper limit: staging memory for peers on network routes is in it.
 */
ginResult_t ginEpBytes(const ginEpConfig_t *config, int nRanks, uint64_t *bytes);

/* ginEpQuery - sizes and routes of an ep. Any thread. Writes at most info->size bytes. */
ginResult_t ginEpQuery(ginEp_t ep, ginEpInfo_t *info);

/*
 * Arguments of ginEpDispatch(). T tokens of this rank, H elements of a row (a multiple of 16),
 * K experts of a token; R ranks, L local experts, M = config.maxTokens. Rows of x and recvX are
 * contiguous in their last dimension and aligned to 16 bytes. "[n]" may be longer.
 */
typedef struct ginEpDispatchArgs {
	size_t size;	    /* sizeof(ginEpDispatchArgs_t) */
	uint32_t mode;	    /* GIN_EP_LL */
	uint32_t phase;	    /* GIN_EP_SEND, GIN_EP_RECV or GIN_EP_BOTH */
	uint32_t rows;	    /* GIN_EP_ROWS_; H is a multiple of 32 for MXF8 and NVF4 */
	uint32_t layout;    /* GIN_EP_EXPERT_MAJOR or GIN_EP_RANK_MAJOR */
	uint32_t scaleKind; /* GIN_EP_SCALE_, not of GIN_EP_ROWS_BF16 */
	uint32_t hidden;    /* H; 0: from x, which RECV does not have */
	void *handle;	    /* ginEpInfo_t.handleBytes of device memory; SEND, RECV and combine */
	/*
	 * SEND. x: [T][H] bf16, or data and scales that go out as they are:
	 *	GIN_EP_ROWS_F8    x e4m3, scales [T][ceil(H / 128)] f32 or
	 *	                  [T][ceil(H / 512)] ginEpUe8m0x4
	 *	GIN_EP_ROWS_MXF8  x e4m3, scales [T][H / 32] of one byte
	 *	GIN_EP_ROWS_NVF4  x [T][H / 2] of one byte, scales [T][H / 16] of one byte
	 * topkIdx: [T][K] int32 or int64, -1: none; no expert twice in a token. topkWeights: [T][K]
	 * f32, or none; contiguous, as topkIdx.
	 */
	ginEpTensor_t x, scales, topkIdx, topkWeights;
	/*
	 * RECV. Expert-major: recvX [L][R * M][H], recvScales [L][R * M][ceil(H / 128)] f32 or
	 * [..][ceil(H / 512)] ginEpUe8m0x4, with any strides; of MXF8 and NVF4 as x and scales. The
	 * rows of an expert are ordered by (source rank, token). Rank-major: recvX [R][M][H],
	 * recvScales [R][M][..]. With GIN_EP_SCALE_BLOCKS the last two sizes of recvScales are
	 * multiples of 128 and of 4, rounded up, and it is contiguous.
	 */
	ginEpTensor_t recvX, recvScales;
	/*
	 * Expert-major: [L] int32, rows of each local expert. Rank-major: [R], rows of each source.
	 */
	ginEpTensor_t recvCount;
	/*
	 * Expert-major [L][R * M], rank-major [R][M]: int32, the token's number at its rank; or
	 * none.
	 */
	ginEpTensor_t srcInfo;
	/* Expert-major: [L][R] int64, first row << 32 | count, of each source; or none. */
	ginEpTensor_t layoutRange;
	/* Rank-major: [R][M][K]: int32 local expert or -1, and f32 weights; or none. */
	ginEpTensor_t recvTopkIdx, recvTopkWeights;
	ginEpTensor_t recvStats; /* [L] int32: the rows of each expert are added; or none */
	ginEpTensor_t
		waitCost; /* [R] int64: nanoseconds waited for each source are added; or none */
	/* SEND, GIN_EP_ROWS_NVF4 of bf16 x: one f32, by which scales are multiplied. */
	ginEpTensor_t xGlobalScale;
} ginEpDispatchArgs_t;

#define GIN_EP_NO_TENSOR                                                                           \
	{                                                                                          \
		NULL, 0, 0, {0, 0, 0, 0},                                                          \
		{                                                                                  \
			0, 0, 0, 0                                                                 \
		}                                                                                  \
	}

#define GIN_EP_DISPATCH_ARGS_INIT                                                                  \
	{                                                                                          \
		sizeof(ginEpDispatchArgs_t), GIN_EP_LL, GIN_EP_BOTH, GIN_EP_ROWS_BF16,             \
			GIN_EP_EXPERT_MAJOR, GIN_EP_SCALE_F32, 0, NULL, GIN_EP_NO_TENSOR,          \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,    \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,    \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,    \
			GIN_EP_NO_TENSOR                                                           \
	}

/*
 * ginEpDispatch - send tokens to the ranks of their experts, receive the tokens of other ranks
 *
 * Collective, all ranks in one order. phase SEND returns after the sends are enqueued; a later
 * RECV with the same handle enqueues the receive, on any stream after the send. At most two sends
 * may wait for their RECV, and RECVs may come in any order: a send whose last but one predecessor
 * has not been received gets ginErrorInvalidUsage. `rows`, H and K are equal on all ranks, T
 * is not. A rank without tokens calls with T = 0, with data or NULL.
 *
 * ginErrorInvalidArgument; ginErrorInvalidUsage: the ep is of GIN_EP_HT; ginErrorCuda; the
 * result of the first kernel that failed, until ginEpReset(): see ginEpGetAsyncError().
 */
ginResult_t ginEpDispatch(ginEp_t ep, const ginEpDispatchArgs_t *args, void *stream);

/* Arguments of ginEpCombine(). Letters as in ginEpDispatchArgs_t. */
typedef struct ginEpCombineArgs {
	size_t size;	 /* sizeof(ginEpCombineArgs_t) */
	uint32_t mode;	 /* GIN_EP_LL */
	uint32_t phase;	 /* GIN_EP_SEND, GIN_EP_RECV or GIN_EP_BOTH */
	uint32_t reduce; /* GIN_EP_REDUCE_NONE or GIN_EP_REDUCE_RANK */
	uint32_t layout; /* of x, as in the dispatch */
	uint32_t hidden; /* H; 0: x.size[...] or out.size[1] */
	uint32_t pad;
	void *handle; /* as the dispatch left it */
	/*
	 * SEND. x: bf16, expert-major [L][R * M][H]: the experts' results for recvX; or rank-major
	 * [R][M][H], the sums over the rank's experts: with GIN_EP_REDUCE_RANK only.
	 */
	ginEpTensor_t x;
	/*
	 * RECV. topkIdx as in the dispatch. topkWeights: [T][K] f32 of GIN_EP_REDUCE_NONE; none: 1.
	 * GIN_EP_REDUCE_RANK uses the weights that the dispatch sent; none: 1.
	 */
	ginEpTensor_t topkIdx, topkWeights;
	ginEpTensor_t out;	/* RECV: [T][H] bf16 */
	ginEpTensor_t waitCost; /* RECV: as in dispatch */
	ginEpTensor_t bias[2];	/* none */
	/*
	 * SEND, expert-major: rows of x may still be written, by a GEMM on another stream. [L][B]
	 * int32 or uint32: row i of expert e is complete when word [e][i / readyRows] is at least
	 * readyAt. A writer adds to a word, or stores it, with a release at device scope, after its
	 * stores to the rows. [L] with readyRows 0: one word for all rows of an expert. No data:
	 * all rows are complete. A wait for a word ends by config.timeout.
	 */
	ginEpTensor_t ready;
	uint32_t readyRows;
	uint32_t readyAt; /* 1 or more */
	uint32_t sms;	  /* most blocks of the kernel, so that a GEMM has the other SMs; 0: all */
	uint32_t pad2;
} ginEpCombineArgs_t;

#define GIN_EP_COMBINE_ARGS_INIT                                                                   \
	{                                                                                          \
		sizeof(ginEpCombineArgs_t), GIN_EP_LL, GIN_EP_BOTH, GIN_EP_REDUCE_NONE,            \
			GIN_EP_EXPERT_MAJOR, 0, 0, NULL, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,       \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,                      \
			{GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR}, GIN_EP_NO_TENSOR, 0, 0, 0, 0         \
	}

/*
 * ginEpCombine - send the experts' results back and add them for each token
 *
 * Collective. out[t] is the sum of weight * row over the experts of token t, in float, in the order
 * of k (GIN_EP_REDUCE_NONE); or rounded to bf16 once per rank, then added in the order of ranks
 * (GIN_EP_REDUCE_RANK). Phases, outstanding sends and errors as ginEpDispatch(). A token without
 * experts gets zeros.
 */
ginResult_t ginEpCombine(ginEp_t ep, const ginEpCombineArgs_t *args, void *stream);

/*
 * ginEpSendBuffer - memory of the ep for x of ginEpCombine()
 *
 * For callers without memory of their own for the experts' results: *x becomes a contiguous bf16
 * tensor of config.hidden elements a row, with layout GIN_EP_EXPERT_MAJOR [L][R * M][H], with
 * GIN_EP_RANK_MAJOR [R][M][H]; both layouts share one memory. Combine reads it in SEND: the kernels
 * that write the next results may follow on the stream. It saves no copy: combine reads any tensor
 * once. Any thread. ginErrorInvalidArgument; ginErrorInvalidUsage: config.sendBuffer is 0.
 */
ginResult_t ginEpSendBuffer(ginEp_t ep, uint32_t layout, ginEpTensor_t *x);

/*
 * High throughput: thousands of tokens of a rank, one row for each (token, rank). The calls of a
 * layer, in order:
 *
 *	ginEpHtLayout()    which ranks get a token, from its experts; on this rank alone
 *	ginEpHtNotify()    the ranks exchange counts; the handle knows the place of every row
 *	ginEpHtCounts()    the CPU learns how many rows come; or recvX has room for the most rows
 *	ginEpHtDispatch()  rows go to their places, ordered by (source rank, token)
 *	ginEpHtCombine()   out[t] = bias + the rows of token t, ranks ascending, rounded
 *
 * Letters: R ranks, E experts, L experts of this rank, T tokens of this rank, K experts of a token,
 * n rows that this rank receives. Tensors are contiguous unless their comment says otherwise. All
 * calls of one ep go to one stream, or to streams that wait for each other. A handle serves any
 * number of dispatches and combines, in any order; its memory is the caller's.
 */
#define GIN_EP_HT_MAX_RANKS 128u
#define GIN_EP_HT_MAX_TOKENS (1u << 22)

typedef struct ginEpHtLayoutArgs {
	size_t size;	  /* sizeof(ginEpHtLayoutArgs_t) */
	uint32_t experts; /* E, spread as evenly as possible: the first ranks have one more */
	uint32_t pad;
	ginEpTensor_t topkIdx;	       /* [T][K] int32 or int64; -1, or out of range: none */
	ginEpTensor_t tokensPerRank;   /* [R] int32 */
	ginEpTensor_t tokensPerExpert; /* [E] int32 */
	ginEpTensor_t isTokenInRank;   /* [T][R] of one byte, 0 or 1 */
} ginEpHtLayoutArgs_t;

#define GIN_EP_HT_LAYOUT_ARGS_INIT                                                                 \
	{                                                                                          \
		sizeof(ginEpHtLayoutArgs_t), 0, 0, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,             \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR                                         \
	}

/*
 * ginEpHtLayout - count the tokens of each rank and each expert
 *
 * Of this rank alone; needs no ep. A token counts once for each rank. Enqueues a kernel.
 * ginErrorInvalidArgument; ginErrorUnsupported: no kernels for the GPU; ginErrorCuda.
 */
ginResult_t ginEpHtLayout(ginComm_t comm, const ginEpHtLayoutArgs_t *args, void *stream);

/*
 * ginEpHtDomain - ranks of a domain of high throughput
 *
 * *ranks divides the number of ranks; rank r is in domain r / *ranks. Ranks of a domain are direct
 * to each other; to another domain a row goes once. GIN_EP_DOMAIN makes domains smaller
 * (gin_ep(7)). Of this rank alone, any thread; needs no ep. ginErrorInvalidArgument; errors of
 * ginCommQuery().
 */
ginResult_t ginEpHtDomain(ginComm_t comm, uint32_t *ranks);

/* ginEpHtHandleBytes - device memory of a handle for `tokens` tokens of this rank. Any thread. */
ginResult_t ginEpHtHandleBytes(ginEp_t ep, uint32_t tokens, uint64_t *bytes);

typedef struct ginEpHtNotifyArgs {
	size_t size;		  /* sizeof(ginEpHtNotifyArgs_t) */
	uint32_t expertAlignment; /* counts of experts are rounded up to its multiples; 0: 1 */
	uint32_t pad;
	void *handle; /* ginEpHtHandleBytes() of device memory, aligned to 16 bytes; written */
	ginEpTensor_t isTokenInRank;   /* [T][R] of one byte: which rank gets a row of a token */
	ginEpTensor_t tokensPerExpert; /* [E] int32: items of each expert */
	/* [R][R] int32, or none: [s][r]: rows that the ranks 0 to s send to rank r */
	ginEpTensor_t rankPrefix;
	ginEpTensor_t recvCounts; /* [1 + L] int32, or none: n, and the items of each own expert */
} ginEpHtNotifyArgs_t;

#define GIN_EP_HT_NOTIFY_ARGS_INIT                                                                 \
	{                                                                                          \
		sizeof(ginEpHtNotifyArgs_t), 1, 0, NULL, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,       \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR                                         \
	}

/*
 * ginEpHtNotify - exchange counts, and make a handle
 *
 * Collective. Enqueues a kernel. *ticket, if `ticket` is not NULL, becomes the number with which
 * ginEpHtCounts() gets the counts; the counts of the last eight tickets are kept. Give no ticket
 * in a graph that is replayed.
 */
ginResult_t ginEpHtNotify(ginEp_t ep, const ginEpHtNotifyArgs_t *args, void *stream,
			  uint32_t *ticket);

typedef struct ginEpHtCounts {
	size_t size;	     /* sizeof(ginEpHtCounts_t), set by the caller */
	uint32_t rows;	     /* n */
	uint32_t mostRows;   /* of any rank: equal on all ranks */
	uint32_t *perExpert; /* NULL, or [L], set by the caller: rounded up to the alignment */
} ginEpHtCounts_t;

#define GIN_EP_HT_COUNTS_INIT                                                                      \
	{                                                                                          \
		sizeof(ginEpHtCounts_t), 0, 0, NULL                                                \
	}

/*
 * ginEpHtCounts - wait on the CPU for the counts of a ticket
 *
 * Any thread, but not during ginEpHtNotify(). Fails with ginErrorTimeout after `timeout`
 * nanoseconds (0: no limit), at once if a kernel of the ep has failed, and with
 * ginErrorInvalidUsage for a ticket whose counts are not kept.
 */
ginResult_t ginEpHtCounts(ginEp_t ep, uint32_t ticket, uint64_t timeout, ginEpHtCounts_t *counts);

typedef struct ginEpHtDispatchArgs {
	size_t size;  /* sizeof(ginEpHtDispatchArgs_t) */
	uint32_t sms; /* most thread blocks; 0: config.htSms. May differ between ranks and calls */
	uint32_t pad;
	void *handle;
	/*
	 * [T][H], elements of 1, 2 or 4 bytes; a row is contiguous, its bytes and its stride are
	 * multiples of 16.
	 */
	ginEpTensor_t x;
	ginEpTensor_t scales;	   /* [T][S] of 1 or 4 bytes, any strides; or none */
	ginEpTensor_t topkIdx;	   /* [T][K] int32 or int64; or none */
	ginEpTensor_t topkWeights; /* [T][K] f32, with topkIdx; or none */
	/*
	 * Room for n rows at least; more rows are left alone, but recvTopkIdx becomes -1 there.
	 * recvX: [m][H] of x's type, m >= n; ginEpHtPool() saves a copy.
	 */
	ginEpTensor_t recvX;
	ginEpTensor_t recvScales; /* [m][S], with scales */
	ginEpTensor_t
		recvTopkIdx; /* [m][K] of topkIdx's type: the expert's number at this rank, or -1 */
	ginEpTensor_t recvTopkWeights; /* [m][K] f32; 0 where recvTopkIdx is -1 */
	ginEpTensor_t srcInfo;	       /* [m] int32: the token's number at its rank; or none */
} ginEpHtDispatchArgs_t;

#define GIN_EP_HT_DISPATCH_ARGS_INIT                                                               \
	{                                                                                          \
		sizeof(ginEpHtDispatchArgs_t), 0, 0, NULL, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,     \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,    \
			GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR                       \
	}

/*
 * ginEpHtDispatch - send rows to the ranks of their tokens
 *
 * Collective, with handles of one ginEpHtNotify(). Row and scale bytes and K are equal on all
 * ranks. Bytes are moved unchanged. Enqueues a kernel, which fails where n is larger than m, or
 * than config.htRecvTokens: see ginEpGetAsyncError().
 */
ginResult_t ginEpHtDispatch(ginEp_t ep, const ginEpHtDispatchArgs_t *args, void *stream);

typedef struct ginEpHtCombineArgs {
	size_t size;  /* sizeof(ginEpHtCombineArgs_t) */
	uint32_t sms; /* as in ginEpHtDispatchArgs_t */
	uint32_t pad;
	void *handle;
	ginEpTensor_t x;	   /* [m][H] bf16, m >= n: a row for each received row */
	ginEpTensor_t topkWeights; /* [m][K] f32; or none */
	ginEpTensor_t bias[2];	   /* [T][H] bf16; or none */
	ginEpTensor_t out;	   /* [T][H] bf16; the stride of a row is a multiple of 16 bytes */
	ginEpTensor_t outWeights;  /* [T][K] f32, with topkWeights: their sums */
	ginEpTensor_t topkIdx;	   /* [T][J] i32 or i64: the order of sums, see below; or none */
} ginEpHtCombineArgs_t;

#define GIN_EP_HT_COMBINE_ARGS_INIT                                                                \
	{                                                                                          \
		sizeof(ginEpHtCombineArgs_t), 0, 0, NULL, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,      \
			{GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR}, GIN_EP_NO_TENSOR, GIN_EP_NO_TENSOR,  \
			GIN_EP_NO_TENSOR                                                           \
	}

/*
 * ginEpHtCombine - add the rows of each token at its rank
 *
 * Collective, with handles of one ginEpHtNotify(). out[t] is the sum of bias[0][t], bias[1][t] and
 * the rows of token t, in this order, ranks ascending, in float, rounded once to bf16. Several
 * domains (gin_ep(7)): each domain's sum is rounded to bf16, too, and they are added, domains
 * ascending. With topkIdx, for one domain only: not ranks ascending, but in the order of the last
 * expert of each rank in topkIdx[t], as DeepEP V2 adds; it has the token's experts, -1: none.
 * Enqueues a kernel.
 */
ginResult_t ginEpHtCombine(ginEp_t ep, const ginEpHtCombineArgs_t *args, void *stream);

/*
 * ginEpHtPool - the memory into which other ranks store rows
 *
 * recvX there saves dispatch a copy of each row, x there saves combine one. *base is aligned to 256
 * bytes and has config.htRecvTokens rows of config.htRowBytes; a tensor has to begin at *base. The
 * next dispatch or combine that uses other tensors overwrites it, and so does ginEpHtGrow().
 */
ginResult_t ginEpHtPool(ginEp_t ep, void **base, uint64_t *bytes);

/*
 * ginEpHtGrow - a pool of `rows` rows, which is larger
 *
 * Collective, with equal `rows`: ginEpHtCounts_t.mostRows lets all ranks decide alike. No kernel of
 * the ep may run on the calling rank. Handles stay valid; epochs begin anew. If the call fails the
 * ep can only be destroyed.
 */
ginResult_t ginEpHtGrow(ginEp_t ep, uint32_t rows);

/*
 * ginEpMaskQuery - which ranks did not answer, and which ranks are left out
 *
 * Any thread, also while kernels run. Each array has nRanks entries, 0 or 1, or is NULL.
 * observed[r]: a kernel has waited for rank r without success. masked[r]: rank r is left out of
 * sends and waits.
 */
ginResult_t ginEpMaskQuery(ginEp_t ep, uint32_t *observed, uint32_t *masked);

/*
 * ginEpMaskSet - leave rank `rank` out (masked 1), or include it again (0)
 *
 * Enqueued on `stream`; not collective. Include a rank again only if it has taken part in every
 * call in between; after a missed call all ranks need ginEpReset(). Change masks between layers:
 * the combine of a dispatch that left a rank out has no answers for the rank.
 */
ginResult_t ginEpMaskSet(ginEp_t ep, int rank, int masked, void *stream);

/* ginEpMaskClear - forget both masks of all ranks, on this rank. Enqueued on `stream`. */
ginResult_t ginEpMaskClear(ginEp_t ep, void *stream);

/* Phases, as ginEpRecord_t.call names them. */
enum ginEpCall {
	ginEpCallNone = 0,
	ginEpCallDispatchSend = 1,
	ginEpCallDispatchRecv = 2,
	ginEpCallCombineSend = 3,
	ginEpCallCombineRecv = 4,
	ginEpCallHtNotify = 5,
	ginEpCallHtDispatch = 6,
	ginEpCallHtCombine = 7
};

/* The first failure of a kernel of this rank. */
typedef struct ginEpRecord {
	size_t size;	   /* sizeof(ginEpRecord_t), set by the caller */
	uint32_t valid;	   /* 1: the other fields are complete; 0: no failure */
	uint32_t result;   /* ginResult_t */
	uint32_t call;	   /* enum ginEpCall */
	int32_t rank;	   /* the rank that the kernel waited for; -1: none */
	uint64_t epoch;	   /* number of the call since ginEpCreate() or ginEpReset() */
	uint64_t expected; /* a wait: the value waited for; a wrong index: token * K + k */
	uint64_t seen;	   /* a wait: the last value that was read; a wrong index: the index */
} ginEpRecord_t;

#define GIN_EP_RECORD_INIT                                                                         \
	{                                                                                          \
		sizeof(ginEpRecord_t), 0, 0, 0, -1, 0, 0, 0                                        \
	}

/*
 * ginEpGetAsyncError - the first failure of a kernel
 *
 * Any thread, also while kernels run. record->valid is 0 if there was none; otherwise
 * ginEpGetLastError() describes it. With GIN_EP_LOST_MASK the loss of a masked rank is recorded,
 * too, and later calls succeed.
 */
ginResult_t ginEpGetAsyncError(ginEp_t ep, ginEpRecord_t *record);

/*
 * ginEpReset - start again after losses or outstanding sends
 *
 * Collective over all ranks of the communicator; no kernel of the ep may run. Zeroes signals,
 * epochs, masks and the record; earlier handles become invalid. After a process has died:
 * ginEpShrink().
 */
ginResult_t ginEpReset(ginEp_t ep);

/*
 * ginEpShrink - go on without ranks that have died, in the memory of an ep
 *
 * Collective over the ranks of `survivors`, which ginCommShrink() has made from the communicator of
 * `ep`; no kernel of `ep` may run. *out becomes a new ep on `survivors`, in the window of `ep`: no
 * window is registered. Its epochs are 0 and its masks are clear. `config` is for the new number of
 * ranks, and may need no more memory than `ep` has. `ep` must not be used any more, and is
 * destroyed as usual, before or after *out; if the call fails, `ep` is as before. A rank that is
 * left out must have ended its process or all its kernels: otherwise they might store into the
 * memory.
 *
 * ginErrorInvalidArgument: config needs more memory, or the window of `ep` was not inherited;
 * errors of ginEpCreate().
 */
ginResult_t ginEpShrink(ginEp_t ep, ginComm_t survivors, const ginEpConfig_t *config, ginEp_t *out);

/*
 * One sentence about the calling thread's last failed call of this library; "" before the first;
 * never NULL. Valid until the thread's next call.
 */
const char *ginEpGetLastError(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
