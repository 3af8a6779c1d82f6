/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.h - what a kernel hands to the proxy
 *
 * 64 bytes, eight words. The top bit of each word is the phase of its lap of the ring: 1 in the first
 * lap, 0 in the second, and so on. The ring begins as zeros and is never cleared; a word with the
 * phase of the reader's lap is of this lap, so that the words may become visible in any order.
 * 63 bits are left to each. The top bits of words that are full 64-bit values are in word 0.
 *
 *   word  put, get              putValue            signal, barrier   atomics
 *   0     op, signal kind, how the source is named, spilled bits, peer, counter + 1 or bytes
 *   1     window and offset at the peer              barrier: word     window and offset
 *   2     source: window and    value                epoch             operand
 *   3     bytes       offset    value                                  compare
 *   4                           value                                  result slot
 *   5                           value
 *   6     signal: id, or window and offset; where put, putValue and signal raise one
 *   7     what is added to it
 *
 * A get's own end is in word 2. Windows are named by ginWindowTable.slot of the posting rank.
 */
#ifndef GIN_DESCRIPTOR_H
#define GIN_DESCRIPTOR_H

#include "../abi.h"

#define GIN_DESCRIPTOR_WORDS 8
#define GIN_DESCRIPTOR_PHASE (1ull << 63)

/* No valid one is 0: an empty descriptor is seen. */
enum ginOp {
	ginOpPut = 1,
	ginOpPutValue = 2,
	ginOpGet = 3,
	ginOpSignal = 4,
	ginOpBarrier = 5, /* sets a word by value */
	ginOpFetchAdd = 6,
	ginOpCompareSwap = 7,
	ginOpSwap = 8,
	ginOpNothing = 9 /* its poster has found the peer failed */
};

enum ginRaise {
	ginRaiseNone = 0,
	ginRaiseStrongId = 1,
	ginRaiseWeakId = 2,
	ginRaiseStrongAt = 3,
	ginRaiseWeakAt = 4
};

/* Word 0, from the lowest bit. */
enum {
	GIN_D0_OP = 0,	     /* 4 bits */
	GIN_D0_SIGNAL = 4,   /* 3 bits, enum ginRaise */
	GIN_D0_ADDRESS = 7,  /* 1 bit: word 2 is an address, not a window and offset */
	GIN_D0_SPILL = 8,    /* 5 bits: the top bits of words 2, 3, 4, 5 and 7 */
	GIN_D0_PEER = 13,    /* 20 bits */
	GIN_D0_COUNTER = 33, /* 24 bits: counter + 1, 0 for none; where there is none, bytes */
	GIN_DESCRIPTOR_OFFSET_BITS = 47, /* below the 16 bits of a window's slot */
	GIN_DESCRIPTOR_SLOTS = 65536
};

#endif
