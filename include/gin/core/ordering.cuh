/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ordering.cuh - every memory access of a kernel to a word that another agent uses
 *
 * An edge orders two agents. Everything that happens before its releasing access is visible after
 * an acquiring access that reads the released value. Each edge has a label here and in the comments
 * at both ends; a function's name says what the access is for. test/lint/ordering checks the labels
 * and the functions.
 *
 *   label  carries                     released by                   acquired by
 *   S      data of puts, to the        ginSignalPublish(),           ginSignalObserve(),
 *          target                      raise()                       ginHostLook()
 *   B      everything before a         ginBarrierRelease() and       ginBarrierObserve()
 *          barrier                     ginBarrierTell(), raise()
 *   C      reads of a put's source     ginCounterPublish(), count()  ginCounterObserve(),
 *                                                                    ginDoneObserve(),
 *                                                                    ginHostLook()
 *   A      everything before an        ginAtomicAdd(),               ginAtomicAdd(),
 *          atomic                      ginAtomicSwap(),              ginAtomicSwap(),
 *                                      ginAtomicCas(), changeWord()  ginAtomicCas(), changeWord(),
 *                                                                    ginSignalObserve()
 *   E      the error record            ginErrorPublish()             ginDevCommGetError()
 *   M      what one thread acquired    ginMirrorPublish()            ginMirrorObserve()
 *          from a word of the host,
 *          to other threads
 *   H      everything before a host    ginHostMeet()                 ginHostMeet()
 *          coop meets
 *   Z      the host's reads of a       traceTake()                   ginHostLook(),
 *          record of the trace, to                                   ginShadowObserve()
 *          its slot's next writer
 *
 * The proxy route (docs/proxy.md):
 *
 *   D      a descriptor and its        ginSourceRelease() and        descriptorTake()
 *          source, to the proxy        ginDescriptorPublish()
 *   Q      the proxy's reads of a      engineTake()                  ginHostLook(),
 *          ring slot, to the slot's                                  ginRingRefresh(),
 *          next writer                                               ginShadowObserve()
 *   R      what the proxy has done     publishDone(), failAtomic(),  ginDoneObserve(),
 *                                      publishOldValue()             ginHostLook()
 *
 * The gdaki route (docs/gdaki.md). W, F and P order threads that share a send queue: threads of the
 * GPU, or of one block.
 *
 *   W      WQEs, and the writes of     ginTurnRelease(), then        ginTurnMark(),
 *          the holder of the turn      ginTurnMark();                ginTurnPickUp(),
 *                                      ginTurnPutDown()              ginTurnTake()
 *   N      WQEs and their sources,     ginNicFence() or              the NIC
 *          then the doorbell record    ginNicRelease(), then
 *                                      ginNicRing()
 *   K      the NIC's reads of WQEs     the NIC                       ginCqeObserve()
 *          and sources, its writes
 *          of old values
 *   F      K, from thread to thread    ginDoneRaise(),               ginDoneLook(), or
 *                                      ginDoneCredited()             ginDoneLookFirst(),
 *                                                                    then ginDoneSeen()
 *   P      which posts belong to gets, ginEndRaise()                 ginDoneLook()
 *          DUMPs and barriers
 *
 * Accesses without an edge are relaxed: their value means something by itself (a state, an abort
 * word), or an edge publishes them (the bytes of a put). Device scope is enough between threads of
 * one GPU. The other accesses have system scope: the other agent may be another GPU, the host or
 * the NIC.
 */
#ifndef GIN_ORDERING_CUH
#define GIN_ORDERING_CUH

#include "send_queue.h"
#include "options.cuh"
#include "primitives.cuh"

/*
 * S, release end. Observers: this thread and every thread whose writes happen before the call; the
 * target's ginSignalObserve. One cumulative release orders every earlier put of the context before
 * the signal, whichever thread made the put: no store needs a fence of its own. All threads of a
 * coop call this without a branch; the thread with `mine` signals.
 */
GIN_FN void ginSignalPublish(bool mine, uint64_t *word, uint64_t value)
{
	ginAddIf<ginRelease, ginScopeSystem>(mine, word, value);
}

/* No edge: the signal covers no data, or the caller has released its writes to the system. */
GIN_FN void ginSignalPublishRelaxed(bool mine, uint64_t *word, uint64_t value)
{
	ginAddIf<ginRelaxed, ginScopeSystem>(mine, word, value);
}

