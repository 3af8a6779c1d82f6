/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wqe.h - work queue elements as the device reads them
 */
#ifndef MLX5DEV_WQE_H
#define MLX5DEV_WQE_H

#include "mlx5/dev/device/device.h"

enum wqe_opcode {
	WQE_NOP = 0x00,
	WQE_WRITE = 0x08,
	WQE_WRITE_IMM = 0x09,
	WQE_SEND = 0x0a,
	WQE_SEND_IMM = 0x0b,
	WQE_WAIT = 0x0f,
	WQE_READ = 0x10,
	WQE_COMPARE_SWAP = 0x11,
	WQE_FETCH_ADD = 0x12,
	WQE_MASKED_COMPARE_SWAP = 0x14,
	WQE_MASKED_FETCH_ADD = 0x15,
	WQE_DUMP = 0x23,
};

enum wqe_syndrome {
	SYNDROME_LOCAL_LENGTH = 0x01,
	SYNDROME_LOCAL_QP_OP = 0x02,
	SYNDROME_LOCAL_PROTECTION = 0x04,
	SYNDROME_FLUSHED = 0x05,
	SYNDROME_LOCAL_ACCESS = 0x11,
	SYNDROME_REMOTE_INVALID = 0x12,
	SYNDROME_REMOTE_ACCESS = 0x13,
	SYNDROME_REMOTE_OPERATION = 0x14,
	SYNDROME_RETRY_EXCEEDED = 0x15,
	SYNDROME_RNR_RETRY_EXCEEDED = 0x16,
};

enum wqe_fence { FENCE_NONE, FENCE_SMALL, FENCE_READS, FENCE_ALL, FENCE_READS_SMALL };

/* Local data: registered, or in the element itself. */
struct wqe_data {
	uint64_t address;
	uint32_t bytes, key;
	const uint8_t *inlined; /* or NULL */
};

struct wqe {
	uint8_t raw[WQE_MAX];
	uint32_t index, segments, wqebbs;
	uint8_t opcode, fence;
	bool signaled;
	uint32_t immediate; /* as it is on the wire */
	uint64_t address;   /* remote */
	uint32_t key;
	uint8_t operandBytes;
	/* add or swap, compare or field boundary, swap mask, compare mask */
	uint64_t operands[4];
	struct wqe_data data[SINKS];
	uint32_t dataCount, bytes;
};

/* Copies what is at qp's index `index`, up to `end`; a malformed WQE is a violation. */
void wqeFetch(const struct qp *qp, uint32_t index, uint32_t end, struct wqe *wqe);

/*
 * Elements fill the WQEBBs from `first` to `end`: what the device sees when it looks at a record.
 */
void wqeExpect(const struct qp *qp, uint32_t first, uint32_t end, const char *who);

/* The doorbell is the control segment's first 8 bytes: it has the number of segments. */
void wqeExpectSegments(const struct qp *qp, uint32_t index, uint32_t segments);

static inline bool wqeIsMasked(uint8_t opcode)
{
	return opcode == WQE_MASKED_COMPARE_SWAP || opcode == WQE_MASKED_FETCH_ADD;
}

static inline bool wqeIsAtomic(uint8_t opcode)
{
	return opcode == WQE_COMPARE_SWAP || opcode == WQE_FETCH_ADD || wqeIsMasked(opcode);
}

static inline bool wqeIsSend(uint8_t opcode)
{
	return opcode == WQE_SEND || opcode == WQE_SEND_IMM;
}

static inline bool wqeIsWrite(uint8_t opcode)
{
	return opcode == WQE_WRITE || opcode == WQE_WRITE_IMM;
}

/* Whether the answer to it brings data. */
static inline bool wqeResponds(uint8_t opcode)
{
	return opcode == WQE_READ || wqeIsAtomic(opcode);
}

#endif
