/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_pages.cc - runs the example of GinPackets(3) between two ranks that are threads
 */
/* COMPILE: -I$(BUILD) */
#include <gin_device.cuh>

#include "expect.h"
#include "pages/GinPackets.h"
#include "ranks.h"

enum { TIMES = 50, BYTES = 4096, MOST = 64 };

static uint32_t answers; /* that were made */

/* Each call makes another one: one lane has to make it. */
static uint64_t makeAnswer(const uint64_t *question)
{
	return *question + __atomic_add_fetch(&answers, 1, __ATOMIC_RELAXED);
}

struct Talk {
	ginDevComm dc;
	ginPacketBox box;
	uint64_t question[8], answer;
	ginResult_t result[GIN_HOST_WARP];
};

static void talk(void *arg)
{
	Talk *t = static_cast<Talk *>(arg);

	t->result[ginThreadIndex()] =
		converse(t->dc, t->box, t->question, &t->answer, TIMES, makeAnswer);
}

static int run(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginWindow_t window;
	ginComm_t comm;
	Talk t = {};
	void *at;

	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginMemAlloc(comm, BYTES, &at));
	memset(at, 0, BYTES);
	EXPECT_SUCCESS(ginWindowRegister(comm, at, BYTES, 0, &window));
	want.signals = 2 * 2;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &t.dc));
	t.box = {window, 0, MOST, 0};
	EXPECT(ginPacketBoxBytes(2, MOST) <= BYTES);
	t.question[0] = config->rank ? 0 : 1000;
	EXPECT_SUCCESS(ginHostLaunch(1, GIN_HOST_WARP, talk, &t));
	for (ginResult_t result : t.result)
		EXPECT_SUCCESS(result);
	EXPECT_EQUAL(t.question[0], 1000);
	EXPECT_EQUAL(t.answer, 1000 + TIMES);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &t.dc));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	EXPECT_SUCCESS(ginMemFree(nullptr, at));
	return 0;
}

int main()
{
	const int *result = ranksStart(2, 1, run);

	EXPECT(!result[0] && !result[1]);
	EXPECT_EQUAL(answers, TIMES);
	return 0;
}