/* The acquire of words that the host or another GPU writes. Callers name the edge. */
GIN_FN uint64_t ginAcquireSystem(const uint64_t *word)
{
	return ginLoad<ginAcquire, ginScopeSystem>(word);
}

/*
 * S and A, acquire end: pairs with ginSignalPublish, the atomics below, and raise() of the proxy.
 */
GIN_FN uint64_t ginSignalObserve(const uint64_t *word)
{
	return ginAcquireSystem(word);
}

/*
 * No edge: a word that a put or putValue of a peer writes means only itself. The load acquires for
 * a peer that releases the word by a store of its own, through ginPeerPointer.
 */
template <class Word> GIN_FN Word ginValueObserve(const Word *word)
{
	return ginLoad<ginAcquire, ginScopeSystem>(word);
}

/* No edge: the caller guarantees that no agent raises the signal or counter at the time. */
GIN_FN void ginWordClear(uint64_t *word)
{
	ginStore<ginRelaxed, ginScopeSystem>(word, uint64_t{0});
}

/*
 * B, release end: one fence, then ginBarrierTell for each word. Observers: this thread and every
 * thread whose writes happen before the call; the peers' ginBarrierObserve. On the host each
 * ginBarrierTell releases.
 */
GIN_FN void ginBarrierRelease()
{
	ginFence<ginScopeSystem>();
}

/* B, after ginBarrierRelease. Only this thread writes the word. */
GIN_FN void ginBarrierTell(uint64_t *word, uint64_t epoch)
{
	ginStore<ginFencedRelease, ginScopeSystem>(word, epoch);
}

/* B, acquire end: pairs with ginBarrierTell, and with raise() of the proxy. */
GIN_FN uint64_t ginBarrierObserve(const uint64_t *word)
{
	return ginAcquireSystem(word);
}

/*
 * C, release end. Observers: the coop that has read the source; threads of this GPU that wait for
 * the counter and write the source again.
 */
GIN_FN void ginCounterPublish(uint64_t *word)
{
	ginAdd<ginRelease, ginScopeDevice>(word, uint64_t{1});
}

/* C, acquire end: pairs with ginCounterPublish. */
GIN_FN uint64_t ginCounterObserve(const uint64_t *word)
{
	return ginLoad<ginAcquire, ginScopeDevice>(word);
}

/* No edge, as the two below: words that threads of this GPU share. */
GIN_FN uint64_t ginLocalLoad(const uint64_t *word)
{
	return ginLoad<ginRelaxed, ginScopeDevice>(word);
}

GIN_FN void ginLocalStore(uint64_t *word, uint64_t value)
{
	ginStore<ginRelaxed, ginScopeDevice>(word, value);
}

GIN_FN void ginLocalAdd(uint64_t *word, uint64_t value)
{
	ginAdd<ginRelaxed, ginScopeDevice>(word, value);
}

/*
 * A, both ends: atomics of 4 and 8 bytes in a peer's memory, which return the old value. Observers:
 * this thread and every thread whose writes happen before the call; the agent that reads the new
 * value by an atomic or by ginSignalObserve.
 */
template <class Word> GIN_FN Word ginAtomicAdd(Word *word, Word value)
{
	return ginFetchAdd<ginAcqRel, ginScopeSystem>(word, value);
}

/* A, both ends. */
template <class Word> GIN_FN Word ginAtomicSwap(Word *word, Word value)
{
	return ginExchange<ginAcqRel, ginScopeSystem>(word, value);
}

/* A, both ends. */
template <class Word> GIN_FN Word ginAtomicCas(Word *word, Word compare, Word value)
{
	return ginCas<ginAcqRel, ginScopeSystem>(word, compare, value);
}

/*
 * D, release end, first half; ginDescriptorPublish follows. Observers: this thread and every thread
 * whose writes happen before the call; the CPU thread that finds the phase of its lap in every word
 * (descriptorTake in backends/proxy/descriptor.c). One fence stands for all eight words. Device
 * scope is enough for a source in this GPU's own memory: the agents that read it for the CPU go
 * through the L2 of this GPU. A source in other memory needs system scope, or the words could
 * overtake it.
 */
