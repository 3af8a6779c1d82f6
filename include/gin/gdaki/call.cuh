/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.cuh - the gdaki route: calls that post
 *
 * Called by detail/context_base.cuh, on the first thread of the calling coop. A call tries the
 * fast path first and takes the general path if that returns ginSentFull:
 *
 *                  fast path            general path
 * put              ginFastPut           ginGdakiPut
 * value            ginFastPutValue      ginGdakiPutValue
 * signal           ginFastPut           ginGdakiSignal
 * get, atomic      -                    ginGdakiGet, ginGdakiAtomic (complete.cuh)
 *
 * The fast path takes a put or a value of one WQE, a signal, or one of the two with a signal, if
 * there is room. It keeps everything in registers. The general path fills in a struct ginWork, in
 * local memory, and calls ginWorkPost() of post.cuh: it takes messages of any length and sources
 * at any address, and waits for room. Both reserve, hand over and ring by queue.cuh.
 */
#ifndef GIN_GDAKI_CALL_CUH
#define GIN_GDAKI_CALL_CUH

#include "../direct/route.cuh"
#include "post.cuh"

/*
 * The context that makes a call. `context` == dc->contexts selects the queues that all contexts
 * share: they are for words in windows of direct peers.
 *
 * Functions of this route take values, copies made for them, or pointers to GPU memory. The
 * address of a kernel's or a call's argument would keep that argument in local memory on every
 * route.
 */
struct ginGdakiContext {
	const ginDevComm *dc; /* ginDevComm.self */
	uint32_t context;
	ginSharing sharing;
};

/* The send queues of a context. */
GIN_FN struct ginSendQueue *ginGdakiQueues(const ginDevComm &dc, uint32_t context)
{
	return dc.sendQueues + static_cast<size_t>(context) * dc.nSendQueues;
}

GIN_FN struct ginSendQueue *ginGdakiQueue(const ginDevComm &dc, uint32_t context, int peer)
{
	return ginGdakiQueues(dc, context) + dc.peers[peer].sendQueue;
}

/*
 * The word that a signal raises: of the context whose first signal is `firstSignal`, or in a
 * window.
 */
GIN_FN struct ginMlx5Memory ginGdakiSignalWord(const struct ginPeer *to, uint32_t firstSignal,
					       int peer, const ginSignalOp &op)
{
	if (op.at) {
		const struct ginWindowPeer &at = ginWindowAt(op.window, peer);
		return {at.nicAddress + op.offset, at.nicStrictKey};
	}
	uint64_t word = static_cast<uint64_t>(firstSignal) + op.id;
	return {to->nicSignals + word * sizeof(uint64_t), to->nicKey};
}

/*
 * Data at the peer. PCIe may reorder writes by nicKey. A signal uses a key that keeps order, so
 * its atomic follows the data.
 */
GIN_FN struct ginMlx5Memory ginGdakiRemote(ginWindow_t window, size_t offset, int peer)
{
	const struct ginWindowPeer &at = ginWindowAt(window, peer);
	return {at.nicAddress + offset, at.nicKey};
}

/*
 * Where the NIC reads `bytes` at an address, by a search in all windows of this rank; false: no window
 * has them. Relaxed loads: windows come and go while kernels run, but the window of a put stays.
 */
GIN_FN_COLD bool ginSourceFind(const struct ginSources *sources, const void *address, size_t bytes,
			       struct ginMlx5Memory *found)
{
	const struct ginSourceEntry *entry =
		reinterpret_cast<const struct ginSourceEntry *>(sources + 1);
	uint64_t at = reinterpret_cast<uintptr_t>(address);
	uint64_t used = ginHostWordObserve(&sources->used);

	for (uint64_t i = 0; i < used; i++, entry++) {
		uint64_t size = ginHostWordObserve(&entry->bytes);
		uint64_t offset = at - ginHostWordObserve(&entry->address);
		if (offset < size && bytes <= size - offset) {
			*found = {entry->nicAddress + offset, entry->nicKey};
			return true;
		}
	}
	return false;
}

/* This rank's end of a transfer; false: no window has it. */
GIN_FN bool ginGdakiLocal(const struct ginGdakiContext &me, const ginSource &source, size_t bytes,
			  struct ginMlx5Memory *here)
{
	const struct ginWindowTable *table = source.window.table;

