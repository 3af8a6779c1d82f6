/* SPDX-License-Identifier: BSD-3-Clause */
/* barriers.h - every barrier of NCCL's device API, for device.cc */
#ifndef GIN_NCCL_TEST_BARRIERS_H
#define GIN_NCCL_TEST_BARRIERS_H

#include "rig.h"

/* Every barrier, some rounds: word [p] is the round that rank p has put. */
struct Barriers : Kernel {
	ncclWindow_t w;
	ncclGinBarrierHandle_t ownGin;
	ncclLsaBarrierHandle_t ownLsa;

	/* Says the round to all; after the barrier every rank has said it. */
	template <class Sync> GIN_FN void rounds(uint64_t first, Sync sync) const
	{
		ncclGin gin{dc, 0};
		for (uint64_t round = first; round < first + 5; round++) {
			for (int p = ncclCoopCta().thread_rank(); p < dc.nRanks;
			     p += ncclCoopCta().size())
				gin.putValue(ncclTeamWorld(dc), p, w,
					     static_cast<size_t>(dc.rank) * 8, round);
			sync();
			const volatile uint64_t *words =
				static_cast<const volatile uint64_t *>(ncclGetLocalPointer(w, 0));
			for (int p = 0; p < dc.nRanks; p++)
				KERNEL_EXPECT(words[p] == round);
			sync();
		}
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

		rounds(10, [&] { plain.sync(cta, order); });
		rounds(20, [&] { all.sync(cta, order, ncclGinFenceLevel::Put); });
		rounds(30, [&] {
			own.sync(cta, order, ncclGinFenceLevel::Put | ncclGinFenceLevel::Get);
		});
		rounds(40, [&] { hybrid.sync(cta, order, ncclGinFenceLevel::None); });
		rounds(50, [&] { parts.sync(cta, order); });
		rounds(60, [&] { ncclBarrier(cta, ncclTeamTagWorld(), gin, 1); });
		rounds(70, [&] { ncclGinBarrier(cta, gin, ncclTeamTagWorld(), 0); });
		rounds(80, [&] { ncclGinBarrier(cta, ncclGinAllContexts(dc), world, ownGin, 1); });
		rounds(90, [&] {
			KERNEL_EXPECT(hybrid.sync(cta, order, ncclGinFenceLevel::Put, 1ull << 40) ==
				      ncclSuccess);
		});
		rounds(100, [&] {
			KERNEL_EXPECT(plain.sync(cta, order, ncclGinFenceLevel::Get, 1ull << 60) ==
				      ncclSuccess);
		});
		inner.sync(cta, order);
		outer.sync(cta, order);
		rails.sync(cta, order);
		ncclBarrier(cta, ncclTeamTagRail(), gin, 0);
		ncclGinBarrier(cta, gin, ncclTeamTagRail(), 1);
		hybrid.lsaBarrier().sync(cta, order);
		hybrid.ginBarrier().sync(cta, order);
		ncclLsaBarrierSession<ncclCoopCta> domain{cta, dc, lsa, ownLsa, 0};
		KERNEL_EXPECT(domain.sync(cta, order, 1ull << 40) == ncclSuccess);
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
	Buffer buffer(r, 4096);
	Device device(r, want);
	EXPECT(ownGin.count == 2 && ownLsa.count == 2);
	expectApart(device.dc, ownGin, ownLsa);
	launch(r, 1, r.gpu ? 32 : 3, Barriers{{device.dc, nullptr}, buffer.window, ownGin, ownLsa});
	meet(r);
}

#endif
