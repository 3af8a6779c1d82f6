/* SPDX-License-Identifier: BSD-3-Clause */
/* op.h - the operations of descriptors of the proxy and of posts to a NIC: C11 and C++ */
#ifndef GIN_OP_H
#define GIN_OP_H

/* 0 is not used, so that an empty descriptor is noticed. */
enum ginOp {
	ginOpPut = 1,
	ginOpPutValue = 2,
	ginOpGet = 3,
	ginOpSignal = 4,
	ginOpBarrier = 5, /* stores a word */
	ginOpFetchAdd = 6,
	ginOpCompareSwap = 7,
	ginOpSwap = 8,
	ginOpNothing = 9 /* fills the slot of a post to a failed peer */
};

#endif
