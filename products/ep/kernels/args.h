/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * args.h - the arguments that products/ep/lib passes to the kernels: plain structs, C11 and C++17
 *
 * Offsets are bytes in the slab, the one window of an ep; regions are at one offset on all ranks.
 *
 *	region    contents                                     written by
 *	rows      [half][source][slot]: a header, the items,   sources, dispatch send
 *	          the payload, the scales
 *	parts     [half][row]: rows of combine                 experts' ranks, combine send
 *	counts    [half][source][1 + local experts]: words     sources, dispatch send
 *	          of 8 bytes: epoch + 1 and a count
 *	marks     [source]: words: 1: the source has given up  sources; this rank
 *	verdicts  [half][source]: words: epoch + 1 and the     this rank, dispatch receive
 *	          losses of the source
 *	staging   rows, parts and counts for peers on network  this rank
 *	          routes; a count line of marks
 */
#ifndef GIN_EP_ARGS_H
#define GIN_EP_ARGS_H

#include "gin/core/abi.h"

#include "ht/args.h"
#include "variants.h"

/*
 * All direct: the tag of a row, in epHeader.first: this bit and the epoch + 1. A thread block that
 * has stored one row for a peer sets it when all of the row is there. It is written with
 * epHeader.part.
 */
#define EP_TAG 0x80000000u
#define EP_TAG_AT 8u

/* Ranks below this have the address of their slab in the kernel's parameters. */
#define EP_PEER_SLABS 16u

/* Rows that one put sends to a peer on a network route. */
#define EP_CHUNK 16u

/*
 * A rank that has given up marks its word at its peers and adds EP_GAVE_UP to the signals that they
 * expect from it. The epoch in its count words is EP_GAVE_UP_EPOCHS ahead. A signal that lacks rows
 * is then less than EP_GAVE_UP, but more than EP_AHEAD, above the expected value; no other signal
 * is.
 */
#define EP_GAVE_UP (1ull << 40)
#define EP_AHEAD (EP_GAVE_UP / 2)
#define EP_GAVE_UP_EPOCHS (1u << 30)

/* The most scratch of a block: on every architecture an SM has it for two blocks. */
#define EP_SCRATCH 49152u

/* No expert, rank or item. */
#define EP_NONE 0xffffffffu

/*
 * Each block counts a list of at most that many items; kernels before the send count longer lists.
 */
#define EP_SHORT_LIST 2048u

/* The families of signals. A signal's id: (family * 2 + half) * nRanks + rank. */
enum epFamily { epRows, epRowsFree, epParts, epPartsFree, EP_FAMILIES };

/* A row's header; then an item for each bit of kMask, ascending. */
struct epHeader {
	uint32_t token;
	uint32_t kMask; /* bit k: the expert of (token, k) is at the target */
	uint32_t part;	/* the row in parts of the target's sum; see epItemParts */
	uint32_t first; /* the row in parts of the first item; items follow. All direct: a tag */
};

struct epItem {
	uint16_t expert; /* at the target */
	uint16_t number; /* items of this source for the expert before it */
	float weight;
};

/* A received row in a handle: its header; then an epAnswer for each bit of kMask. */
struct epReceived {
	uint32_t token, kMask, part, first;
};

struct epAnswer {
	uint32_t row; /* in x of combine: local expert * rows of an expert + row */
	float weight;
};

/*
 * The rows in parts of item (token, k): `sum` with GIN_EP_REDUCE_RANK, for all items of the token
 * at one rank; `item` with GIN_EP_REDUCE_NONE.
 *
 * All direct: row token * partsOfToken + n, where n ranks of the token are below the item's rank;
 * row token * partsOfToken + k. Otherwise the rows of one rank follow each other, ranks ascending,
 * so that one put sends rows of several tokens.
 */
struct epItemParts {
	uint32_t sum, item;
};

/*
 * A handle: this, sent[nRanks], received[nRanks], then epReceived [nRanks][maxTokens]; and, unless
 * all peers are direct, epItemParts [maxTokens][topk]. received[source] EP_NONE: the source's rows
 * are lost.
 */
struct epHandle {
	uint32_t epoch[2]; /* of the dispatch send, combine send that RECV belongs to */
	uint32_t pad[14];
};

/* Words that kernels of this rank share, in device memory; arrays follow at epPlan's offsets. */
struct epState {
	uint32_t failed;      /* ginResult_t: kernels return at once */
	uint32_t recordClaim; /* set by the thread that writes the record */
	uint32_t epoch[2];    /* of the next dispatch send, combine send; one load has all four */
	uint32_t ticket[8];   /* [call][half]: blocks that have ended */
	uint32_t notified;    /* epoch of the next notify */
	uint32_t pad;
	uint64_t began; /* EpHt::postPlaces(), for the record of its call */
};

/* Host memory that kernels write: the record; then observed[nRanks] and masked[nRanks]. */
struct epPage {
	uint32_t valid, result, call;
	int32_t rank;
	uint64_t epoch, expected, seen;
	uint32_t failed; /* ginResult_t: all later calls fail */
	uint32_t pad[5];
};

