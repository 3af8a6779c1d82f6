/* SPDX-License-Identifier: BSD-3-Clause */
/* rig.h - ranks with a group */
#ifndef GIN_SYMM_TEST_RIG_H
#define GIN_SYMM_TEST_RIG_H

#include <gin_symm.h>

#include <vector>

#include "expect.h"
#include "ranks.h"

#define SYMM_CHECK(call) symmExpect(call, ginSuccess, "", #call, __FILE__, __LINE__)
#define SYMM_FAILS(call, result, words) symmExpect(call, result, words, #call, __FILE__, __LINE__)

enum { PAD_BYTES = 1028, CHANNELS_OF = PAD_BYTES / 4 }; /* no multiple of 8 */

inline void symmExpect(ginResult_t seen, ginResult_t expected, const char *words, const char *call,
		       const char *file, int line)
{
	expectThat(seen == expected && (!words[0] || strstr(ginSymmGetLastError(), words)), file,
		   line, "%s: %s, expected %s; \"%s\", expected \"%s\"", call,
		   ginGetErrorString(seen), ginGetErrorString(expected), ginSymmGetLastError(),
		   words);
}

/* HOSTS=2: consecutive ranks, which are processes, are on one host, as far as libgin knows. */
inline int hostOf(int rank, int nRanks)
{
	const char *hosts = getenv("HOSTS");

	return hosts ? rank / (nRanks / atoi(hosts)) : 0;
}

inline void moveToHost(const ginConfig_t *config)
{
	char name[2] = {static_cast<char>('a' + hostOf(config->rank, config->nRanks)), 0};

	if (getenv("HOSTS"))
		setenv("GIN_HOSTID", name, 1);
}

/* Do two ranks have a direct route to each other? */
inline bool isNear(int rank, int peer, int nRanks)
{
	const char *route = getenv("GIN_ROUTE");

	return (!route || strcmp(route, "network")) && hostOf(rank, nRanks) == hostOf(peer, nRanks);
}

struct Rank {
	ginSymmGroup_t group;
	ginComm_t comm;
	int rank, nRanks, device;

	explicit Rank(const ginConfig_t *config, int on = GIN_DEVICE_NONE)
	{
		ginSymmConfig_t of = {
			on,	 config->rank,	      config->nRanks, config->allgather,
			nullptr, config->allgatherArg};
		rank = config->rank;
		nRanks = config->nRanks;
		SYMM_CHECK(ginSymmOpen(&of, &group));
		SYMM_CHECK(ginSymmComm(group, 0, &device, &comm));
	}
	Rank(const Rank &) = delete;
	int right() const { return (rank + 1) % nRanks; }
	int left() const { return (rank + nRanks - 1) % nRanks; }
	/* All ranks come here before one goes on. Not by pads. */
	void meet() const { EXPECT_SUCCESS(ginCommAllgather(comm, nullptr, nullptr, 0)); }
};

/* A block, and what a rank knows of its peers. */
struct Block {
	void *base;
	ginSymmPeers_t peers;
	ginSymmInfo_t info;

	Block(const Rank &r, size_t bytes, int device = GIN_DEVICE_NONE)
	{
		SYMM_CHECK(ginSymmAlloc(device, bytes, &base));
		meet(r);
	}
	Block(const Rank &r, const Block &of) : base(of.base) { meet(r); }
	void meet(const Rank &r)
	{
		SYMM_CHECK(ginSymmRendezvous(r.group, base, PAD_BYTES, &peers));
		SYMM_CHECK(ginSymmQuery(peers, &info));
	}
	void drop() const
	{
		ginSymmRelease(peers);
		SYMM_CHECK(ginSymmFree(base));
	}
	uint64_t *buffer(int rank) const { return static_cast<uint64_t *>(info.buffers[rank]); }
	uint32_t *word(int owner, int channel, int source) const
	{
		return static_cast<uint32_t *>(info.pads[owner]) + channel * info.nRanks + source;
	}
	/* The words of this rank's pad that are not 0. */
	int raised() const
	{
		int count = 0;
		for (int i = 0; i < CHANNELS_OF; i++)
			count += __atomic_load_n(word(info.rank, 0, i), __ATOMIC_RELAXED) != 0;
		return count;
	}
};

#endif
