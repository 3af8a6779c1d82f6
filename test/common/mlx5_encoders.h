/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_encoders.h - further encoders of WQEs, of forms that libgin does not post
 *
 * A device and the decoders of mlx5/ take these forms as well. C11 and C++11, nvcc and NVRTC, as
 * gin/core/mlx5.h.
 */
#ifndef GIN_TEST_MLX5_ENCODERS_H
#define GIN_TEST_MLX5_ENCODERS_H

#include <gin/core/mlx5.h>

/*
 * Segment `i` of a WQEBB in registers; an array index would move the WQEBB to memory. With it four
 * lanes that have made equal WQEBBs store one segment each.
 */
GIN_MLX5_FN struct ginMlx5Segment ginMlx5SegmentOf(struct ginMlx5Wqebb wqebb, uint32_t i)
{
	struct ginMlx5Segment segment;

	for (uint32_t k = 0; k < 4; k++) {
		uint32_t low = i & 1 ? wqebb.segment[1].word[k] : wqebb.segment[0].word[k];
		uint32_t high = i & 1 ? wqebb.segment[3].word[k] : wqebb.segment[2].word[k];
		segment.word[k] = i & 2 ? high : low;
	}
	return segment;
}

/*
 * A write that also consumes a receive request of the peer, whose CQE carries `immediate`
 * unchanged.
 */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5WriteImmediate(struct ginMlx5Slot slot,
						      struct ginMlx5Memory remote,
						      struct ginMlx5Memory local, uint32_t bytes,
						      uint32_t immediate)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpWriteImmediate, 0, 3, immediate),
				    ginMlx5Remote(remote), ginMlx5Local(local, bytes),
				    ginMlx5NoSegment()}};

	return wqe;
}

GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5WriteInline4(struct ginMlx5Slot slot,
						    struct ginMlx5Memory remote, uint32_t value)
{
	return ginMlx5WriteInline(slot, remote, &value, 4);
}

/* Writes 32 bytes; the last four need a second WQEBB. */
GIN_MLX5_FN struct ginMlx5TwoWqebbs
ginMlx5WriteInline32(struct ginMlx5Slot slot, struct ginMlx5Memory remote, const uint32_t *value)
{
	struct ginMlx5TwoWqebbs wqe = {{ginMlx5WriteInline(slot, remote, value, 28),
					{{{{value[7], 0, 0, 0}},
					  ginMlx5NoSegment(),
					  ginMlx5NoSegment(),
					  ginMlx5NoSegment()}}}};

	wqe.wqebb[0].segment[0] = ginMlx5Control(slot, ginMlx5OpWrite, 0, 5, 0);
	wqe.wqebb[0].segment[2].word[0] = ginMlx5InlineWord(32);
	return wqe;
}

/* As ginMlx5MaskedFetchAdd4(), with 8 aligned bytes. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5MaskedFetchAdd8(struct ginMlx5Slot slot,
						       struct ginMlx5Memory remote,
						       struct ginMlx5Memory local, uint64_t add,
						       uint64_t boundary)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpMaskedFetchAdd, ginMlx5Atomic8, 4, 0),
			     remote, local, ginMlx5Pair(add, boundary), 8);
}

#endif
