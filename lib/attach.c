/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach.c - tells gin_info --attach, or a debugger by ginDump(), what this process does
 *
 * Each communicator has a UNIX socket with an abstract name, "gin.PID.NUMBER". A process that
 * connects gets a text, if it runs as this process's user or as root. A thread of its own writes
 * the text and ends: reading the words of a GPU may take long.
 */
#include "attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/forkguard.h"
#include "lib/base/log.h"
#include "lib/base/param.h"
#include "lib/base/thread.h"
#include "lib/devcomm/devcomm.h"

#define ANSWER_NS (2 * SECOND) /* in which the control thread should have asked the kernels */
#define MOST_SIGNALS 64	       /* in the text, of a device communicator */
#define MOST_CONTEXTS 64

static int listenAs(unsigned number)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "gin.%d.%u",
			      (int)getpid(), number);
	socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	int fd = fileAboveStandard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&name, bytes) && !listen(fd, 4))
		return fd;
	logWrite(logInfo, "gin_info --attach cannot reach this process: %m");
	if (fd >= 0)
		close(fd);
	return -1;
}

void attachOpen(ginComm_t comm)
{
	static unsigned last;
	int fd = -1;

	if (paramChoice(paramAttach) == attachOn)
		fd = listenAs(__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED));
	if (fd >= 0)
		forkGuard(fd);
	pthread_mutex_lock(&comm->lock);
	comm->attach.listener = fd;
	pthread_mutex_unlock(&comm->lock);
}

static int mayRead(int fd)
{
	struct ucred asker = {0};
	socklen_t bytes = sizeof(asker);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &asker, &bytes))
		return 0;
	if (asker.uid == geteuid() || !asker.uid)
		return 1;
	logWrite(logWarn, "process %d of user %u may not attach", (int)asker.pid,
		 (unsigned)asker.uid);
	return 0;
}

/* Equal on all ranks of the communicator, and not the key. */
static uint64_t nameOf(ginComm_t comm)
{
	return siphash(comm->control.key, "attach", 6);
}

/* The value of a signal: the sum of its words. The caller has entered the scope. */
static int readSignal(ginComm_t comm, const struct devComm *dc, size_t i, uint64_t *value)
{
	const ginDevComm *d = &dc->device;

	*value = 0;
	for (int writer = 0; writer < GIN_WRITER_CLASSES; writer++) {
		const uint64_t *at = d->signal[writer];
		uint64_t word = 0;
		if (!at)
			continue;
		at += i * (writer == ginWriterCpu ? GIN_CPU_WORD_STRIDE : 1);
		if (writer == ginWriterCpu || !comm->device.cuda)
			word = __atomic_load_n(at, __ATOMIC_RELAXED);
		else if (deviceRead(&comm->device, &word, at, sizeof(word)) != ginSuccess)
			return 0;
		*value += word;
	}
	return 1;
}

static void writeSignals(ginComm_t comm, const struct devComm *dc, FILE *out)
{
	size_t signals = dc->device.signals, all = signals * dc->device.contexts;
	struct deviceScope scope;
	uint64_t value;

	if (deviceEnter(&comm->device, &scope) != ginSuccess)
		return;
	for (size_t i = 0; i < all && i < MOST_SIGNALS; i++)
		if (readSignal(comm, dc, i, &value) && value)
			fprintf(out, "signal %zu of context %zu: %llu\n", i % signals, i / signals,
				(unsigned long long)value);
	deviceLeave(&comm->device, &scope);
}

static void writeContexts(ginComm_t comm, const struct devComm *dc, FILE *out)
{
	for (uint32_t c = 0; c < dc->device.contexts && c < MOST_CONTEXTS; c++) {
		ginStats_t s = GIN_STATS_INIT;
		if (!queuesAny(&dc->queues) || devCommStats(comm, dc, c, &s) != ginSuccess)
			return;
		if (s.posted)
			fprintf(out,
				"context %u: %llu posted, %llu outstanding, %llu failed, %llu "
				"waits for room\n",
				c, (unsigned long long)s.posted,
				(unsigned long long)(s.posted - s.completed - s.failed),
				(unsigned long long)s.failed, (unsigned long long)s.waitsForRoom);
	}
}

/* Ranks to which kernels have posted. tools/gin_info/prometheus.c reads the lines. */
static void writePeers(ginComm_t comm, const struct devComm *dc, FILE *out)
{
	for (int r = 0; r < comm->nRanks; r++) {
		ginPeerStats_t s = GIN_PEER_STATS_INIT;
		if (devCommPeerStats(comm, dc, r, &s) != ginSuccess)
			return;
		if (!s.posted)
			continue;
		fprintf(out, "to rank %d by %s: %llu posted, %llu completed, %llu failed", r,
			routesName(comm, r), (unsigned long long)s.posted,
			(unsigned long long)s.completed, (unsigned long long)s.failed);
		if (s.counted & GIN_COUNTED_BYTES)
			fprintf(out, ", %llu bytes put, %llu got", (unsigned long long)s.putBytes,
				(unsigned long long)s.getBytes);
		fputc('\n', out);
	}
}

static void writeDevComm(ginComm_t comm, const struct devComm *dc, FILE *out)
{
	const ginDevComm *d = &dc->device;

	fprintf(out,
		"device communicator %llu: %u contexts, %u signals, %u counters, %u barriers\n",
		(unsigned long long)d->id, d->contexts, d->signals, d->counters, d->barriers);
	writeContexts(comm, dc, out);
	writePeers(comm, dc, out);
	writeSignals(comm, dc, out);
	devCommWriteWaits(comm, dc, out);
}

