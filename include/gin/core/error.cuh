/* SPDX-License-Identifier: BSD-3-Clause */
/* error.cuh - results in words of 64 bits, and the error record of a device communicator */
#ifndef GIN_ERROR_CUH
#define GIN_ERROR_CUH

#include "ordering.cuh"

/* The result in the low half of a word: of the abort line, of a failed ring, of a send queue. */
GIN_FN ginResult_t ginResultOf(uint64_t word)
{
	return static_cast<ginResult_t>(word & 0xffffffffu);
}

/* The peer in a word of the abort line, which has 24 bits with a sign. */
GIN_FN int32_t ginAbortPeer(uint64_t word)
{
	return static_cast<int32_t>(word >> 24) >> 8;
}

/* The result of a call on a peer that has failed or is not connected: ginPeerState. */
GIN_FN ginResult_t ginPeerLostHere(const uint64_t *abortWord)
{
	ginResult_t why = ginResultOf(ginHostWordObserve(abortWord));
	return why != ginSuccess ? why : ginErrorPeer;
}

GIN_FN_COLD ginResult_t ginPeerLost(const uint64_t *abortWord)
{
	return ginPeerLostHere(abortWord);
}

/* Cold functions take dc.self, one pointer, so that a signal without an error loads no argument. */

/* Writes the error record, unless an earlier failure has. Any thread. */
GIN_FN void ginErrorLeaveHere(const ginDevComm *dc, ginResult_t result, uint32_t call,
			      uint32_t context, int peer, uint32_t id, uint64_t expected,
			      uint64_t seen)
{
	struct ginErrorRecord *record = dc->errorRecord;

	if (!ginErrorClaim(dc->errorClaim))
		return;
	record->result = static_cast<uint32_t>(result);
	record->call = call;
	record->context = context;
	record->peer = peer;
	record->id = id;
	record->expected = expected;
	record->seen = seen;
	ginErrorPublish(&record->valid);
}

GIN_FN_COLD void ginErrorLeave(const ginDevComm *dc, ginResult_t result, uint32_t call,
			       uint32_t context, int peer, uint32_t id, uint64_t expected,
			       uint64_t seen)
{
	ginErrorLeaveHere(dc, result, call, context, peer, id, expected, seen);
}

/* Not inlined, in kernels for the proxy alone: see ginPostWaitCalled(). */
GIN_FN_CALLED void ginErrorLeaveCalled(const ginDevComm *dc, ginResult_t result, uint32_t call,
				       uint32_t context, int peer, uint32_t id, uint64_t expected,
				       uint64_t seen)
{
	ginErrorLeaveHere(dc, result, call, context, peer, id, expected, seen);
}

#endif
