/* SPDX-License-Identifier: BSD-3-Clause */
#include "atomic.h"

#include "mlx5/dev/host/memory.h"
#include "wqe.h"

/* A set bit of the boundary is the uppermost of a field: no carry goes out of it. */
static uint64_t addFields(uint64_t value, uint64_t add, uint64_t boundary)
{
	uint64_t low = (value & ~boundary) + (add & ~boundary);

	/*
	 * Each field without its uppermost bit cannot carry out of the field; that bit is added
	 * alone.
	 */
	return low ^ ((value ^ add) & boundary);
}

static uint64_t replaced(uint8_t opcode, uint64_t value, const uint64_t operands[4])
{
	switch (opcode) {
	case WQE_FETCH_ADD:
		return value + operands[0];
	case WQE_MASKED_FETCH_ADD:
		return addFields(value, operands[0], operands[1]);
	case WQE_COMPARE_SWAP:
		return value == operands[1] ? operands[0] : value;
	default:
		if ((value ^ operands[1]) & operands[3])
			return value;
		return (value & ~operands[2]) | (operands[0] & operands[2]);
	}
}

uint64_t atomicExecute(uint8_t opcode, uint64_t at, uint32_t bytes, const uint64_t operands[4])
{
	uint64_t seen = 0;

	memoryRead(&seen, at, bytes);
	while (!memoryExchange(at, bytes, &seen, replaced(opcode, seen, operands))) {
		/* `seen` is the current value. */
	}
	return seen;
}
