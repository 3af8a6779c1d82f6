/* SPDX-License-Identifier: BSD-3-Clause */
/* barriers.h - every barrier of NCCL's device API, for device.cc */
#ifndef GIN_NCCL_TEST_BARRIERS_H
#define GIN_NCCL_TEST_BARRIERS_H

#include "rig.h"

/*
 * Every barrier, some rounds: word [p] is the round that rank p has put. From AREA on, an area for
 * the gets of each context. LONG bytes of ones at SOURCE are got to TARGET.
 */
struct Barriers : Kernel {
	ncclWindow_t w;
	ncclGinBarrierHandle_t ownGin;
	ncclLsaBarrierHandle_t ownLsa;

	enum { AREA = 2048, AREA_BYTES = 512, LONG = 1 << 18, SOURCE = LONG, TARGET = 2 * LONG };

	GIN_FN const volatile uint64_t *words(size_t offset) const
	{
		return static_cast<const volatile uint64_t *>(ncclGetLocalPointer(w, offset));
	}

	/* The right neighbour's words, by a number of contexts. */
	GIN_FN void get(int contexts) const
	{
		if (ncclCoopCta().thread_rank() == 0)
			for (int c = 0; c < contexts; c++)
				ncclGin{dc, c}.get(ncclTeamWorld(dc), (dc.rank + 1) % dc.nRanks, w,
						   0, w, AREA + static_cast<size_t>(c) * AREA_BYTES,
						   static_cast<size_t>(dc.nRanks) * 8);
	}

	/*
	 * Says the round to all; after the barrier every rank has said it. `gets`: of so many
	 * contexts the barrier's fence covers gets.
	 */
	template <class Sync> GIN_FN void rounds(uint64_t first, int gets, Sync sync) const
	{
		ncclGin gin{dc, 0};
		for (uint64_t round = first; round < first + 5; round++) {
			for (int p = ncclCoopCta().thread_rank(); p < dc.nRanks;
			     p += ncclCoopCta().size())
				gin.putValue(ncclTeamWorld(dc), p, w,
					     static_cast<size_t>(dc.rank) * 8, round);
			sync();
			for (int p = 0; p < dc.nRanks; p++)
				KERNEL_EXPECT(words(0)[p] == round);
			get(gets);
			sync();
			for (int p = 0; p < gets * dc.nRanks; p++)
				KERNEL_EXPECT(words(AREA + static_cast<size_t>(p / dc.nRanks) *
								   AREA_BYTES)[p % dc.nRanks] ==
					      round);
		}
	}

	/*
	 * A barrier waits for all that its rank posted to the team; its fence, for gets from other
	 * ranks, too.
	 */
	template <class Sync> GIN_FN void getFromAnother(int context, Sync sync) const
	{
		const size_t last = TARGET + LONG - 8;

		for (int i = 0; i < 5; i++) {
			if (ncclCoopCta().thread_rank() == 0) {
				*static_cast<uint64_t *>(ncclGetLocalPointer(w, last)) = 0;
				ncclGin{dc, context}.get(ncclTeamWorld(dc),
							 (dc.rank + dc.lsaSize + 1) % dc.nRanks, w,
							 SOURCE, w, TARGET, LONG);
			}
			sync();
			KERNEL_EXPECT(*words(last) == UINT64_MAX);
			ncclCoopCta().sync();
		}
	}

	/* Without the last rank of the team a barrier does not end, whatever other barriers did. */
	template <class Sync> GIN_FN void late(ncclTeam team, Sync sync) const
	{
		if (team.rank != team.nRanks - 1)
			KERNEL_EXPECT(sync(1000) == ncclTimeout);
		ncclGinBarrier(ncclCoopCta(), ncclGin{dc, 0}, ncclTeamTagWorld(), 0);
		KERNEL_EXPECT(sync(1ull << 40) == ncclSuccess);
	}

