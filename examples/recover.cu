// SPDX-License-Identifier: BSD-3-Clause
// recover - a rank is lost in the middle of a computation, and the others go on with their memory
//
// In each step every rank puts data to its right neighbour. In step LOST_AT rank VICTIM kills
// itself. The kernels of the other ranks end with ginErrorPeer. The ranks then shrink the
// communicator, find the step from which to go on, and continue with the windows that they had.
//   for r in 0 1 2; do RANK=$r WORLD_SIZE=3 GIN_ROOT=127.0.0.1:29400 ./recover 1 & done; wait
// (mpirun would end all ranks when one dies.)
#include "launch.h"

#include <signal.h>

#include <algorithm>

enum { STEPS = 20, LOST_AT = 10, BYTES = 1 << 16 };

// The barrier: no rank still reads its inbox of the step before. `count`: signals that have arrived
// by this device communicator when the step is complete.
struct Step {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	uint64_t count;
	ginResult_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginResult_t status = GinBarrier(dc, ginTeamWorld(dc), 0).sync(GinCta{});

		if (status == ginSuccess)
			status = gin.put(right, inbox, 0, outbox, 0, BYTES, GinSignalInc{0},
					 GinNone{}, GinCta{});
		if (status == ginSuccess)
			status = gin.waitSignal(0, count, GinCta{});
		if (status == ginSuccess)
			status = gin.flush(GinCta{}); // the outbox may change
		if (ginThreadIndex() == 0)
			*result = status;
	}
};

struct Job {
	Rank self;
	Window in, out;
	ginDevComm dc;
	uint64_t done;	  // steps
	uint64_t counted; // signals of `dc`
};

static unsigned char pattern(int rank, uint64_t step, size_t i)
{
	return static_cast<unsigned char>(i * 7 + i / 251 + static_cast<size_t>(rank) * 31 + step);
}

// Returns the result of the kernel.
static ginResult_t runStep(Job &job, size_t *wrong)
{
	const Rank &r = job.self;
	int left = (r.rank + r.nRanks - 1) % r.nRanks;
	std::vector<unsigned char> bytes(BYTES);
	static ginResult_t *result = resultWord<ginResult_t>(r);

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = pattern(r.rank, job.done, i);
	copyBytes(r, job.out.ptr, bytes.data(), BYTES);
	launch(r, 1, r.device < 0 ? GIN_HOST_WARP : 256,
	       Step{job.dc, job.in.window, job.out.window, job.counted + 1, result});
	if (*result != ginSuccess)
		return *result;
	copyBytes(r, bytes.data(), job.in.ptr, BYTES);
	for (size_t i = 0; i < BYTES; i++)
		*wrong += bytes[i] != pattern(left, job.done, i);
	job.done++;
	job.counted++;
	return ginSuccess;
}

static void openDevice(Job &job)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

	CHECK(ginDevCommCreate(job.self.comm, &want, &job.dc));
	job.counted = 0;
}

// A rank may have completed one step more than another: all go on after the lowest step. If one
// more rank dies before all know that step, the allgather fails, and the ranks shrink `old` again.
static void goOn(Job &job)
{
	const Rank old = job.self;
	ginComm_t comm;
	std::vector<uint64_t> done(static_cast<size_t>(job.self.nRanks));

	// Ends this rank's transfers: after ginCommShrink() no old one can reach the memory.
	CHECK(ginDevCommDestroy(old.comm, &job.dc));
	for (;;) {
		CHECK(ginCommShrink(old.comm, nullptr, 0, &comm));
		if (ginCommAllgather(comm, &job.done, done.data(), sizeof(job.done)) == ginSuccess)
			break;
		CHECK(ginCommDestroy(comm));
	}
	CHECK(ginWindowInherited(comm, job.in.window, &job.in.window));
	CHECK(ginWindowInherited(comm, job.out.window, &job.out.window));
	rankClose(old); // with its windows; the memory stays
	job.self = rankTake(comm);
	job.done = *std::min_element(done.begin(), done.begin() + job.self.nRanks);
	openDevice(job);
}

int main(int argc, char **argv)
{
	Job job = {};
	size_t wrong = 0;

	job.self = rankOpen();
	int victim = argc > 1 ? atoi(argv[1]) : -1, first = job.self.rank;
	job.in = registerCopy(job.self, std::vector<unsigned char>(BYTES, 0));
	job.out = registerCopy(job.self, std::vector<unsigned char>(BYTES, 0));
	openDevice(job);
	while (job.done < STEPS) {
		if (first == victim && job.done == LOST_AT)
			raise(SIGKILL);
		ginResult_t result = runStep(job, &wrong);
		if (result != ginErrorPeer) {
			checkKernel(job.self, job.dc, result);
			continue;
		}
		goOn(job);
		printf("rank %d goes on as rank %d of %d after step %d\n", first, job.self.rank,
		       job.self.nRanks, static_cast<int>(job.done));
	}
	int failed = report(job.self, wrong);
	CHECK(ginDevCommDestroy(job.self.comm, &job.dc));
	freeWindow(job.self, job.in);
	freeWindow(job.self, job.out);
	rankClose(job.self);
	return failed;
}
