/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.h - calls of an ep on which a rank may be lost
 */
#ifndef GIN_EP_TEST_FAULTS_H
#define GIN_EP_TEST_FAULTS_H

#include "rig.h"

/* Nanoseconds of the slowest round so far in which no rank was lost. */
inline thread_local uint64_t slowest;

/*
 * How long a rank waits in vain where a test wants that, in milliseconds. A rank that is there has
 * to come within that time: it is ten times as long as a whole round has taken on this machine.
 */
inline uint64_t patience()
{
	const uint64_t measured = slowest / 100000;
	return measured > 1000 ? measured : 1000;
}

/* A round that began at `begin` has ended, and no rank was lost. */
inline void noteRound(uint64_t begin)
{
	if (ginNow() - begin > slowest)
		slowest = ginNow() - begin;
}

inline Round roundOf(Rank &r, uint64_t seed)
{
	Round round = {};
	round.ranks = static_cast<uint32_t>(r.nRanks);
	round.experts = 4 * round.ranks;
	round.topk = 3;
	round.hidden = 128;
	round.maxTokens = 12;
	round.seed = seed;
	round.tokens.assign(round.ranks, 12);
	round.rows = GIN_EP_ROWS_BF16;
	round.reduce = GIN_EP_REDUCE_NONE;
	round.weighted = round.wide = true;
	for (uint32_t i = 0; i <= round.ranks; i++)
		round.first.push_back(4 * i);
	return round;
}

inline thread_local uint32_t onLostOf; /* of the last ep of this rank */

inline ginEpConfig_t configFor(const Round &round, uint32_t onLost, uint64_t milliseconds)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	onLostOf = onLost;
	config.experts = round.experts;
	config.topk = round.topk;
	config.hidden = round.hidden;
	config.maxTokens = round.maxTokens;
	config.timeout = milliseconds * 1000000;
	config.onLost = onLost;
	return config;
}

inline ginEp_t epFor(Rank &r, const Round &round, uint32_t onLost, uint64_t milliseconds,
		     uint32_t maxSms = 0)
{
	ginEpConfig_t config = configFor(round, onLost, milliseconds);
	config.maxSms = maxSms;
	return makeEp(r, config);
}

inline ginEpRecord_t recordOf(ginEp_t ep)
{
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	EP_CHECK(ginEpGetAsyncError(ep, &record));
	return record;
}

/* The result of a call when its kernels have ended. */
inline ginResult_t ended(ginEp_t ep, const Rank &r, ginResult_t result)
{
#ifdef __CUDACC__
	if (r.device < 0 || result)
		return result;
	CUDA(cudaStreamSynchronize(r.stream));
	const ginEpRecord_t record = recordOf(ep);
	if (record.valid && record.rank >= 0 &&
	    (onLostOf == GIN_EP_LOST_ERROR || record.result == ginErrorAborted))
		return static_cast<ginResult_t>(record.result);
#else
	(void)ep;
	(void)r;
#endif
	return result;
}

inline ginResult_t dispatch(ginEp_t ep, Batch &batch, uint32_t phase = GIN_EP_BOTH)
{
	return ended(ep, batch.r, batch.runDispatch(ep, phase));
}

inline ginResult_t combine(ginEp_t ep, Batch &batch, uint32_t phase = GIN_EP_BOTH)
{
	return ended(ep, batch.r, batch.runCombine(ep, phase));
}

inline void mask(Rank &r, ginEp_t ep, int rank)
{
	EP_CHECK(ginEpMaskSet(ep, rank, 1, Batch::streamOf(r)));
}

/* The first failure: rank 1 has not answered, or a rank that has found that has given up before. */
inline bool lostOne(ginEp_t ep, uint32_t result)
{
	const ginEpRecord_t record = recordOf(ep);
	if (strstr(ginEpGetLastError(), "has given up"))
		return record.result == ginErrorPeer && record.rank >= 0;
	return record.valid && record.rank == 1 && record.result == result &&
	       strstr(ginEpGetLastError(), "rank 1 did not answer");
}

inline void full(Rank &r, ginEp_t ep, const Round &round)
{
	const uint64_t begin = ginNow();
	Batch batch(r, round, handleBytes(ep));
	EP_CHECK(dispatch(ep, batch));
	batch.checkDispatch();
	EP_CHECK(combine(ep, batch));
	batch.checkCombine();
	noteRound(begin);
}

/* A round by an ep that does not give up soon, for patience(). */
inline void measure(Rank &r)
{
	const Round round = roundOf(r, 1);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, 60000);
	full(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/* Dispatch and combine without the ranks that are gone. */
inline void without(Rank &r, ginEp_t ep, const Round &round, const std::vector<bool> &gone)
{
	Batch batch(r, round, handleBytes(ep));
	batch.gone = gone;
	EP_CHECK(dispatch(ep, batch));
	batch.checkDispatch();
	EP_CHECK(combine(ep, batch));
	batch.checkCombine();
}

#endif
