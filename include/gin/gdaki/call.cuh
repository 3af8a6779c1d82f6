/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.cuh - the gdaki route: calls become posts to the peer's send queue
 *
 * One thread of the calling coop makes the post; the NIC does the rest.
 */
#ifndef GIN_GDAKI_CALL_CUH
#define GIN_GDAKI_CALL_CUH

#include "../direct/route.cuh"
#include "post.cuh"
#include "../detail/source.cuh"

/*
 * Who makes a call: a context, or, for words in windows of direct peers, by ginDevComm.contexts all of
 * them together. The functions of this route are called with values, with copies made for it, and
 * with what is in GPU memory: if they had the address of an argument of the kernel or of a call, that
 * would be kept in local memory on every route.
 */
struct ginGdakiContext {
	const ginDevComm *dc; /* ginDevComm.self */
	uint32_t context;
	ginSharing sharing;
};

/* The context's queues, and the one to a peer. */
GIN_FN struct ginSendQueue *ginGdakiQueues(const ginDevComm &dc, uint32_t context)
{
	return dc.sendQueues + static_cast<size_t>(context) * dc.nSendQueues;
}

GIN_FN struct ginSendQueue *ginGdakiQueue(const ginDevComm &dc, uint32_t context, int peer)
{
	return ginGdakiQueues(dc, context) + dc.peers[peer].sendQueue;
}

/* The word that a signal raises: of the context, whose first is `firstSignal`, or in a window. */
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

/* Data at the peer. Its key lets PCIe reorder; what raises a signal is behind it all the same. */
GIN_FN struct ginMlx5Memory ginGdakiRemote(ginWindow_t window, size_t offset, int peer)
{
	const struct ginWindowPeer &at = ginWindowAt(window, peer);
	return {at.nicAddress + offset, at.nicKey};
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

/* What every post of a context has. */
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

/* In several posts, when one would be too long: what is raised and counted goes with the last. */
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

GIN_FN ginResult_t ginGdakiPostData(struct ginWork *p, const struct ginGdakiContext &me,
				    const ginSource &here)
{
	if (p->bytes && !ginGdakiLocal(me, here, p->bytes, &p->local))
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

/* `value`: whole words. */
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

#endif
