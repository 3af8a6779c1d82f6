/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cqe.h - decodes a completion queue entry
 *
 * For error messages, the software device and gin_mlx5dump(1). Any bytes can be decoded; `defects`
 * describes what is malformed.
 */
#ifndef GIN_MLX5_CQE_H
#define GIN_MLX5_CQE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decodedCqe {
	uint8_t opcode, format, owner, signature;
	uint8_t wqeOpcode; /* of REQ and REQ_ERR */
	uint16_t counter;  /* index of the completed WQE's first WQEBB */
	uint32_t queue, userIndex;
	uint32_t bytes, immediate; /* immediate: in this machine's byte order */
	uint64_t timestamp;
	uint8_t syndrome, vendorSyndrome, hardwareSyndrome; /* of REQ_ERR and RESP_ERR */
	char defects[256]; /* sentences, separated by "; "; "": well-formed */
};

/* Decodes 64 bytes, which may be unaligned. */
void cqeDecode(const void *bytes, struct decodedCqe *cqe);

bool cqeIsError(const struct decodedCqe *cqe);

/* Has the device not written the entry yet? */
bool cqeIsBlank(const struct decodedCqe *cqe);

/* Appends a sentence to its defects. */
__attribute__((format(printf, 2, 3))) void cqeDefect(struct decodedCqe *cqe, const char *format,
						     ...);

/*
 * Describes the entry without its defects: "REQ: RDMA_WRITE of queue 0x1a2 done, index 0x5", or
 * "REQ_ERR: ...", then `between` and the meaning of the syndrome. Returns as snprintf() does.
 */
size_t cqeText(const struct decodedCqe *cqe, const char *between, char *out, size_t room);

#endif