GIN_FN void ginSourceRelease(uint32_t scope)
{
	if (scope == ginScopeDevice)
		ginFence<ginScopeDevice>();
	else if (scope == ginScopeSystem)
		ginFence<ginScopeSystem>();
}

/* D, release end, second half: two words of a descriptor, after ginSourceRelease. */
GIN_FN void ginDescriptorPublish(uint64_t *at, uint64_t first, uint64_t second)
{
	ginStorePair<ginFencedRelease, ginScopeSystem>(at, first, second);
}

/*
 * No edge: two words of a record of the trace. Each word has the phase of its lap, so that the host
 * needs no order between them (traceTake() in lib/devcomm/trace.c).
 */
GIN_FN void ginTraceStore(uint64_t *at, uint64_t first, uint64_t second)
{
	ginStorePair<ginRelaxed, ginScopeSystem>(at, first, second);
}

/* R and C, acquire end: pairs with publishDone() and, for counters, count() of the proxy. */
GIN_FN uint64_t ginDoneObserve(const uint64_t *word)
{
	return ginAcquireSystem(word);
}

/*
 * Q and Z, passed on from the thread that acquired it. A relaxed load is enough on a GPU: a
 * thread's stores into a ring slot depend on the branch that has found the slot free, and a GPU
 * does not store before it has taken the branch.
 */
GIN_FN uint64_t ginShadowObserve(const uint64_t *shadow)
{
	return ginLoad<ginFencedAcquire, ginScopeDevice>(shadow);
}

/* No edge on a GPU: *word becomes `value` if that is larger. */
GIN_FN void ginLocalMax(uint64_t *word, uint64_t value)
{
	ginMax<ginFencedRelease, ginScopeDevice>(word, value);
}

/* No edge: tickets order nothing, because a descriptor's words carry their phase. */
GIN_FN uint64_t ginTicketAdd(uint64_t *producer, uint64_t count)
{
	return ginFetchAdd<ginRelaxed, ginScopeDevice>(producer, count);
}

/*
 * Sets *word to `value` if it is `compare`; true if it did. Acquires and releases, because it
 * passes things from thread to thread of this GPU: a thread that frees a result slot has read the
 * slot before its next owner uses it.
 */
GIN_FN bool ginLocalCas(uint64_t *word, uint64_t compare, uint64_t value)
{
	return ginCas<ginAcqRel, ginScopeDevice>(word, compare, value) == compare;
}

/* No edge: a word of the host that publishes nothing but itself. */
GIN_FN uint64_t ginHostWordObserve(const uint64_t *word)
{
	return ginLoad<ginRelaxed, ginScopeSystem>(word);
}

GIN_FN void ginHostWordStore(uint64_t *word, uint64_t value)
{
	ginStore<ginRelaxed, ginScopeSystem>(word, value);
}

/* No edge: true for the first thread that answers the question in this record. */
GIN_FN bool ginWaitClaim(uint32_t *claim, uint32_t question)
{
	return ginExchange<ginRelaxed, ginScopeDevice>(claim, question) != question;
}

/* No edge: the route never changes. A plain load, which L1 may serve. */
GIN_FN uint32_t ginPeerRoute(const struct ginPeer *peer)
{
	return peer->route;
}

/* No edge: route and signals never change, and the state publishes nothing but itself. */
GIN_FN struct ginPeer ginPeerObserve(const struct ginPeer *peer)
{
	struct ginPeer seen;
#if GIN_ON_GPU
	struct ginWord16 words = ginLoadPairRelaxed(peer);
	seen.route = static_cast<uint32_t>(words.half[0]);
	seen.state = static_cast<uint32_t>(words.half[0] >> 32);
	seen.signals = reinterpret_cast<uint64_t *>(words.half[1]);
#else
	seen.route = peer->route;
	seen.state = ginLoad<ginRelaxed, ginScopeSystem>(&peer->state);
	seen.signals = peer->signals;
#endif
	return seen;
}

/* No edge: true for the first thread that fails, which then writes the record. */
GIN_FN bool ginErrorClaim(uint32_t *claim)
{
#if GIN_ON_GPU
	return atomicCAS(claim, 0u, 1u) == 0;
#else
	return ginCas<ginRelaxed, ginScopeDevice>(claim, 0u, 1u) == 0;
#endif
}