	if (source.anywhere)
		return ginSourceFind(me.dc->sources, source.address, bytes, here);
	*here = {table->nicAddress + source.offset, table->nicKey};
	return true;
}

/* Fills in what every work request of a context has. */
GIN_FN void ginGdakiWork(struct ginWork *p, const struct ginGdakiContext &me, enum ginOp op,
			 int peer, uint32_t scope, const ginOptions &options)
{
	p->queue = ginGdakiQueue(*me.dc, me.context, peer);
	p->fixed = p->queue->fixed;
	p->to = &me.dc->peers[peer];
	p->context = me.context;
	p->dc = me.dc;
	p->options = &options;
	p->op = op;
	p->sharing = me.sharing;
	p->scope = scope;
	p->counter = 0;
	p->aggregate = p->raises = false;
	p->local = p->sink = {p->fixed.sink, p->fixed.sinkKey};
	p->bytes = 0;
}

GIN_FN void ginGdakiAddSignal(struct ginWork *p, const struct ginGdakiContext &me, int peer,
			      const ginSignalOp &op)
{
	if (!op.present)
		return;
	p->raises = true;
	p->word = ginGdakiSignalWord(p->to, me.context * me.dc->signals, peer, op);
	p->add = op.value;
}

/*
 * Posts more than GIN_WORK_MAX_BYTES in several posts. The last one has the signal and the
 * counter.
 */
GIN_FN_COLD ginResult_t ginGdakiPostLong(struct ginWork *p)
{
	struct ginWork piece = *p;
	ginResult_t result = ginSuccess;

	piece.bytes = GIN_WORK_MAX_BYTES;
	piece.raises = false;
	piece.counter = 0;
	for (; result == ginSuccess && p->bytes > GIN_WORK_MAX_BYTES;
	     p->bytes -= GIN_WORK_MAX_BYTES) {
		piece.remote = p->remote;
		piece.local = p->local;
		result = ginWorkPost(&piece);
		p->remote.address += GIN_WORK_MAX_BYTES;
		p->local.address += GIN_WORK_MAX_BYTES;
	}
	return result == ginSuccess ? ginWorkPost(p) : result;
}

/* Finds the local end of a put or get, and posts. */
GIN_FN ginResult_t ginGdakiPostData(struct ginWork *p, const struct ginGdakiContext &me,
				    const ginSource &source)
{
	if (p->bytes && !ginGdakiLocal(me, source, p->bytes, &p->local))
		return ginErrorInvalidArgument;
	if (p->bytes > GIN_WORK_MAX_BYTES)
		return ginGdakiPostLong(p);
	return ginWorkPost(p);
}

GIN_FN_COLD ginResult_t ginGdakiPut(struct ginGdakiContext me, int peer, ginWindow_t dstWin,
				    size_t dstOff, const ginSource &source, size_t bytes,
				    const ginSignalOp &remote, uint32_t counter,
				    const ginOptions &options)
{
	struct ginWork p;

	ginGdakiWork(&p, me, ginOpPut, peer, ginPutFence(source, options.given, options.required),
		     options);
	p.remote = ginGdakiRemote(dstWin, dstOff, peer);
	p.bytes = bytes;
	p.counter = counter + 1u;
	p.aggregate = options.aggregate;
	ginGdakiAddSignal(&p, me, peer, remote);
	return ginGdakiPostData(&p, me, source);
}

/* `value`: an array of whole words. */
GIN_FN_COLD ginResult_t ginGdakiPutValue(struct ginGdakiContext me, int peer, ginWindow_t dstWin,
					 size_t dstOff, const uint32_t *value, uint32_t bytes,
					 const ginSignalOp &remote, const ginOptions &options)
{
	struct ginWork p;

	ginGdakiWork(&p, me, ginOpPutValue, peer, ginScopeThread, options);
	p.remote = ginGdakiRemote(dstWin, dstOff, peer);
	p.bytes = bytes;
	p.value = value;
	p.aggregate = options.aggregate;
	ginGdakiAddSignal(&p, me, peer, remote);
	return ginWorkPost(&p);
}

GIN_FN_COLD ginResult_t ginGdakiSignal(struct ginGdakiContext me, int peer, const ginSignalOp &op,
				       uint32_t scope, const ginOptions &options)
{
	struct ginWork p;

	ginGdakiWork(&p, me, ginOpSignal, peer, scope, options);
	ginGdakiAddSignal(&p, me, peer, op);
	return ginWorkPost(&p);
}

