/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.c - does a kernel wait in a call on a device communicator that is to be freed?
 *
 * A waiting thread reads the abort line every few microseconds, and copies it to the mirror in GPU
 * memory (include/gin/core/mirror.cuh). The line has a number that kernels ignore. The host changes
 * the number: if it arrives in the mirror, a thread waits. Kernels pay nothing for this. The host
 * does not notice a kernel that runs without waiting, has waited for less than some microseconds,
 * or is suspended by the GPU. Host threads, which the scheduler suspends for long, are counted
 * instead, when they wait for a signal, a counter or a value.
 */
#include <unistd.h>

#include "devcomm.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

/*
 * A waiting thread reads the line within this time, even if the GPU runs the kernels of two other
 * processes in between, for some 2 ms each. The full time passes only if a thread has waited
 * before.
 */
#define ANSWER_NS 10000000ull

/* After a failure, the waits that it ends get 0.25 s. */
#define LEAVE_FIRST_US 1000u
#define LEAVE_LAST_US 128000u

/*
 * The number that a thread has copied last; 0: no thread has waited. The caller has entered the
 * scope.
 */
static uint8_t answered(ginComm_t comm, const struct devComm *dc)
{
	const uint64_t *seen = &dc->device.abort->mirror.seen;
	uint64_t word = 0;

	if (deviceRead(&comm->device, &word, seen, sizeof(word)) != ginSuccess)
		word = 0; /* the GPU has failed, and its kernels with it */
	return word >> 56 & 0x7f;
}

void devCommNextQuestion(struct devComm *dc, uint8_t except)
{
	do
		dc->question = dc->question == 127 ? 1 : dc->question + 1;
	while (dc->question == except);
}

/* Returns a number that no thread has copied. */
static uint8_t ask(ginComm_t comm, struct devComm *dc, uint8_t last)
{
	pthread_mutex_lock(&comm->lock);
	devCommNextQuestion(dc, last);
	uint8_t question = dc->question;
	devCommWriteLine(comm, dc);
	pthread_mutex_unlock(&comm->lock);
	return question;
}

static int anyWaits(ginComm_t comm, struct devComm *dc)
{
	if (!comm->device.cuda)
		return __atomic_load_n(&dc->device.abort->waiting, __ATOMIC_RELAXED) != 0;
	uint8_t last = answered(comm, dc);

	if (!last)
		return 0;
	uint8_t question = ask(comm, dc, last);
	uint64_t end = clockNow() + ANSWER_NS;
	while (answered(comm, dc) != question) {
		if (clockNow() > end)
			return 0;
		usleep(20);
	}
	return 1;
}

static int anyWaitsOn(ginComm_t comm, struct devComm *dc)
{
	int waits = anyWaits(comm, dc);

	for (uint32_t us = LEAVE_FIRST_US; us <= LEAVE_LAST_US; us *= 2) {
		if (!waits || controlError(&comm->control) == ginSuccess)
			break;
		usleep(us);
		waits = anyWaits(comm, dc);
	}
	return waits;
}

static int hasAborted(ginComm_t comm)
{
	pthread_mutex_lock(&comm->lock);
	int aborted = comm->lostAll == ginErrorAborted;
	pthread_mutex_unlock(&comm->lock);
	return aborted;
}

ginResult_t devCommCheckIdle(ginComm_t comm, struct devComm *dc)
{
	struct deviceScope scope;

	if (deviceEnter(&comm->device, &scope) != ginSuccess)
		return ginSuccess;
	int waits = anyWaitsOn(comm, dc);
	deviceLeave(&comm->device, &scope);
	if (!waits)
		return ginSuccess;
	if (!hasAborted(comm))
		return fail(ginErrorInvalidUsage,
			    "a kernel of rank %d waits in a call on device communicator %llu: let "
			    "it end, or call ginCommAbort() first",
			    comm->rank, (unsigned long long)dc->device.id);
	logWrite(logWarn, "a kernel waits in a call on device communicator %llu, which is freed",
		 (unsigned long long)dc->device.id);
	return ginSuccess;
}

ginResult_t devCommsCheckIdle(ginComm_t comm)
{
	ginResult_t result = ginSuccess;

	for (struct devComm *dc = comm->devComms; dc && result == ginSuccess; dc = dc->next)
		result = devCommCheckIdle(comm, dc);
	return result;
}