/*
 * E, release end. Observers: the thread that has written the record; the host in
 * ginDevCommGetError, which reads the record when `valid` is 1.
 */
GIN_FN void ginErrorPublish(uint32_t *valid)
{
	ginStore<ginRelease, ginScopeSystem>(valid, 1u);
}

/*
 * No edge: a word of a record of a wait, which ginWaitPublish publishes. A plain store on GPUs: as
 * others it would take two registers more from a barrier.
 */
template <class Word> GIN_FN void ginWaitStore(Word *word, Word value)
{
#if GIN_ON_GPU
	*word = value;
#else
	ginStore<ginRelaxed, ginScopeSystem>(word, value);
#endif
}

/* E, release end: the record of a wait. Observer: the host in readRecord() of told.c. */
GIN_FN void ginWaitPublish(uint32_t *published, uint32_t question)
{
	ginStore<ginRelease, ginScopeSystem>(published, question);
}

/*
 * No edge: bytes of puts and gets, which S, C or an edge of the route publishes. A store is
 * relaxed, so that an aligned word of up to 8 bytes is single-copy atomic at the target.
 */
template <class Word> GIN_FN Word ginDataLoad(const char *src)
{
	return ginLoadWeak<Word>(src);
}

template <class Word> GIN_FN void ginDataStore(char *dst, Word word)
{
	if constexpr (sizeof(Word) == sizeof(ginWord16))
		ginStorePair<ginRelaxed, ginScopeSystem>(reinterpret_cast<uint64_t *>(dst),
							 word.half[0], word.half[1]);
	else
		ginStore<ginRelaxed, ginScopeSystem>(reinterpret_cast<Word *>(dst), word);
}

/*
 * No edge: a packet of a message (packets.cuh). Each word of 8 bytes has 4 bytes of data and the
 * message's number, and is single-copy atomic: a load that returns the number returns the data.
 */
GIN_FN void ginPacketStore(char *packet, uint64_t data, uint32_t number)
{
	const uint64_t flag = static_cast<uint64_t>(number) << 32;
	ginStorePair<ginRelaxed, ginScopeSystem>(reinterpret_cast<uint64_t *>(packet),
						 flag | (data & 0xffffffffu), flag | data >> 32);
}

/*
 * No edge: the receiver of messages says that it has read message `number`. Relaxed is enough for
 * the slot's next writer: each packet was loaded with its number before the coop met, and no store
 * can change what a load has returned.
 */
GIN_FN void ginCreditStore(uint32_t *credit, uint32_t number)
{
	ginStore<ginRelaxed, ginScopeSystem>(credit, number);
}

/* No edge: pairs with ginCreditStore. The stores that depend on it cannot precede it. */
GIN_FN uint32_t ginCreditObserve(const uint32_t *credit)
{
	return ginLoad<ginRelaxed, ginScopeSystem>(credit);
}

/* Both credits of a peer, each of them whole. */
GIN_FN uint64_t ginCreditsObserve(const uint32_t *credits)
{
	return ginLoad<ginRelaxed, ginScopeSystem>(reinterpret_cast<const uint64_t *>(credits));
}

/*
 * M, release end. Observers: the thread that has acquired the host's word; threads of this GPU that
 * load the mirror instead.
 */
GIN_FN void ginMirrorPublish(uint64_t *seen, uint64_t value)
{
	ginStore<ginRelease, ginScopeDevice>(seen, value);
}

/* M, acquire end: pairs with ginMirrorPublish. */
GIN_FN uint64_t ginMirrorObserve(const uint64_t *seen)
{
	return ginLoad<ginAcquire, ginScopeDevice>(seen);
}

/* No edge: returns how many threads came before; the first looks at the host's word. */
GIN_FN uint32_t ginMirrorCome(uint32_t *looking)
{
	return ginFetchAdd<ginRelaxed, ginScopeDevice>(looking, 1u);
}

/* No edge: the thread that looked leaves. Returns how many threads came, itself included. */
GIN_FN uint32_t ginMirrorLeave(uint32_t *looking)
{
	return ginExchange<ginRelaxed, ginScopeDevice>(looking, 0u);
}

/*
 * W, release end, first half: ginTurnMark follows, which releases within a block. Loads between
 * them overlap.
 */
