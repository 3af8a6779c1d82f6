/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * how.cuh - the small arguments of a network call, packed
 *
 * A call with default options passes one constant.
 */
#ifndef GIN_HOW_CUH
#define GIN_HOW_CUH

#include "options.cuh"

/* A word `how`: the lowest bit of each field. Usually a constant. */
enum {
	GIN_HOW_SHARING = 0,  /* 2 bits, enum ginSharing */
	GIN_HOW_GIVEN = 2,    /* 2 bits, enum ginScope, as in ginOptions */
	GIN_HOW_REQUIRED = 4, /* 2 bits, enum ginScope */
	GIN_HOW_AGGREGATE = 6,
	GIN_HOW_ANYWHERE = 7, /* the source is an address, not a window and an offset */
	GIN_HOW_RAISES = 8,   /* there is a remote action */
	GIN_HOW_STRONG = 9,   /* its signal is strong */
	GIN_HOW_AT = 10,      /* its signal is a word of a window */
	GIN_HOW_CALL = 11,    /* 4 bits, enum ginCall, of the error record; 0: leave none */
	GIN_HOW_AGAIN = 15,   /* proxy: a retry, because the ring was full */
	GIN_HOW_COUNTS = 16,  /* gdaki: a put that raises a counter */
	GIN_HOW_SYSTEM = 17,  /* gdaki: the source has yet to be released to the system */
	GIN_HOW_PART = 18,    /* gdaki: more posts of the message follow: a NOP, no signal */
	GIN_HOW_CONTEXT = 20  /* gdaki: the context, for the error record */
};

GIN_FN uint32_t ginHow(uint32_t call, ginSharing sharing, const ginSignalOp &op,
		       const ginOptions &options)
{
	return call << GIN_HOW_CALL | static_cast<uint32_t>(sharing) << GIN_HOW_SHARING |
	       static_cast<uint32_t>(options.given) << GIN_HOW_GIVEN |
	       static_cast<uint32_t>(options.required) << GIN_HOW_REQUIRED |
	       static_cast<uint32_t>(options.aggregate) << GIN_HOW_AGGREGATE |
	       static_cast<uint32_t>(op.present) << GIN_HOW_RAISES |
	       static_cast<uint32_t>(op.strong) << GIN_HOW_STRONG |
	       static_cast<uint32_t>(op.at) << GIN_HOW_AT;
}

GIN_FN ginSharing ginHowSharing(uint32_t how)
{
	return static_cast<ginSharing>(how >> GIN_HOW_SHARING & 3);
}

GIN_FN uint32_t ginHowGiven(uint32_t how)
{
	return how >> GIN_HOW_GIVEN & 3;
}

GIN_FN uint32_t ginHowRequired(uint32_t how)
{
	return how >> GIN_HOW_REQUIRED & 3;
}

GIN_FN bool ginHowHas(uint32_t how, uint32_t bit)
{
	return how >> bit & 1;
}

GIN_FN uint32_t ginHowCall(uint32_t how)
{
	return how >> GIN_HOW_CALL & 15;
}

/* The signal, as one word: its id, or its offset in a window. */
GIN_FN uint64_t ginSignalWhere(const ginSignalOp &op)
{
	return op.at ? op.offset : op.id;
}

/* The remote action, from `how` and the scalars of a call. */
GIN_FN ginSignalOp ginHowSignal(uint32_t how, struct ginWindowTable *window, uint64_t where,
				uint64_t value)
{
	const bool at = ginHowHas(how, GIN_HOW_AT);

	return {ginHowHas(how, GIN_HOW_RAISES),
		ginHowHas(how, GIN_HOW_STRONG),
		at,
		at ? UINT32_MAX : static_cast<uint32_t>(where),
		{window},
		where,
		value};
}

/*
 * A ginPeerSet in one word: count and first of 20 bits each, and the stride, which may be negative.
 * A communicator has fewer than 2^20 ranks.
 */
GIN_FN uint64_t ginFromPack(const ginPeerSet &from)
{
	return from.count ? static_cast<uint64_t>(from.stride) << 40 |
				    static_cast<uint64_t>(from.first) << 20 | from.count
			  : 0;
}

GIN_FN ginPeerSet ginFromUnpack(uint64_t from)
{
	ginPeerSet set;

	set.count = from & 0xfffff;
	set.first = from >> 20 & 0xfffff;
	set.stride = static_cast<uint32_t>(static_cast<int64_t>(from) >> 40);
	return set;
}

#endif
