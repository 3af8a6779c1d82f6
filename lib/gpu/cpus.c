/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus.c - on which CPUs the threads run that work for a GPU */
#include "cpus.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/param.h"

/* The last answer of cpusNear(), which is slow; most processes use one GPU. */
static struct {
	char busId[sizeof(((struct device *)0)->pciBusId)];
	int numaNode;
	const char *why; /* NULL: no answer yet */
	int known;
	cpu_set_t cpus;
} last;
static pthread_mutex_t lastLock = PTHREAD_MUTEX_INITIALIZER;

static int nearCached(const struct device *d, cpu_set_t *cpus, const char **why)
{
	pthread_mutex_lock(&lastLock);
	if (!last.why || last.numaNode != d->numaNode || strcmp(last.busId, d->pciBusId)) {
		memcpy(last.busId, d->pciBusId, sizeof(last.busId));
		last.numaNode = d->numaNode;
		last.why = "";
		last.known = cpusNear(d->pciBusId, d->numaNode, &last.cpus, &last.why);
	}
	int known = last.known;
	*cpus = last.cpus;
	if (!known)
		*why = last.why;
	pthread_mutex_unlock(&lastLock);
	return known;
}

/* The CPUs of `own` that are close to the GPU, or all of `own` when there are none. */
static void chooseNear(const struct device *d, const cpu_set_t *own, cpu_set_t *cpus)
{
	const char *why = "the CPUs near it are not among those that this process may use";
	cpu_set_t near;

	*cpus = *own;
	if (!d->cuda)
		return;
	if (nearCached(d, &near, &why)) {
		CPU_AND(cpus, own, &near);
		if (CPU_COUNT(cpus))
			return;
		*cpus = *own;
	}
	logWrite(logInfo, "the proxy's threads are not bound to CPUs near GPU %d (%s): %s",
		 d->ordinal, d->pciBusId, why);
}

/* Counts from the highest CPU down: the lowest ones serve interrupts, and programs start there. */
static int countDown(const cpu_set_t *cpus, unsigned number)
{
	int left = (int)(number % (unsigned)CPU_COUNT(cpus));
	int cpu = CPU_SETSIZE - 1;

	while (!CPU_ISSET(cpu, cpus) || left--)
		cpu--;
	return cpu;
}

void cpusChoose(const struct device *d, const cpu_set_t *own, cpu_set_t *cpus)
{
	if (paramChoice(paramProxyAffinity) == proxyAffinityNone)
		*cpus = *own;
	else
		chooseNear(d, own, cpus);
}

/* How many threads of cpusPick() run on each CPU. */
static unsigned threadsOn[CPU_SETSIZE];
static pthread_mutex_t threadsLock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The CPU with the fewest threads of this process; if there are several, the first from `number`
 * on.
 */
static int leastUsed(const cpu_set_t *cpus, unsigned number)
{
	int best = countDown(cpus, number);

	pthread_mutex_lock(&threadsLock);
	for (int i = 1; i < CPU_COUNT(cpus); i++) {
		int cpu = countDown(cpus, number + (unsigned)i);
		if (threadsOn[cpu] < threadsOn[best])
			best = cpu;
	}
	threadsOn[best]++;
	pthread_mutex_unlock(&threadsLock);
	return best;
}

void cpusPick(const cpu_set_t *among, unsigned number, cpu_set_t *cpus)
{
	*cpus = *among;
	if (paramChoice(paramProxyAffinity) != proxyAffinityCpu)
		return;
	int one = leastUsed(among, number);
	CPU_ZERO(cpus);
	CPU_SET(one, cpus);
}

void cpusLeave(const cpu_set_t *cpus)
{
	if (paramChoice(paramProxyAffinity) != proxyAffinityCpu || !CPU_COUNT(cpus))
		return;
	pthread_mutex_lock(&threadsLock);
	threadsOn[countDown(cpus, 0)]--;
	pthread_mutex_unlock(&threadsLock);
}

static int firstNot(const cpu_set_t *cpus, int cpu, int isSet)
{
	while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, cpus) == !isSet)
		cpu++;
	return cpu;
}

void cpusFormat(const cpu_set_t *cpus, char *out, size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (int first = firstNot(cpus, 0, 0); first < CPU_SETSIZE && used < bytes;) {
		int end = firstNot(cpus, first, 1);
		used += (size_t)snprintf(out + used, bytes - used, "%s%d", used ? "," : "", first);
		if (end - first > 1 && used < bytes)
			used += (size_t)snprintf(out + used, bytes - used, "-%d", end - 1);
		first = firstNot(cpus, end, 0);
	}
}
