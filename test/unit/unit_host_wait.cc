// SPDX-License-Identifier: BSD-3-Clause
// unit_host_wait - where CPUs are fewer than threads that run, a host thread that waits leaves its CPU to threads that
// work: it uses a small part of their CPU time. With yields alone it would use as much.
#include <sched.h>

#include "expect.h"
#include "gin.h"
#include "gin_device.cuh"

enum : uint64_t { WORK = 200000000 }; // ns of CPU time

static void work()
{
	uint64_t end = ginHostCpuTime() + WORK;

	while (ginHostCpuTime() < end)
		;
}

struct Waiters {
	ginDevComm dc;
	bool forCoop; // else for a signal
	uint64_t used;
	ginResult_t result;

	// Thread 0 works, thread 1 waits for it.
	void run()
	{
		Gin gin(dc, 0);
		GinCta block;

		if (ginThreadIndex() == 0) {
			work();
			if (!forCoop)
				gin.signal(0, GinSignalInc{0});
		} else if (!forCoop) {
			result = gin.waitSignal(0, 1);
			used = ginHostCpuTime();
		}
		if (forCoop)
			block.sync();
		if (forCoop && ginThreadIndex() == 1)
			used = ginHostCpuTime();
	}
};

static void runWaiters(void *arg)
{
	static_cast<Waiters *>(arg)->run();
}

static void waiterUsesLittle(const char *what, const ginDevComm &dc, bool forCoop)
{
	Waiters waiters = {dc, forCoop, 0, ginSuccess};

	EXPECT_EQUAL(ginHostLaunch(1, 2, runWaiters, &waiters), ginSuccess);
	EXPECT_EQUAL(waiters.result, ginSuccess);
	printf("%s: %.1f ms of CPU time, while the other thread used %.1f ms\n", what,
	       static_cast<double>(waiters.used) / 1e6, static_cast<double>(WORK) / 1e6);
	EXPECT(waiters.used < WORK / 3);
}

// The first CPU that this process may use.
static void useOneCpu()
{
	cpu_set_t cpus, one;
	int cpu = 0;

	EXPECT_EQUAL(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	while (!CPU_ISSET(cpu, &cpus))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	EXPECT_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
}

int main()
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginConfig_t config = GIN_CONFIG_INIT;
	ginComm_t comm;
	ginDevComm dc;

	want.signals = 1;
	EXPECT_EQUAL(ginCommInit(&config, &comm), ginSuccess);
	EXPECT_EQUAL(ginDevCommCreate(comm, &want, &dc), ginSuccess);
	useOneCpu();
	waiterUsesLittle("a wait for a signal", dc, false);
	waiterUsesLittle("a wait for the coop", dc, true);
	EXPECT_EQUAL(ginDevCommDestroy(comm, &dc), ginSuccess);
	EXPECT_EQUAL(ginCommDestroy(comm), ginSuccess);
	return 0;
}
