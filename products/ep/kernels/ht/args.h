/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * args.h - the arguments of the kernels of high throughput: plain structs, C11 and C++17
 *
 * Regions of the slab, at one offset on all ranks. A word is 8 bytes: a tag and a value. It has
 * one writer, and the tag is the epoch of a call + 1: no word is ever reset.
 *
 *	region   contents                                       written by
 *	counts   [half][source][1 + R + most experts]: T, rows  sources, notify
 *	         to each rank, items of the reader's experts
 *	place    [dispatch, combine][half][peer][3]: first      the memory's owner
 *	         row in the peer's memory; EpHt::shape(); with
 *	         a window: where the memory is, EpHt::rowsOf()
 *	done     [source][unit]: its first slot * 8 + its rows  sources, dispatch
 *	ready    [holder][slot / 8]: rows are in the pool       holders, combine
 *	pulled   [source]: has read its rows                    sources, combine
 *	pool     [rows][row bytes], meta [rows][meta bytes]     sources, dispatch; owner, combine
 *
 * and with several domains, see rail.cuh:
 *
 *	message  [half][other domain]: T, rows to each rank,    rail peers, notify
 *	         items of the domain's experts, its epHtPairs
 *	ring     [other domain][lane][slot]: chunks             rail peers
 *	staging  messages and chunks before they are put        this rank
 *
 * A place is also the credit: a rank writes into pools and done words only after the kernels of
 * this call have begun on all ranks. So a rank is one call ahead of another rank at most. It then
 * posts a place while blocks of the other rank may still read the place of the call before: calls
 * use the two halves in turn.
 *
 * A row's meta, in words of 4 bytes: the token, the experts of all k, their weights, scales; in a
 * combine the weights only.
 */
#ifndef GIN_EP_HT_ARGS_H
#define GIN_EP_HT_ARGS_H

#include "gin/core/abi.h"

#define EP_HT_UNIT 4u	/* tokens of a done word */
#define EP_HT_BATCH 8u	/* tokens that a receiver awaits together, rows of a ready word */
#define EP_HT_GROUP 32u /* tokens of an epHtPair */

#define EP_HT_PLACE 3u	 /* words of a place */
#define EP_HT_ALIGN 256u /* of a tensor in the window, whose place has 32 bits for its offset */

#define EP_HT_LANES 16u /* contexts between domains, unless the configuration says how many */
#define EP_HT_DEPTH 4u	/* slots of a ring */
#define EP_HT_HEAD 16u	/* bytes of a chunk before its rows: what must be equal at both ends */

/*
 * Signals of a context between domains: for each domain and slot of a ring: a chunk is there; it is
 * read; and for each domain: a message of notify is there. The id: (kind) * domains + domain.
 */
#define EP_HT_SIGNALS (2 * EP_HT_DEPTH + 1)

#define EP_HT_TICKETS 8u      /* entries of the host's page */
#define EP_HT_TAG 0x47494e48u /* epHtHandle.tag */
#define EP_HT_THREADS 512u    /* of a block on a GPU */

/* The rows of a source begin at start[source] of the received rows. Words of all ranks follow. */
struct epHtHandle {
	uint32_t tag, epoch;   /* of the notify: equal on all ranks */
	uint32_t tokens, rows; /* T, n */
};

/*
 * Handle: epHtHandle, tokens[R], start[R], rows[R] of each source, then, aligned to 16,
 * epHtPair [T / 32][R]. Token t goes to rank r if bit t % 32 is set; it is row
 * `before` + the lower bits that are set, of this rank's rows there. Then epHtPair [other domain]
 * [most groups][S], of the rail peers' tokens for the ranks of this domain.
 */
struct epHtPair {
	uint32_t bits, before;
};

/* Constant for the life of an ep. */
struct epHtPlan {
	uint32_t tokens;	      /* most of a rank */
	uint32_t rows;		      /* of the pool */
	uint32_t rowBytes, metaBytes; /* the most */
	uint32_t units, batches;      /* words of a source in done, of a holder in ready */
	uint32_t groups;	      /* of `tokens` */
	uint64_t placeAt, doneAt, readyAt, pulledAt, poolAt, metaAt;
	ginWindow_t window; /* {NULL}: none */
	uint32_t *page; /* the host's: [EP_HT_TICKETS][pageWords]: ticket, n, most rows, experts */
	uint32_t pageWords;
	/*
	 * Domains of S consecutive ranks, which are direct to each other; 1: all are. Rail peers:
	 * the ranks with one number in their domains.
	 */
	uint32_t domains, domainSize;
	uint32_t domain, firstPeer; /* this rank's; the first rank of its domain */
	uint32_t pairsAt;	    /* offset in a message */
	uint64_t messageAt, stagedMessageAt, messageBytes;
	uint64_t ringAt, stagedAt, slotBytes;
	uint64_t *chunks;  /* [2][domain][lane]: chunks sent, chunks received, by earlier calls */
	uint32_t *tickets; /* [2][domain][lane][slot]: rows of a chunk that are staged, or read */
	uint64_t *seen;	   /* [lane][signal]: what its signals have reached */
};

struct epHtRows {
	char *data;
	int64_t step; /* bytes from row to row */
};

struct epHtCall {
	struct epHtHandle *handle;
	uint32_t tokens, topk, experts, alignment;
	uint32_t rowBytes, metaBytes, scaleWords, indexBytes;
	uint32_t byteScales; /* scales of a row that have one byte each; 0: scaleWords of 4 */
	uint32_t room;	     /* rows of recvX, or of x of combine */
	uint32_t inPool;     /* they are the pool, or in the window: peers reach them */
	uint32_t where;	     /* in the window: their offset / EP_HT_ALIGN + 1; else 0 */
	uint32_t ticket;     /* 0: none */
	uint32_t orderTopk;  /* combine: experts of a token in topkIdx */
	uint32_t number;     /* EpHtRailPlaces: of its call, enum ginEpCall */
	uint32_t shared;     /* bytes of shared memory of a block on a GPU */
	struct epHtRows x, scales, out, bias[2];
	int64_t scaleStep;
	const char *topkIdx;
	const float *topkWeights;
	char *recvX, *recvScales, *recvTopkIdx;
	float *recvTopkWeights, *outWeights;
	int32_t *srcInfo, *rankPrefix, *recvCounts;
	int32_t *tokensPerRank, *tokensPerExpert;
	uint8_t *isTokenInRank;
};

struct epHtArgs {
	struct epHtPlan plan;
	struct epHtCall call;
};

#endif
