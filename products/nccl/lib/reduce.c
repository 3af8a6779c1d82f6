/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.c - sums and other reductions by the CPU */
#include "internal.h"

#define REDUCE_TYPES(X)                                                                            \
	X(ncclInt8, int8_t)                                                                        \
	X(ncclUint8, uint8_t)                                                                      \
	X(ncclInt32, int32_t)                                                                      \
	X(ncclUint32, uint32_t)                                                                    \
	X(ncclInt64, int64_t)                                                                      \
	X(ncclUint64, uint64_t)                                                                    \
	X(ncclFloat32, float)                                                                      \
	X(ncclFloat64, double)

size_t ncclTypeSize(ncclDataType_t type)
{
	static const unsigned char sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return (unsigned)type < ncclNumTypes ? sizes[type] : 0;
}

ncclResult_t ncclReduceCheck(const char *call, ncclDataType_t type, ncclRedOp_t op)
{
	switch ((int)type) {
#define REDUCE_CASE(name, c) case name:
		REDUCE_TYPES(REDUCE_CASE)
#undef REDUCE_CASE
		if ((unsigned)op < ncclNumOps)
			return ncclSuccess;
	}
	return ncclFail(ncclInvalidUsage,
			"%s: type %d with operation %d: libgin reduces integers, float and double "
			"by ncclSum, ncclProd, ncclMax, ncclMin and ncclAvg",
			call, (int)type, (int)op);
}

#define REDUCE_ONE(into, from, op)                                                                 \
	do {                                                                                       \
		if ((op) == ncclMax)                                                               \
			(into) = (into) > (from) ? (into) : (from);                                \
		else if ((op) == ncclMin)                                                          \
			(into) = (into) < (from) ? (into) : (from);                                \
		else if ((op) == ncclProd)                                                         \
			(into) *= (from);                                                          \
		else                                                                               \
			(into) += (from);                                                          \
	} while (0)

#define REDUCE_FUNCTIONS(name, c)                                                                  \
	static void reduce_##name(c *into, const c *from, size_t count, ncclRedOp_t op)            \
	{                                                                                          \
		for (size_t i = 0; i < count; i++)                                                 \
			REDUCE_ONE(into[i], from[i], op);                                          \
	}                                                                                          \
	static void divide_##name(c *into, size_t count, int by)                                   \
	{                                                                                          \
		for (size_t i = 0; i < count; i++)                                                 \
			into[i] = (c)(into[i] / by);                                               \
	}
REDUCE_TYPES(REDUCE_FUNCTIONS)

void ncclReduceInto(void *into, const void *from, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
	switch ((int)type) {
#define REDUCE_CASE(name, c)                                                                       \
	case name:                                                                                 \
		reduce_##name(into, from, count, op);                                              \
		break;
		REDUCE_TYPES(REDUCE_CASE)
#undef REDUCE_CASE
	}
}

void ncclReduceEnd(void *into, size_t count, ncclDataType_t type, ncclRedOp_t op, int nRanks)
{
	if (op != ncclAvg)
		return;
	switch ((int)type) {
#define REDUCE_CASE(name, c)                                                                       \
	case name:                                                                                 \
		divide_##name(into, count, nRanks);                                                \
		break;
		REDUCE_TYPES(REDUCE_CASE)
#undef REDUCE_CASE
	}
}
