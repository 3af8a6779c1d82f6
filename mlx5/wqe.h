/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wqe.h - a send queue's work request, read back from its bytes
 *
 * For error messages, the software device and gin_mlx5dump(1). What is read is never trusted: any
 * bytes give a struct wqe, and what is wrong with them is said in `defects`.
 */
#ifndef GIN_MLX5_WQE_H
#define GIN_MLX5_WQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WQE_SEGMENTS_MOST = 63, WQE_LOCALS_MOST = 61 };

/* What an opcode's segments are. */
enum wqe_kind {
	WQE_UNKNOWN, /* there is no such opcode */
	WQE_OPAQUE,  /* one that is not read further */
	WQE_EMPTY,   /* nothing but the control segment */
	WQE_LOCAL,   /* local memory */
	WQE_WRITE,   /* remote memory, then local memory or the bytes themselves */
	WQE_READ,    /* remote memory, local memory */
	WQE_SEND,    /* local memory or the bytes themselves */
	WQE_ATOMIC,  /* remote memory, operands, local memory */
	WQE_WAIT,    /* a completion queue and its index */
};

struct wqe_memory {
	uint64_t address;
	uint32_t key, bytes; /* bytes: of local memory only */
};

struct wqe_operands {
	uint64_t swapOrAdd, compare; /* compare: of a masked fetch-add its boundary */
	uint64_t swapMask, compareMask;
};

struct wqe {
	enum wqe_kind kind;
	uint8_t opcode, opMod, segments, signature, flags;
	uint16_t index;
	uint32_t queue, immediate; /* immediate: as a number, which is big-endian in memory */
	uint32_t wqebbs;	   /* that it takes, one at least */
	uint32_t read;		   /* segments that could be read: members below are of those */

	struct wqe_memory remote;
	struct wqe_memory local[WQE_LOCALS_MOST];
	uint32_t locals;
	uint8_t inlined[16 * WQE_SEGMENTS_MOST]; /* bytes that the WQE carries itself */
	uint32_t inlinedBytes;
	uint32_t width; /* of an atomic's word, in bytes */
	struct wqe_operands operands;
	uint32_t waitQueue, waitIndex;

	char defects[512]; /* "" when it is well-formed; else sentences, with "; " between them */
};

/*
 * The WQE that begins in WQEBB `slot` of a queue, or of a part of one, that has `wqebbs` of them.
 * One that begins near the end goes on at the beginning. Unaligned memory will do.
 */
void wqeRead(const void *queue, uint32_t wqebbs, uint32_t slot, struct wqe *wqe);

/* Nothing was ever written there: zeros. */
bool wqeIsBlank(const void *queue, uint32_t slot);

/* What else is wrong with it, as `format` says, beside its defects. */
__attribute__((format(printf, 2, 3))) void wqeDefect(struct wqe *wqe, const char *format, ...);

/*
 * In words, without its defects: "RDMA_WRITE, index 0x5, queue 0x1a2, ds 3, CQE", and `between`
 * before each part: "to 0x7f00 rkey 0x1", "8 bytes from 0x7f10 lkey 0x2". Returns what snprintf()
 * would.
 */
size_t wqeText(const struct wqe *wqe, const char *between, char *out, size_t room);

#endif