/*
 * A call of the fast path without its bytes. Flags are uint32_t: constants propagate through
 * words, not through bools with padding.
 */
struct ginFastCall {
	struct ginSendQueue *queue;
	const struct ginPeer *to;
	ginWindow_t dst;
	size_t dstOff;
	struct ginSignalOp remote;
	uint32_t firstSignal; /* of the context */
	int peer;
	uint32_t sharing; /* enum ginSharing */
	uint32_t aggregate;
};

/* What is posted: the fields whose values need loads. */
struct ginFastWork {
	struct ginMlx5Memory remote, local, word;
	const uint32_t *value; /* a value, as words; NULL: the bytes are at `local` */
	uint64_t add;
	uint32_t counter; /* 1 + the one to raise; 0: none */
	uint32_t bytes;	  /* 0: a signal alone */
	bool raises;
	bool systemRelease; /* release the source to the system first */
};

/* The bytes of a put; zero bytes in no window: a signal alone. */
struct ginFastSource {
	ginWindow_t window;
	size_t offset;
	uint64_t *counters; /* the context's */
	uint32_t counter;   /* 1 + the one to raise; 0: none */
	uint32_t bytes;
	uint32_t given, required; /* enum ginScope, as in ginOptions */

	GIN_FN void describe(struct ginFastWork *s) const
	{
		const struct ginWindowTable *table = window.table;
		uint32_t needed = required;

		if (bytes) {
			s->local = {table->nicAddress + offset, table->nicKey};
			if (needed < table->fence)
				needed = table->fence;
		}
		s->systemRelease = needed == ginScopeSystem && given < needed;
	}
};

/* The bytes of a value. */
struct ginFastValue {
	uint32_t word[GIN_MLX5_INLINE_BYTES / 4];
	uint32_t bytes;
	static constexpr uint64_t *counters = nullptr;
	static constexpr uint32_t counter = 0;

	GIN_FN void describe(struct ginFastWork *s) const { s->value = word; }
};

template <class Bytes>
GIN_FN uint32_t ginFastWqebbs(const struct ginFastCall &call, const Bytes &bytes)
{
	return (bytes.bytes ? 1 : 0) + call.remote.present;
}

template <class Bytes>
GIN_FN struct ginFastWork ginFastDescribe(const struct ginFastCall &call, const Bytes &bytes)
{
	struct ginFastWork s = {};

	s.bytes = bytes.bytes;
	s.counter = bytes.counter;
	s.raises = call.remote.present;
	bytes.describe(&s);
	if (s.bytes)
		s.remote = ginGdakiRemote(call.dst, call.dstOff, call.peer);
	if (s.raises) {
		s.word = ginGdakiSignalWord(call.to, call.firstSignal, call.peer, call.remote);
		s.add = call.remote.value;
	}
	return s;
}

/* Stores one WQE of the range, or a NOP if `ok` is false. */
GIN_FN void ginFastStore(const struct ginSendFixed &f, struct ginSendRange range, uint32_t i,
			 const ginMlx5Wqebb &wqe, bool ok)
{
	struct ginMlx5Wqebb *to = ginSendWqebb(f, range.first + i);

	if (ok)
		ginMlx5StoreWqebb(to, wqe);
	else
		ginMlx5StoreWqebb(to, ginMlx5Nop(ginSendSlot(f, range, i)));
}

/* The WQE that moves the bytes. */
GIN_FN struct ginMlx5Wqebb ginFastDataWqe(const struct ginFastWork &s, struct ginMlx5Slot slot)
{
	return s.value ? ginMlx5WriteInline(slot, s.remote, s.value, s.bytes)
		       : ginMlx5Write(slot, s.remote, s.local, s.bytes);
}

/* Writes this thread's WQEs, from index `at` of the range on. */
GIN_FN void ginFastWrite(const struct ginFastWork &s, const struct ginSendFixed &f,
			 struct ginSendRange range, uint32_t at, bool ok)
{
	uint32_t i = at;

	if (s.bytes) {
		struct ginMlx5Slot slot = ginSendSlot(f, range, i);
		ginFastStore(f, range, i++, ginFastDataWqe(s, slot), ok);
	}
	if (s.raises) {
		struct ginMlx5Slot slot = ginSendSlot(f, range, i);
		ginFastStore(f, range, i++,
			     ginMlx5FetchAdd(slot, s.word, {f.sink, f.sinkKey}, s.add), ok);
	}
	if (s.counter)
		ginSlotCounterSet(&f.counter[(range.first + i - 1) & ginSendMask(f)],
				  ok ? s.counter : 0);
}