/* The first line has what tools/gin_info/attach.c needs. */
static void writeAll(ginComm_t comm, FILE *out)
{
	fprintf(out, "libgin 1 %016llx %d %d %d %s\n", (unsigned long long)nameOf(comm), comm->rank,
		comm->nRanks, (int)getpid(), comm->ranks[comm->rank].host);
	pthread_mutex_lock(&comm->lock);
	for (int r = 0; r < comm->nRanks; r++)
		if (comm->lost[r])
			fprintf(out, "rank %d %s\n", r,
				comm->lost[r] & lostDead ? "has failed" : "is masked");
	for (const struct devComm *dc = comm->devComms; dc; dc = dc->next)
		writeDevComm(comm, dc, out);
	pthread_mutex_unlock(&comm->lock);
}

static void askAll(ginComm_t comm)
{
	pthread_mutex_lock(&comm->lock);
	for (struct devComm *dc = comm->devComms; dc; dc = dc->next)
		dc->isWanted = 1;
	pthread_mutex_unlock(&comm->lock);
}

static int haveAnswered(ginComm_t comm, uint64_t since)
{
	int all = 1;

	pthread_mutex_lock(&comm->lock);
	for (const struct devComm *dc = comm->devComms; dc; dc = dc->next)
		all &= dc->answered >= since;
	pthread_mutex_unlock(&comm->lock);
	return all;
}

static int isEnding(ginComm_t comm)
{
	pthread_mutex_lock(&comm->lock);
	int ends = comm->attach.listener < 0;
	pthread_mutex_unlock(&comm->lock);
	return ends;
}

/*
 * The text, which the caller frees, or NULL. Waits until all kernels have answered. `byThread`: the
 * communicator may end meanwhile.
 */
static char *makeText(ginComm_t comm, int byThread, size_t *bytes)
{
	uint64_t since = clockNow();
	char *text = NULL;

	askAll(comm);
	while (!haveAnswered(comm, since) && !(byThread && isEnding(comm)) &&
	       clockNow() - since < ANSWER_NS)
		usleep(20000);
	FILE *out = open_memstream(&text, bytes);
	if (!out)
		return NULL;
	writeAll(comm, out);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

static void sendText(int fd, const char *text, size_t bytes)
{
	const struct timeval most = {.tv_sec = 2};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	while (bytes) {
		ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return;
		text += sent;
		bytes -= (size_t)sent;
	}
}

static void *serve(void *arg)
{
	ginComm_t comm = arg;
	size_t bytes = 0;

	errorScope("attach", comm->rank);
	errorQuiet(1);
	char *text = makeText(comm, 1, &bytes);
	if (text)
		sendText(comm->attach.fd, text, bytes);
	free(text);
	shutdown(comm->attach.fd, SHUT_RDWR); /* the end of the text */
	__atomic_store_n(&comm->attach.isDone, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The thread before has ended, or there was none. The caller holds comm->lock. */
static void acceptOne(ginComm_t comm)
{
	struct attach *a = &comm->attach;
	int fd = fileAboveStandard(accept4(a->listener, NULL, NULL, SOCK_CLOEXEC));

	if (fd < 0)
		return;
	a->fd = fd;
	a->isDone = 0;
	a->isStarted = mayRead(fd) && !threadStart(&a->thread, "gin-attach", serve, comm);
	if (a->isStarted)
		forkGuard(fd);
	else
		close(fd);
}

static void endThread(struct attach *a)
{
	pthread_join(a->thread, NULL);
	forkGuardClose(a->fd);
}

void attachTick(ginComm_t comm)
{
	struct attach *a = &comm->attach;

	if (pthread_mutex_trylock(&comm->lock))
		return;
	if (a->isStarted && __atomic_load_n(&a->isDone, __ATOMIC_ACQUIRE)) {
		endThread(a);
		a->isStarted = 0;
	}
	if (a->listener >= 0 && !a->isStarted)
		acceptOne(comm);
	pthread_mutex_unlock(&comm->lock);
}

void attachClose(ginComm_t comm)
{
	struct attach *a = &comm->attach;

	pthread_mutex_lock(&comm->lock);
	if (a->listener >= 0)
		forkGuardClose(a->listener);
	a->listener = -1;
	int isStarted = a->isStarted;
	a->isStarted = 0; /* attachTick() leaves the thread alone */
	pthread_mutex_unlock(&comm->lock);
	if (!isStarted)
		return;
	shutdown(a->fd, SHUT_RDWR); /* ends the wait for a process that does not read */
	endThread(a);
}

static ginResult_t dump(ginComm_t comm, int fd)
{
	ginResult_t result = ginSuccess;
	size_t bytes = 0, at = 0;

	int wasQuiet = errorQuiet(1);
	char *text = makeText(comm, 0, &bytes);
	errorQuiet(wasQuiet);
	errorScope("ginDump", comm->rank);
	if (!text)
		return fail(ginErrorSystem, "no memory");
	while (at < bytes && result == ginSuccess) {
		ssize_t written = write(fd, text + at, bytes - at);
		if (written < 0 && errno != EINTR)
			result = failErrno("cannot write to descriptor %d", fd);
		at += written > 0 ? (size_t)written : 0;
	}
	free(text);
	return result;
}

ginResult_t ginDump(int fd)
{
	errorScope("ginDump", -1);
	if (fd < 0)
		return fail(ginErrorInvalidArgument, "fd is %d: must be an open descriptor", fd);
	return commEach(dump, fd);
}
