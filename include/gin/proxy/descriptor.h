/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor.h - the layout of a descriptor, by which a kernel hands a call to the proxy
 *
 * route.cuh makes it, ring.cuh writes it, backends/proxy/descriptor.c reads it. 64 bytes, eight
 * words. The top bit of each word is the phase of the ring's lap: 1 in the first lap, 0 in the
 * second, and so on. The ring begins as zeros and is never cleared. A word with the phase of the
 * reader's lap belongs to this lap, so the words may become visible in any order.
 *
 * A word has 63 bits besides the phase. Where a word carries a full 64-bit value, its top bit is
 * in word 0.
 *
 * word  put, get              putValue            signal, barrier   atomics
 * 0     op, signal kind, how the source is named, spilled bits, peer, counter + 1 or bytes
 * 1     window and offset at the peer              barrier: word     window and offset
 * 2     source: window and    value                epoch             operand
 * 3     bytes       offset    value                                  compare
 * 4                           value                                  result slot + 1
 * 5                           value
 * 6     of a put, value or signal that raises a signal: id, or window and offset
 * 7     what is added to the signal
 *
 * A number that does not fit its field is written as a number that no window or counter has, so
 * that the proxy refuses the descriptor.
 *
 * Word 2 of a get is its local target. A window is named by ginWindowTable.slot of the posting
 * rank.
 */
#ifndef GIN_DESCRIPTOR_H
#define GIN_DESCRIPTOR_H

#include "../core/abi.h"
#include "../core/op.h"

#define GIN_DESCRIPTOR_WORDS 8
#define GIN_DESCRIPTOR_PHASE (1ull << 63)

enum ginRaise {
	ginRaiseNone = 0,
	ginRaiseStrongId = 1,
	ginRaiseWeakId = 2,
	ginRaiseStrongAt = 3,
	ginRaiseWeakAt = 4
};

/* Word 0: the lowest bit of each field. */
enum {
	GIN_D0_OP = 0,	     /* 4 bits */
	GIN_D0_SIGNAL = 4,   /* 3 bits, enum ginRaise */
	GIN_D0_ADDRESS = 7,  /* 1 bit: word 2 is an address, not a window and offset */
	GIN_D0_SPILL = 8,    /* 5 bits: the top bits of words 2, 3, 4, 5 and 7 */
	GIN_D0_PEER = 13,    /* 20 bits */
	GIN_D0_COUNTER = 33, /* 30 bits: counter + 1, 0 for none; of values and atomics: bytes */
	GIN_D0_COUNTER_BITS = 30,
	GIN_DESCRIPTOR_OFFSET_BITS = 47, /* the window's slot is in the 16 bits above */
	GIN_DESCRIPTOR_SLOTS = 65536
};

#endif