GIN_FN void ginTurnRelease(ginSharing sharing)
{
	if (sharing != ginSharingCta)
		ginReleaseFence<ginScopeDevice>();
}

/*
 * W, both ends, after ginTurnRelease(): stores the mark, and returns the old turn word. Observers:
 * the threads that have written the WQEs of the mark, which meet before ginTurnRelease(); the
 * thread that holds the turn and rings. If the old value is GIN_TURN this thread holds the turn,
 * and sees what the holder before it has written.
 */
GIN_FN uint32_t ginTurnMark(uint32_t *word, uint32_t mark, ginSharing sharing)
{
	if (sharing == ginSharingCta)
		return ginExchange<ginAcqRel, ginScopeCta>(word, mark);
	return ginExchange<ginFencedAcqRel, ginScopeDevice>(word, mark);
}

/* W, both ends: sets the turn word to `value` if it is `compare`, and returns the old word. */
GIN_FN uint32_t ginTurnCas(uint32_t *word, uint32_t compare, uint32_t value, ginSharing sharing)
{
	if (sharing == ginSharingCta)
		return ginCas<ginAcqRel, ginScopeCta>(word, compare, value);
	return ginCas<ginAcqRel, ginScopeDevice>(word, compare, value);
}

/* W, release end, by the holder of the turn, which keeps it (false) if the word holds a mark. */
GIN_FN bool ginTurnPutDown(uint32_t *word, ginSharing sharing)
{
	return ginTurnCas(word, 0, GIN_TURN, sharing) == 0;
}

/* W, acquire end. False: the turn is not in this word. */
GIN_FN bool ginTurnPickUp(uint32_t *word, ginSharing sharing)
{
	return ginTurnCas(word, GIN_TURN, 0, sharing) == GIN_TURN;
}

/*
 * W, acquire end, by the holder of the turn: returns the mark in the word and clears the word; 0:
 * there is no mark. On a GPU the load is relaxed, and a fence follows: ginNicFence where the holder
 * rings, otherwise ginTurnTaken.
 */
GIN_FN uint32_t ginTurnTake(uint32_t *word)
{
	uint32_t mark = ginLoad<ginFencedAcquire, ginScopeDevice>(word);
	if (mark)
		ginStore<ginRelaxed, ginScopeDevice>(word, 0u);
	return mark;
}

/* W, acquire end, second half: after ginTurnTake, where no ginNicFence follows. */
GIN_FN void ginTurnTaken()
{
	ginFence<ginScopeDevice>();
}

/* No edge: by the thread that found the turn in the word. The next W carries the store. */
GIN_FN void ginTurnClear(uint32_t *word)
{
	ginStore<ginRelaxed, ginScopeDevice>(word, 0u);
}

/* No edge: puts the turn into the word, by a thread that has the queue to itself. */
GIN_FN void ginTurnLay(uint32_t *word)
{
	ginStore<ginRelaxed, ginScopeDevice>(word, GIN_TURN);
}

/*
 * N, release end, first half: between the stores that the NIC reads and ginNicRing. `inGpu`: the
 * queue is in this GPU's memory.
 */
GIN_FN void ginNicFence(bool inGpu)
{
	if (inGpu)
		ginFence<ginScopeDevice>();
	else
		ginFence<ginScopeSystem>();
}

/*
 * N, release end, first half, as ginNicFence(): by a thread that has nothing to acquire. It keeps
 * L1, where a thread that posts alone finds the constants of its queue and windows.
 */
GIN_FN void ginNicRelease(bool inGpu)
{
	if (inGpu)
		ginReleaseFence<ginScopeDevice>();
	else
		ginReleaseFence<ginScopeSystem>();
}

/*
 * N, release end, second half. Observers: the threads that have handed over WQEs; the NIC, which
 * may read the WQEs as soon as it finds the record. ginNicFence or ginNicRelease precedes, after
 * the last WQE and before the record. The NIC reads this GPU's memory through its L2, where device
 * scope ends: where the queue is in this GPU's memory no fence of the system is needed, and no
 * fence at all for a thread that has released every WQE to the device by handing them over. The
 * posters have released sources in other memory.
 *
 * No fence stands between record and doorbell: it would cost 0.3 us (docs/performance.md). A NIC
 * that drops the doorbell and then finds an older record has to be rung again (ginSendRingPending).
 */