/* Constant for the life of an ep. */
struct epPlan {
	uint32_t rank, nRanks;
	uint32_t experts, localExperts, firstLocal, mostLocal; /* mostLocal: of any rank */
	uint32_t topk, hidden, maxTokens;
	uint32_t partsOfToken; /* rows of a token in parts, at most */
	uint32_t even;	       /* rank r has eachRank experts, the first moreRanks ranks one more */
	uint32_t eachRank, moreRanks;
	uint32_t inverseEach, inverseMore; /* 2^31 / eachRank, 2^31 / (eachRank + 1), rounded up */
	uint32_t lanes;			   /* contexts that carry rows to network peers */
	uint32_t allDirect;		   /* every peer is direct */
	uint32_t onLost;		   /* GIN_EP_LOST_ */
	uint32_t received;		   /* bytes of an epReceived with its answers */
	uint32_t rowBytes;		   /* of a row in the slab */
	uint32_t payload;		   /* offset of the payload in a row */
	uint32_t partBytes;		   /* of a row of combine */
	uint32_t listed;		   /* items in `list` */
	uint64_t timeout;		   /* nanoseconds */
	uint64_t rowsAt, partsAt, countsAt, marksAt, verdictsAt; /* offsets in the slab */
	uint64_t wordsAt, wordBytes; /* all regions of words: zero at the start */
	uint64_t stagedRowsAt, stagedPartsAt, stagedCountsAt, stagedMarkAt;
	uint64_t itemPartsAt; /* offset in a handle of epItemParts */
	ginWindow_t slab;
	char *own;		       /* this rank's slab */
	char *peerSlab[EP_PEER_SLABS]; /* slab of direct peers, and own; NULL: network */
	const uint32_t *rankOf;	       /* [experts] */
	const uint32_t *firstExpert;   /* [nRanks + 1] */
	struct epState *state;
	uint32_t *masked, *observed; /* [nRanks] */
	uint32_t *owed; /* [2][half][nRanks]: 1: a credit of dispatch, or combine, is to be given */
	uint32_t *chunks;	   /* [2][half][nRanks][chunks]: staged rows of dispatch, combine */
	uint32_t *list;		   /* [items]: entries of a long list */
	uint32_t *numbers, *slots; /* [items] */
	uint32_t *ranked; /* [items]: earlier items at the rank of the item; not all direct */
	uint32_t *totals; /* [experts + nRanks]: items of each expert, rows of each rank */
	struct epPage *page;
	uint32_t *pageObserved, *pageMasked;
	uint64_t stateBytes; /* of *state and all that follows it: zero at the start */
	char *scratch;	     /* host threads: scratchBytes for each block */
	uint32_t scratchBytes;
	uint32_t pad;
};

/* Tensors of a call, checked: byte strides, and the facts about types that the kernel needs. */
struct epRowsOf {
	char *data;
	int64_t outer, inner; /* bytes from expert to expert, from row to row */
};

struct epScalesOf {
	char *data;
	int64_t outer, inner, each; /* and from scale to scale, or from word to word */
};

struct epCallArgs {
	uint32_t hidden, tokens, topk;
	uint32_t rows;	       /* GIN_EP_ROWS_ of the wire */
	uint32_t layout;       /* GIN_EP_EXPERT_MAJOR, ... */
	uint32_t reduce;       /* GIN_EP_REDUCE_ */
	uint32_t scaleKind;    /* GIN_EP_SCALE_ */
	uint32_t pieces;       /* of 16 bytes of a payload */
	uint32_t scaleCount;   /* scales of a row */
	uint32_t scaleWords;   /* their words of 4 bytes, on the wire */
	uint32_t byteScales;   /* each byte of recvScales is stored by itself */
	uint32_t xIsGiven;     /* x has the wire's bytes already */
	uint32_t xScalesUe8m0; /* `scales` are exponents */
	uint32_t indexBytes;   /* 4 or 8 */
	uint32_t longList;     /* EpMakeList and EpCountList have run */
	uint32_t phase;	       /* GIN_EP_SEND, _RECV or _BOTH: what the kernel does */
	struct epHandle *handle;
	struct epRowsOf x, recvX, out;
	struct epScalesOf scales, recvScales;
	const float *globalScale; /* of a cast to nvfp4 */
	const char *topkIdx;
	const float *topkWeights;
	int32_t *recvCount, *srcInfo, *recvStats, *recvTopkIdx;
	float *recvTopkWeights;
	int64_t *layoutRange, *waitCost;
	const char *ready; /* combine: words of rows of x; NULL: all rows are complete */
	int64_t readyOuter, readyInner; /* bytes from expert to expert, from word to word */
	uint32_t readyRows, readyAt;
	uint32_t sms, pad; /* most blocks; 0: all */
	int32_t maskRank;  /* EpMask: a rank and its mask, or -1: clear all */
	uint32_t maskValue;
};

/* The parameters of a kernel. */
struct epArgs {
	ginDevComm dc;
	struct epPlan plan;
	union {
		struct epCallArgs call;
		struct epHtArgs ht;
	};
};

#ifdef __cplusplus
static_assert(sizeof(struct epArgs) <= 4096, "the parameters of a kernel");
extern "C" {
#else
_Static_assert(sizeof(struct epArgs) <= 4096, "the parameters of a kernel");
#endif

/* host.cc: runs a variant on grid x block host threads; returns when they have ended. */
ginResult_t epHostRun(uint32_t variant, uint32_t grid, uint32_t block, const struct epArgs *args);

/* host.cc: bytes of scratch of a block. */
size_t epScratchBytes(uint32_t variant, const struct epPlan *plan);

#ifdef __cplusplus
}
#endif

#endif
