// SPDX-License-Identifier: BSD-3-Clause
// steps.cuh - a put by a thread alone on its queue, with one more step in each row
#ifndef GIN_BENCH_GPUNETIO_STEPS_CUH
#define GIN_BENCH_GPUNETIO_STEPS_CUH

#include "calls.cuh"

// Steps of ginWorkAlone(), beyond WQE, fence, record and doorbell.
enum AloneStep {
	stepRoom = 1,	  // the index comes from memory; check for room
	stepRoomWeak = 2, // stepRoom, the index stored by a weak store
	stepTurn = 4,	  // move the turn; store which WQEBBs have been announced
	stepLatched = 8,  // load the queue's error
	stepPeer = 16,	  // load the peer's state
	stepWindow = 32,  // load addresses and keys from the windows' tables
	stepAll = stepRoom | stepTurn | stepLatched | stepPeer | stepWindow
};

template <uint32_t steps> struct AloneSteps : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		const uint32_t how =
			ginHow(ginCallPut, ginSharingThread, ginSignalOf(GinNone{}), ginOptions());
		uint32_t state = ginPeerAlive;
		uint64_t latched = 0, first = i;
		ginMlx5Memory here = {8192, ginMlx5Key(0x5678)}, there = {4096, ginMlx5Key(0x1234)};

		if (steps & stepPeer)
			state = ginPeerObserve(call.dc.peers).state;
		if (steps & stepLatched)
			latched = ginLocalLoad(&q->latched);
		ginSendFixed f = ginSendLoad({}, q, GIN_SEND_WRITE);
		f = ginSendLoad(f, q, GIN_SEND_TURN | GIN_SEND_RING);
		if (steps & stepWindow)
			lookUp(how, here, there);
		if (steps & (stepRoom | stepRoomWeak) && !reserve(f, &first))
			return ginErrorTimeout;
		ginMlx5StoreWqebb(ginSendWqebb(f, first),
				  ginMlx5Write(ginSendSlot(f, {first, 1}, 0), there, here, 4096));
		if (state != ginPeerAlive || latched)
			return ginErrorPeer;
		ginNicRelease(true);
		announce(f, first, first + 1);
		return ginSuccess;
	}

private:
	__device__ void lookUp(uint32_t how, ginMlx5Memory &here, ginMlx5Memory &there) const
	{
		ginGdakiFrom from = ginGdakiHere(call.window.table, 0, how);
		ginWord16 part = ginGdakiLoad(&ginWindowAt(call.window, 0).nicAddress, how);
		here = {from.address, from.key};
		there = {part.half[0], static_cast<uint32_t>(part.half[1])};
	}

	__device__ bool reserve(const ginSendFixed &f, uint64_t *first) const
	{
		if (steps & stepRoom)
			return ginSendReserveTry(q, f.logDepth, 1, first, ginSharingThread);
		*first = q->reserved;
		if (*first + 1 - q->done > 1ull << f.logDepth)
			return false;
		q->reserved = *first + 1;
		return true;
	}

	__device__ void announce(const ginSendFixed &f, uint64_t from, uint64_t to) const
	{
		uint32_t low = static_cast<uint32_t>(to);

		if (steps & stepTurn)
			ginSendRingAlone(q, f, from, to, true);
		else
			ginNicRing(&f.record->send, ginMlx5RecordWord(low), f.doorbell,
				   ginMlx5Doorbell(f.queue, low));
	}
};

// A put without class Gin: the functions of call.cuh, which are inlined, or one call.
template <ginSharing sharing, bool called> struct WithoutGin : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t) const
	{
		const uint32_t how =
			ginHow(ginCallPut, sharing, ginSignalOf(GinNone{}), ginOptions());

		return ginGdakiPut<called, ginActionShape<GinNone>>(
			call.dc.self, q, call.dc.peers, context, how, UINT32_MAX, 4096, 0, false, 0,
			0, 0, [&]() -> ginGdakiPutWhere {
				return {&ginWindowAt(call.window, 0),
					nullptr,
					0,
					0,
					reinterpret_cast<uintptr_t>(call.window.table),
					0,
					nullptr};
			});
	}
};

// Bench: gpunetio.cu.
template <class Bench> void stepsOfPut(Bench &b)
{
	const Shape one = {1, 1, 1, 8192, 1, false};

	b.template alone<AloneSteps<0>>(b.calls, "steps: WQE, fence.release, record, doorbell", one,
					false);
	b.template alone<AloneSteps<stepRoom>>(b.calls, "steps: also room", one, false);
	b.template alone<AloneSteps<stepRoomWeak>>(b.calls, "steps: also room, by a weak store",
						   one, false);
	b.template alone<AloneSteps<stepTurn>>(b.calls, "steps: also the turn", one, false);
	b.template alone<AloneSteps<stepLatched>>(b.calls, "steps: also the queue's error", one,
						  false);
	b.template alone<AloneSteps<stepPeer>>(b.calls, "steps: also the peer's state", one, false);
	b.template alone<AloneSteps<stepWindow>>(b.calls, "steps: also the windows' tables", one,
						 false);
	b.template alone<AloneSteps<stepAll>>(b.calls, "steps: all", one, false);
	b.template alone<AloneSteps<(stepAll & ~stepRoom) | stepRoomWeak>>(
		b.calls, "steps: all, room by a weak store", one, false);
	b.template alone<WithoutGin<ginSharingThread, false>>(
		b.calls, "without Gin: put, one thread, exclusive", one, false);
	b.template alone<WithoutGin<ginSharingThread, true>>(
		b.calls, "without Gin: put, one thread, exclusive, called", one, false);
	b.template alone<WithoutGin<ginSharingGpu, false>>(
		b.calls, "without Gin: put, one thread, GPU-shared", one, false);
	b.template alone<WithoutGin<ginSharingGpu, true>>(
		b.calls, "without Gin: put, one thread, GPU-shared, called", one, false);
}

#endif