/*
 * By a thread that has the queue for itself. The loads of the peer's and the queue's state go on
 * while the fence waits for the WQEs.
 */
template <class Bytes>
GIN_FN uint32_t ginFastPostAlone(const struct ginFastCall &call, const Bytes &bytes)
{
	struct ginSendQueue *q = call.queue;
	const struct ginFastWork s = ginFastDescribe(call, bytes);
	const struct ginSendFixed f = ginSendLoadFixed(q);
	const bool gpuMemory = f.gpuMemory && !s.systemRelease;
	struct ginSendRange range = {0, ginFastWqebbs(call, bytes)};

	if (!ginSendReserveTry(q, f.logDepth, range.count, &range.first, ginSharingThread))
		return ginSentFull;
	ginFastWrite(s, f, range, 0, true);
	uint32_t state = ginPeerObserve(call.to).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	ginNicFence(gpuMemory);
	uint32_t outcome = ginSendOutcome(state, latched);
	if (outcome != ginSentOk) {
		ginFastWrite(s, f, range, 0, false);
		ginNicFence(gpuMemory);
	}
	if (s.counter)
		ginSendCounterFollows(q, bytes.counters, range.first + range.count);
	ginSendRingAlone(q, f, range.first, range.first + range.count, !call.aggregate);
	return outcome;
}

/*
 * By a thread that shares the queue; lanes post together. The reservation takes longest, so it
 * starts first: nothing before it depends on a load, and all other loads overlap with it.
 */
template <class Bytes>
GIN_FN uint32_t ginFastPostShared(const struct ginFastCall &call, const Bytes &bytes)
{
	struct ginSendQueue *q = call.queue;
	const ginSharing sharing = static_cast<ginSharing>(call.sharing);
	const uint32_t wqebbs = ginFastWqebbs(call, bytes);
	uint32_t state = ginPeerObserve(call.to).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	/* Lanes whose puts count form a group of their own. */
	uint64_t kind = wqebbs | (bytes.counter ? 4 : 0);
	struct ginTogether group =
		ginTogetherFor(reinterpret_cast<uintptr_t>(q) ^ kind << 48, false);
	struct ginSendRange range = {0, wqebbs * group.count};

	if (!group.rank)
		range.first = ginTicketAdd(&q->reserved, range.count);
	const struct ginFastWork s = ginFastDescribe(call, bytes);
	const struct ginSendFixed f = ginSendLoadFixed(q);
	uint64_t done = ginSendDone(q, sharing);
	bool room =
		!group.rank && ginSendKeep(q, f.logDepth, range.count, range.first, done, sharing);
	if (!ginFromLeader(group, room))
		return ginSentFull;
	range.first = ginFromLeader(group, range.first);
	uint32_t outcome = ginSendOutcome(state, latched);
	ginFastWrite(s, f, range, group.rank * wqebbs, outcome == ginSentOk);
	bool rings = ginAnyOf(group, !call.aggregate);
	bool systemRelease = ginAnyOf(group, s.systemRelease);
	ginMeetAll(group);
	if (group.rank)
		return outcome;
	if (s.counter)
		ginSendCounterFollows(q, bytes.counters, range.first + range.count);
	if (systemRelease) /* cumulative: it covers the sources of all lanes */
		ginSourceRelease(ginScopeSystem);
	ginSendHandOver(q, f, range, !rings, sharing);
	return outcome;
}

template <class Bytes>
GIN_FN uint32_t ginFastPost(const struct ginFastCall &call, const Bytes &bytes)
{
	return call.sharing == ginSharingThread ? ginFastPostAlone(call, bytes)
						: ginFastPostShared(call, bytes);
}

/* Returns enum ginSent. ginSentFull: nothing is done, take the general path. */
GIN_FN_COLD uint32_t ginFastPut(struct ginFastCall call, struct ginFastSource source)
{
	return ginFastPost(call, source);
}

GIN_FN_COLD uint32_t ginFastPutValue(struct ginFastCall call, struct ginFastValue value)
{
	return ginFastPost(call, value);
}

#endif