GIN_FN void ginNicRing(uint32_t *record, uint32_t next, uint64_t *doorbell, uint64_t ring)
{
	ginStore<ginFencedRelease, ginScopeSystem>(record, next);
	ginStoreMmio<ginFencedRelease, ginScopeSystem>(doorbell, ring);
}

/*
 * K, acquire end. Observers: the NIC, which has read the WQEs that the CQE's state names, and their
 * sources, and written old values; this thread.
 */
GIN_FN uint32_t ginCqeObserve(const uint32_t *state)
{
	return ginLoad<ginAcquire, ginScopeSystem>(state);
}

/* No edge: another word of the CQE, of the state that was seen or of a later state. */
GIN_FN uint32_t ginCqeWord(const uint32_t *word)
{
	return ginLoad<ginRelaxed, ginScopeSystem>(word);
}

/* F and P, acquire end. Every later look at the CQE comes after this look at `done`. */
GIN_FN uint64_t ginDoneLook(const uint64_t *done, ginSharing sharing)
{
	if (GIN_ON_GPU && sharing == ginSharingThread)
		return *done;
	return ginLoad<ginAcquire, ginScopeDevice>(done);
}

/*
 * F, acquire end, first half, by a thread that shares the queue: ginDoneSeen follows. Accesses
 * between them overlap.
 */
GIN_FN uint64_t ginDoneLookFirst(const uint64_t *done)
{
	constexpr ginOrder order = GIN_HAS_RELEASE_FENCE ? ginFencedAcquire : ginAcquire;
	return ginLoad<order, ginScopeDevice>(done);
}

/* F, acquire end, second half: after ginDoneLookFirst. */
GIN_FN void ginDoneSeen()
{
	if (GIN_HAS_RELEASE_FENCE)
		ginAcquireFence<ginScopeDevice>();
}

/*
 * F, release end: raises `done` and returns true if it still is `from`. Observers: the thread that
 * has acquired K; every thread whose ginDoneLook sees `to`. `done` never falls, and no other thread
 * raises it while it has GIN_SEND_CREDITING.
 */
GIN_FN bool ginDoneRaise(uint64_t *done, uint64_t from, uint64_t to, ginSharing sharing)
{
	if (sharing != ginSharingThread)
		return ginLocalCas(done, from, to);
	ginLocalStore(done, to);
	return true;
}

/* F, release end: clears GIN_SEND_CREDITING, by the thread that set it and raised the counters. */
GIN_FN void ginDoneCredited(uint64_t *done, uint64_t to)
{
	ginStore<ginRelease, ginScopeDevice>(done, to);
}

/* No edge: the counter of the slot's WQE. W, N and K carry it to the thread that credits it. */
GIN_FN void ginSlotCounterSet(uint32_t *slot, uint32_t counter)
{
	ginStore<ginRelaxed, ginScopeDevice>(slot, counter);
}

/*
 * No edge, by the thread that credits: returns the slot's counter and clears the slot; 0: none. F
 * carries the store to the slot's next user.
 */
GIN_FN uint32_t ginSlotCounterTake(uint32_t *slot)
{
	uint32_t counter = ginLoad<ginRelaxed, ginScopeDevice>(slot);
	if (counter)
		ginSlotCounterSet(slot, 0);
	return counter;
}

/* No edge: all threads set one value. W, N and K carry it, as they carry the slots' counters. */
GIN_FN void ginPointerSet(uint64_t **at, uint64_t *pointer)
{
	ginStore<ginRelaxed, ginScopeDevice>(at, pointer);
}

GIN_FN uint64_t *ginPointerOf(uint64_t *const *at)
{
	return ginLoad<ginRelaxed, ginScopeDevice>(at);
}

/*
 * P, release end: raises an index below which something was posted. Observers: the poster; threads
 * whose ginDoneLook sees that the index is done.
 */
GIN_FN void ginEndRaise(uint64_t *end, uint64_t to)
{
	ginMax<ginRelease, ginScopeDevice>(end, to);
}

/* No edge: a word that only this thread writes. Other threads may load it. */
GIN_FN uint64_t ginOwnLoad(const uint64_t *word)
{
	if (GIN_ON_GPU)
		return *word;
	return ginLoad<ginRelaxed, ginScopeDevice>(word);
}

#endif
