// SPDX-License-Identifier: BSD-3-Clause
/*
 * trace.cc - one put with a signal and a counter, its wait and its flush by one host thread, with a
 * record of every function call: for test/lint/trace
 *
 * Built with -finstrument-functions, as libgin.so is. Prints a line for each entry of a function:
 *
 *	put OBJECT OFFSET	by the calling thread within Gin::put(), in order
 *	any OBJECT OFFSET	by any thread, once
 */
#include <gin.h>
#include <gin_device.cuh>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define QUIET __attribute__((no_instrument_function))

enum { MOST = 1 << 16 };
static void *seen[MOST], *inPut[MOST];
static int inPutCount;
static thread_local bool isPutting;

extern "C" QUIET void __cyg_profile_func_enter(void *function, void *)
{
	if (isPutting && inPutCount < MOST)
		inPut[inPutCount++] = function;
	for (uintptr_t i = reinterpret_cast<uintptr_t>(function) / 4;; i++) {
		void *empty = nullptr, **at = &seen[i % MOST];
		if (__atomic_load_n(at, __ATOMIC_RELAXED) == function)
			return;
		if (__atomic_compare_exchange_n(at, &empty, function, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED) ||
		    empty == function)
			return;
	}
}

extern "C" QUIET void __cyg_profile_func_exit(void *, void *)
{
}

QUIET static void print(const char *kind, void *function)
{
	Dl_info info;

	if (function && dladdr(function, &info))
		printf("%s %s %lx\n", kind, info.dli_fname,
		       static_cast<unsigned long>(static_cast<char *>(function) -
						  static_cast<char *>(info.dli_fbase)));
}

QUIET static void must(ginResult_t result)
{
	if (result == ginSuccess)
		return;
	fprintf(stderr, "%s\n", ginGetLastError());
	exit(1);
}

struct Job {
	ginDevComm dc;
	ginWindow_t window;
};

QUIET static void body(void *arg)
{
	Job *job = static_cast<Job *>(arg);
	Gin gin(job->dc, 0);

	isPutting = true;
	ginResult_t result =
		gin.put(0, job->window, 0, job->window, 64, 64, GinSignalInc{0}, GinCounterInc{0});
	isPutting = false;
	must(result);
	must(gin.waitSignal(0, 1));
	must(gin.waitCounter(0, 1));
	must(gin.flush());
}

int main()
{
	ginConfig_t config = GIN_CONFIG_INIT;
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginComm_t comm;
	Job job;
	void *memory;

	must(ginCommInit(&config, &comm));
	must(ginMemAlloc(comm, 128, &memory));
	must(ginWindowRegister(comm, memory, 128, 0, &job.window));
	must(ginDevCommCreate(comm, &want, &job.dc));
	must(ginHostLaunch(1, 1, body, &job));
	for (int i = 0; i < inPutCount; i++)
		print("put", inPut[i]);
	for (void *function : seen)
		print("any", function);
	return 0;
}
