/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cqe.h - a completion, read back from its bytes
 *
 * For error messages, the software device and gin_mlx5dump(1). Any bytes give a struct decodedCqe,
 * and what is wrong with them is said in `defects`.
 */
#ifndef GIN_MLX5_CQE_H
#define GIN_MLX5_CQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decodedCqe {
	uint8_t opcode, format, owner, signature;
	uint8_t wqeOpcode; /* of a request, and of its error */
	uint16_t counter;  /* index of the first WQEBB of the WQE that is done */
	uint32_t queue, userIndex;
	uint32_t bytes, immediate; /* immediate: as a number, which is big-endian in memory */
	uint64_t timestamp;
	uint8_t syndrome, vendorSyndrome, hardwareSyndrome; /* of an error */
	char defects[256]; /* "" when it is well-formed; else sentences, with "; " between them */
};

/* 64 bytes; unaligned memory will do. */
void cqeDecode(const void *bytes, struct decodedCqe *cqe);

bool cqeIsError(const struct decodedCqe *cqe);

/* The device has not written it. */
bool cqeIsBlank(const struct decodedCqe *cqe);

/* What else is wrong with it, beside its defects. */
__attribute__((format(printf, 2, 3))) void cqeDefect(struct decodedCqe *cqe, const char *format,
						     ...);

/*
 * In words, without its defects: "REQ: RDMA_WRITE of queue 0x1a2 done, index 0x5", or "REQ_ERR:
 * ...", with what the syndrome means behind `between`. Returns what snprintf() would.
 */
size_t cqeText(const struct decodedCqe *cqe, const char *between, char *out, size_t room);

#endif
