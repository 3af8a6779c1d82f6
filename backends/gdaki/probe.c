/* SPDX-License-Identifier: BSD-3-Clause */
#include "probe.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/log.h"
#include "choose.h"
#include "load.h"

enum { PORTS = 64 };

static_assert(sizeof(struct rdmaAddress) <= BACKEND_BLOB, "a port's address travels as a blob");

static int wantedGid(int *gid, char *why)
{
	const char *text = paramText(paramNicGid);
	char *end;

	*gid = -1;
	if (!text[0])
		return 0;
	long index = strtol(text, &end, 10);
	*gid = (int)index;
	if (!*end && index >= 0 && index < 65536)
		return 0;
	snprintf(why, RDMA_WHY, "GIN_NIC_GID=%.40s: must be an index, 0 at least", text);
	return -1;
}

static int listPorts(const struct rdma *rdma, struct rdmaWanted *wanted, struct rdmaFound *found,
		     char *why)
{
	if (wantedGid(&wanted->gid, why))
		return -1;
	int count = rdma->list(wanted, found, PORTS, why);
	return count < PORTS ? count : PORTS;
}

/* `why`: why not, else which one it is. */
static int openChosen(const struct backendHost *host, const struct rdma *rdma,
		      struct rdmaPort **port, char *why)
{
	struct rdmaFound found[PORTS];
	struct rdmaWanted wanted = {0};

	int count = listPorts(rdma, &wanted, found, why);
	if (count < 0)
		return -1;
	int chosen = portChoose(host, paramText(paramNic), found, count, why);
	if (chosen < 0)
		return -1;
	wanted.device = found[chosen].device;
	wanted.port = found[chosen].port;
	if (rdma->portOpen(&wanted, port, why))
		return -1;
	snprintf(why, RDMA_WHY, "%s:%d: %.200s", wanted.device, wanted.port, found[chosen].why);
	return 0;
}

static int openPort(const struct backendHost *host, const struct rdma **rdma,
		    struct rdmaPort **port, char *why)
{
	*rdma = rdmaLoad(why, RDMA_WHY);
	return *rdma ? openChosen(host, *rdma, port, why) : -1;
}

int gdakiProbe(const struct backendHost *host, struct rdmaAddress *address, char why[BACKEND_WHY])
{
	struct rdmaFeatures features;
	const struct rdma *rdma;
	struct rdmaPort *port;
	char reason[RDMA_WHY];

	if (openPort(host, &rdma, &port, reason)) {
		snprintf(why, BACKEND_WHY, "%.*s", BACKEND_WHY - 1, reason);
		return 0;
	}
	rdma->portTell(port, address, &features);
	rdma->portClose(port);
	why[0] = '\0';
	return 1;
}

ginResult_t gdakiPortOpen(const struct backendHost *host, const struct rdma **rdma,
			  struct rdmaPort **port)
{
	char why[RDMA_WHY] = "";

	if (openPort(host, rdma, port, why))
		return fail(ginErrorSystem, "gdaki: %s", why);
	logWrite(logInfo, "rank %d: gdaki: port %s", host->rank, why);
	return ginSuccess;
}

/* What was seen at the last look, for ginNicQuery(). */
static struct {
	struct rdmaFound found[PORTS];
	int count;
	char why[RDMA_WHY]; /* there are none */
} seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lookAgain(void)
{
	const struct rdma *rdma = rdmaLoad(seen.why, RDMA_WHY);
	struct rdmaWanted wanted = {0};
	int count = rdma ? listPorts(rdma, &wanted, seen.found, seen.why) : 0;

	if (rdma && !count)
		snprintf(seen.why, RDMA_WHY, "libibverbs lists no device");
	seen.count = count > 0 ? count : 0;
}

static void fillNic(const struct rdmaFound *found, ginNicInfo_t *info)
{
	const char *names = paramText(paramNic);
	int isAllowed = portAllowed(names, found);

	info->usable = found->usable && isAllowed;
	info->port = found->port;
	snprintf(info->name, sizeof(info->name), "%s", found->device);
	if (isAllowed)
		snprintf(info->why, sizeof(info->why), "%s", found->why);
	else
		snprintf(info->why, sizeof(info->why), "GIN_NIC=%.250s leaves it out", names);
}

static ginResult_t nicLocked(int index, ginNicInfo_t *info)
{
	if (!index)
		lookAgain();
	info->count = seen.count;
	if (!seen.count)
		snprintf(info->why, sizeof(info->why), "%s", seen.why);
	else if (index >= seen.count)
		return fail(ginErrorInvalidArgument, "index is %d: must be 0 to %d", index,
			    seen.count - 1);
	else
		fillNic(&seen.found[index], info);
	return ginSuccess;
}

ginResult_t gdakiNic(int index, ginNicInfo_t *info)
{
	pthread_mutex_lock(&lock);
	ginResult_t result = nicLocked(index, info);
	pthread_mutex_unlock(&lock);
	return result;
}
