/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wqe.h - decodes a send queue's work request
 *
 * For error messages, the software device and gin_mlx5dump(1). Any bytes can be decoded; `defects`
 * describes what is malformed.
 */
#ifndef GIN_MLX5_WQE_H
#define GIN_MLX5_WQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WQE_SEGMENTS_MOST = 63, WQE_LOCALS_MOST = 61 };

/* Opcodes that are decoded but not in gin/core/mlx5.h: libgin does not write them. */
enum wqeOpcode {
	wqeOpcodeSendInvalidate = 0x01,
	wqeOpcodeSend = 0x0a,
	wqeOpcodeSendImmediate = 0x0b,
	wqeOpcodeWait = 0x0f
};

/* The segments of an opcode after the control segment. */
enum wqeKind {
	wqeKindUnknown, /* the opcode does not exist */
	wqeKindOpaque,	/* segments are not decoded */
	wqeKindEmpty,	/* none */
	wqeKindLocal,	/* local memory */
	wqeKindWrite,	/* remote memory, then local memory or inline bytes */
	wqeKindRead,	/* remote memory, local memory */
	wqeKindSend,	/* local memory or inline bytes */
	wqeKindAtomic,	/* remote memory, operands, local memory */
	wqeKindWait,	/* a completion queue and its index */
};

struct wqeMemory {
	uint64_t address;
	uint32_t key, bytes; /* bytes: of local memory only */
};

struct wqeOperands {
	uint64_t swapOrAdd, compare; /* compare: the boundary of a masked fetch-add */
	uint64_t swapMask, compareMask;
};

struct decodedWqe {
	enum wqeKind kind;
	uint8_t opcode, opMod, segments, signature, flags;
	uint16_t index;
	uint32_t queue, immediate; /* immediate: in this machine's byte order */
	uint32_t wqebbs;	   /* that the WQE occupies, 1 at least */
	uint32_t read;		   /* segments that were decoded into the members below */

	struct wqeMemory remote;
	struct wqeMemory local[WQE_LOCALS_MOST];
	uint32_t locals;
	uint8_t inlined[16 * WQE_SEGMENTS_MOST]; /* inline bytes */
	uint32_t inlinedBytes;
	uint32_t width; /* bytes of an atomic's word */
	struct wqeOperands operands;
	uint32_t waitQueue, waitIndex;

	char defects[512]; /* sentences, separated by "; "; "": well-formed */
};

/*
 * Decodes the WQE that begins in WQEBB `slot` of a queue of `wqebbs` WQEBBs. A WQE at the end of
 * the queue continues at its beginning. The memory may be unaligned.
 */
void wqeDecode(const void *queue, uint32_t wqebbs, uint32_t slot, struct decodedWqe *wqe);

/* Is the WQEBB all zeros, as before the first WQE was written there? */
bool wqeIsBlank(const void *queue, uint32_t slot);

/* Appends a sentence to its defects. */
__attribute__((format(printf, 2, 3))) void wqeDefect(struct decodedWqe *wqe, const char *format,
						     ...);

/*
 * Describes the WQE without its defects: "RDMA_WRITE, index 0x5, queue 0x1a2, ds 3, CQE", then each
 * segment after `between`: "to 0x7f00 rkey 0x1", "8 bytes from 0x7f10 lkey 0x2". Returns as
 * snprintf() does.
 */
size_t wqeText(const struct decodedWqe *wqe, const char *between, char *out, size_t room);

#endif