	GIN_FN void operator()() const
	{
		const ncclCoopCta cta;
		const auto order = cuda::memory_order_acq_rel;
		ncclGin gin{dc, 0};
		ncclTeam world = ncclTeamWorld(dc), lsa = ncclTeamLsa(dc), rail = ncclTeamRail(dc);
		ncclGinBarrierSession<ncclCoopCta> plain{cta, gin, ncclTeamTagWorld(), 0};
		ncclGinBarrierSession<ncclCoopCta> all{cta, ncclGinAllContexts(dc),
						       ncclTeamTagWorld(), 1};
		ncclGinBarrierSession<ncclCoopCta> own{cta, gin, world, ownGin, 0};
		ncclBarrierSession<ncclCoopCta> hybrid{cta, ncclTeamTagWorld(), gin, 0};
		ncclBarrierSession<ncclCoopCta> parts{
			cta, lsa, rail, gin, ownLsa, dc.railGinBarrier, 1};
		ncclBarrierSession<ncclCoopCta> inner{cta, ncclTeamTagLsa(), dc, 1};
		ncclBarrierSession<ncclCoopCta> outer{cta, ncclTeamTagRail(), gin, 1};
		ncclGinBarrierSession<ncclCoopCta> rails{cta, gin, ncclTeamTagRail(), 0};

		rounds(10, 1, [&] { plain.sync(cta, order); });
		rounds(20, 0, [&] { all.sync(cta, order, ncclGinFenceLevel::Put); });
		rounds(30, 1, [&] {
			own.sync(cta, order, ncclGinFenceLevel::Put | ncclGinFenceLevel::Get);
		});
		rounds(40, 0, [&] { hybrid.sync(cta, order, ncclGinFenceLevel::None); });
		rounds(50, 1, [&] { parts.sync(cta, order); });
		rounds(60, 1, [&] { ncclBarrier(cta, ncclTeamTagWorld(), gin, 1); });
		rounds(70, 1, [&] { ncclGinBarrier(cta, gin, ncclTeamTagWorld(), 0); });
		rounds(80, dc.ginContextCount,
		       [&] { ncclGinBarrier(cta, ncclGinAllContexts(dc), world, ownGin, 1); });
		rounds(90, 0, [&] {
			KERNEL_EXPECT(hybrid.sync(cta, order, ncclGinFenceLevel::Put, 1ull << 40) ==
				      ncclSuccess);
		});
		rounds(100, 1, [&] {
			KERNEL_EXPECT(plain.sync(cta, order, ncclGinFenceLevel::Get, 1ull << 60) ==
				      ncclSuccess);
		});
		inner.sync(cta, order);
		outer.sync(cta, order);
		KERNEL_EXPECT(outer.ginBarrier().index == dc.hybridRailGinBarrier.first + 1);
		getFromAnother(0, [&] { rails.sync(cta, order, ncclGinFenceLevel::Get); });
		getFromAnother(dc.ginContextCount - 1, [&] {
			ncclGinBarrier(cta, ncclGinAllContexts(dc), ncclTeamTagRail(), 0);
		});
		ncclBarrier(cta, ncclTeamTagRail(), gin, 0);
		ncclGinBarrier(cta, gin, ncclTeamTagRail(), 1);
		hybrid.lsaBarrier().sync(cta, order);
		hybrid.ginBarrier().sync(cta, order);
		ncclLsaBarrierSession<ncclCoopCta> domain{cta, dc, lsa, ownLsa, 0};
		late(lsa, [&](uint64_t cycles) { return domain.sync(cta, order, cycles); });
		late(world, [&](uint64_t cycles) {
			return own.sync(cta, order, ncclGinFenceLevel::Get, cycles);
		});
		late(world, [&](uint64_t cycles) {
			return hybrid.sync(cta, order, ncclGinFenceLevel::None, cycles);
		});
		domain.arrive(cta, order);
		KERNEL_EXPECT(domain.wait(cta, order, 1ull << 40) == ncclSuccess);
	}
};

/* No two barriers share a word, and each LSA barrier has a word for each rank of the domain. */
static void expectApart(const ncclDevComm &dc, ncclGinBarrierHandle_t gin,
			ncclLsaBarrierHandle_t lsa)
{
	const uint32_t width = (static_cast<uint32_t>(dc.lsaSize) - 1) / GIN_BARRIER_ROUNDS + 1;

	EXPECT(dc.lsaBarrier.first + dc.lsaBarrier.count * width <= dc.railGinBarrier.first);
	EXPECT(dc.hybridLsaBarrier.first + dc.hybridLsaBarrier.count * width <=
	       dc.hybridRailGinBarrier.first);
	EXPECT(gin.first + gin.count <= lsa.first);
	EXPECT(lsa.first + lsa.count * width <= dc.gin.barriers);
}

static void barriers(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclDevResourceRequirements_t lists[2];
	ncclGinBarrierHandle_t ownGin;
	ncclLsaBarrierHandle_t ownLsa;

	CHECK(ncclGinBarrierCreateRequirement(r.comm, ncclTeamWorld(r.comm), 2, &ownGin,
					      &lists[0]));
	CHECK(ncclLsaBarrierCreateRequirement(ncclTeamLsa(r.comm), 2, &ownLsa, &lists[1]));
	lists[0].next = &lists[1];
	want.resourceRequirementsList = &lists[0];
	want.barrierCount = 2;
	want.worldGinBarrierCount = 2;
	want.railGinBarrierCount = 2;
	Buffer buffer(r, 3 * Barriers::LONG);
	const std::vector<char> ones(Barriers::LONG, -1);
	copyBytes(static_cast<char *>(buffer.ptr) + Barriers::SOURCE, ones.data(), ones.size());
	Device device(r, want);
	EXPECT(ownGin.count == 2 && ownLsa.count == 2);
	expectApart(device.dc, ownGin, ownLsa);
	launch(r, 1, r.gpu ? 32 : 3, Barriers{{device.dc, nullptr}, buffer.window, ownGin, ownLsa});
	meet(r);
}

#endif
