/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wqe.h - a send queue's work request, read back from its bytes
 *
 * For error messages, the software device and gin_mlx5dump(1). What is read is never trusted: any
 * bytes give a struct decodedWqe, and what is wrong with them is said in `defects`.
 */
#ifndef GIN_MLX5_WQE_H
#define GIN_MLX5_WQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WQE_SEGMENTS_MOST = 63, WQE_LOCALS_MOST = 61 };

/* Opcodes that are read beside those that gin/gdaki/mlx5.h writes. */
enum wqeOpcode {
	wqeOpcodeSendInvalidate = 0x01,
	wqeOpcodeSend = 0x0a,
	wqeOpcodeSendImmediate = 0x0b,
	wqeOpcodeWait = 0x0f
};

/* What an opcode's segments are. */
enum wqeKind {
	wqeKindUnknown, /* there is no such opcode */
	wqeKindOpaque,	/* one that is not read further */
	wqeKindEmpty,	/* nothing but the control segment */
	wqeKindLocal,	/* local memory */
	wqeKindWrite,	/* remote memory, then local memory or the bytes themselves */
	wqeKindRead,	/* remote memory, local memory */
	wqeKindSend,	/* local memory or the bytes themselves */
	wqeKindAtomic,	/* remote memory, operands, local memory */
	wqeKindWait,	/* a completion queue and its index */
};

struct wqeMemory {
	uint64_t address;
	uint32_t key, bytes; /* bytes: of local memory only */
};

struct wqeOperands {
	uint64_t swapOrAdd, compare; /* compare: of a masked fetch-add its boundary */
	uint64_t swapMask, compareMask;
};

struct decodedWqe {
	enum wqeKind kind;
	uint8_t opcode, opMod, segments, signature, flags;
	uint16_t index;
	uint32_t queue, immediate; /* immediate: as a number, which is big-endian in memory */
	uint32_t wqebbs;	   /* that it takes, one at least */
	uint32_t read;		   /* segments that could be read: members below are of those */

	struct wqeMemory remote;
	struct wqeMemory local[WQE_LOCALS_MOST];
	uint32_t locals;
	uint8_t inlined[16 * WQE_SEGMENTS_MOST]; /* bytes that the WQE carries itself */
	uint32_t inlinedBytes;
	uint32_t width; /* of an atomic's word, in bytes */
	struct wqeOperands operands;
	uint32_t waitQueue, waitIndex;

	char defects[512]; /* "" when it is well-formed; else sentences, with "; " between them */
};

/*
 * The WQE that begins in WQEBB `slot` of a queue, or of a part of one, that has `wqebbs` of them.
 * One that begins near the end goes on at the beginning. Unaligned memory will do.
 */
void wqeDecode(const void *queue, uint32_t wqebbs, uint32_t slot, struct decodedWqe *wqe);

/* Nothing was ever written there: zeros. */
bool wqeIsBlank(const void *queue, uint32_t slot);

/* What else is wrong with it, as `format` says, beside its defects. */
__attribute__((format(printf, 2, 3))) void wqeDefect(struct decodedWqe *wqe, const char *format,
						     ...);

/*
 * In words, without its defects: "RDMA_WRITE, index 0x5, queue 0x1a2, ds 3, CQE", and `between`
 * before each part: "to 0x7f00 rkey 0x1", "8 bytes from 0x7f10 lkey 0x2". Returns what snprintf()
 * would.
 */
size_t wqeText(const struct decodedWqe *wqe, const char *between, char *out, size_t room);

#endif
