/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - finds the NIC port that a rank uses, and opens it */
#include "port.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/plugin.h"

/* The target of the symbolic link, relative to `sysfs`; "" if the link does not resolve. */
static void resolve(const char *sysfs, const char *link, char *path)
{
	char root[PATH_MAX];
	char whole[PATH_MAX];

	path[0] = '\0';
	if (!realpath(sysfs, root) || !realpath(link, whole))
		return;
	size_t length = strlen(root);
	if (!strncmp(whole, root, length))
		snprintf(path, PATH_MAX, "%s", whole + length);
}

/* How many leading folders the two paths share. A shared last component is not counted. */
static unsigned sharedFolders(const char *a, const char *b)
{
	unsigned folders = 0;

	for (; *a && *b && *a == *b; a++, b++)
		folders += a[1] == '/' && b[1] == '/';
	return folders;
}

unsigned pciSharedBridges(const char *sysfs, const char *nic, const char *gpu)
{
	char link[PATH_MAX], at[PATH_MAX], gpuAt[PATH_MAX], bus[32];
	size_t i = 0;

	for (; gpu[i] && i < sizeof(bus) - 1; i++)
		bus[i] = (char)tolower((unsigned char)gpu[i]);
	bus[i] = '\0';
	snprintf(link, sizeof(link), "%s/class/infiniband/%s/device", sysfs, nic);
	resolve(sysfs, link, at);
	snprintf(link, sizeof(link), "%s/bus/pci/devices/%s", sysfs, bus);
	resolve(sysfs, link, gpuAt);
	/* All paths begin with "/devices", which is no bridge. */
	unsigned folders = sharedFolders(at, gpuAt);
	return folders ? folders - 1 : 0;
}

/* One name of the list, of `length` bytes: "mlx5_0:1" or "mlx5". */
static int isNamed(const char *name, size_t length, int isWhole, const struct rdmaFound *found)
{
	size_t device = strcspn(name, ",:");

	if (!device || strncmp(name, found->device, device) ||
	    (isWhole && strlen(found->device) != device))
		return 0;
	return device == length || name[device] != ':' || atoi(name + device + 1) == found->port;
}

int portAllowedByNccl(const char *list, const struct rdmaFound *found)
{
	int isExcluding = *list == '^', isFound = 0;

	list += isExcluding;
	int isWhole = *list == '=';
	list += isWhole;
	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		isFound |= isNamed(list, length, isWhole, found);
	}
	return isFound != isExcluding;
}

static const char *nicsOfNccl(void)
{
	const char *list = getenv("NCCL_IB_HCA");

	return list ? list : "";
}

static int allowedByDefault(const struct rdmaFound *found)
{
	return !*nicsOfNccl() || portAllowedByNccl(nicsOfNccl(), found);
}

int portAllowed(const char *names, const struct rdmaFound *found)
{
	char copy[512], whole[80], *rest = NULL;

	if (!names[0])
		return allowedByDefault(found);
	snprintf(copy, sizeof(copy), "%s", names);
	snprintf(whole, sizeof(whole), "%s:%d", found->device, found->port);
	for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		if (!strcmp(name, found->device) || !strcmp(name, whole))
			return 1;
	return 0;
}

static unsigned closenessOf(const struct backendHost *host, const struct rdmaFound *found)
{
	const char *gpu = host->device->pciBusId;

	return gpu[0] ? pciSharedBridges("/sys", found->device, gpu) : 0;
}

/* The number of lower ranks on this host. */
static int localIndex(const struct backendHost *host)
{
	int index = 0;

	for (int r = 0; r < host->rank; r++)
		index += identitySameHost(&host->ranks[r], &host->ranks[host->rank]) != 0;
	return index;
}

/* Writes the reason of each allowed port into `why`, as far as it fits. Returns -1. */
static int explainNone(const char *names, const struct rdmaFound *found, int count, char *why)
{
	const char *allowed = names;
	size_t used = 0;

	if (!names[0])
		names = *nicsOfNccl() ? nicsOfNccl() : "this host";
	snprintf(why, RDMA_WHY, "%s%s", count ? "no usable port of " : "there is no RDMA device",
		 count ? names : "");
	if (!count)
		return -1;
	used = strlen(why);
	for (int i = 0; i < count && used < RDMA_WHY - 1; i++) {
		if (!portAllowed(allowed, &found[i]))
			continue;
		used += (size_t)snprintf(why + used, RDMA_WHY - used, "; %s: %s", found[i].device,
					 found[i].why);
	}
	return -1;
}

/* Returns the largest closeness of a usable port; `*ports`: how many ports have it. */
static unsigned closest(const struct backendHost *host, const char *names,
			const struct rdmaFound *found, int count, int *ports)
{
	unsigned most = 0;

	*ports = 0;
	for (int i = 0; i < count; i++) {
		if (!found[i].usable || !portAllowed(names, &found[i]))
			continue;
		unsigned close = closenessOf(host, &found[i]);
		*ports = close == most ? *ports + 1 : close > most ? 1 : *ports;
		most = close > most ? close : most;
	}
	return most;
}

static const struct rdmaRail only = {0, 1};

int portChoose(const struct backendHost *host, const char *names, const struct rdmaFound *found,
	       int count, char *why)
{
	return portChooseRail(host, names, found, count, only, why);
}

int portChooseRail(const struct backendHost *host, const char *names, const struct rdmaFound *found,
		   int count, struct rdmaRail rail, char *why)
{
	int alike;
	unsigned most = closest(host, names, found, count, &alike);

	if (!alike)
		return explainNone(names, found, count, why);
	int turn = (localIndex(host) * (int)rail.count + (int)rail.index) % alike, i = 0;
	while (!found[i].usable || !portAllowed(names, &found[i]) ||
	       closenessOf(host, &found[i]) != most || turn-- > 0)
		i++;
	return i;
}

#define PLUGIN "libgin-rdma.so"

const struct rdma *rdmaLoad(char *why, size_t room)
{
	static const struct plugin plugin = {PLUGIN, RDMA_SYMBOL, sizeof(struct rdma)};
	const void *calls = NULL;
	char reason[160];

	switch (pluginOpen(&plugin, &calls, reason, sizeof(reason))) {
	case pluginFound:
		return calls;
	case pluginMissing:
		snprintf(why, room, "%.80s has no " PLUGIN ": build libgin with libibverbs-dev",
			 reason);
		return NULL;
	case pluginBroken:
		snprintf(why, room, "%.90s; install libibverbs1, ibverbs-providers", reason);
		return NULL;
	default:
		snprintf(why, room, "%s", reason);
		return NULL;
	}
}

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

static int choosePort(const struct backendHost *host, const struct rdma *rdma, struct rdmaRail rail,
		      struct rdmaChoice *choice, char *why)
{
	struct rdmaFound found[PORTS];
	int count = listPorts(rdma, &choice->wanted, found, why);

	if (count < 0)
		return -1;
	int chosen = portChooseRail(host, paramText(paramNic), found, count, rail, why);
	if (chosen < 0)
		return -1;
	choice->found = found[chosen];
	choice->wanted.device = choice->found.device;
	choice->wanted.port = choice->found.port;
	return 0;
}

const struct rdma *rdmaPortFind(const struct backendHost *host, int isPlain,
				struct rdmaChoice *choice, char why[RDMA_WHY])
{
	const struct rdma *rdma = rdmaLoad(why, RDMA_WHY);

	choice->wanted = (struct rdmaWanted){.isPlain = isPlain};
	return rdma && !choosePort(host, rdma, only, choice, why) ? rdma : NULL;
}

const struct rdma *rdmaRailFind(const struct backendHost *host, struct rdmaRail rail,
				struct rdmaChoice *choice, char why[RDMA_WHY])
{
	const struct rdma *rdma = rdmaLoad(why, RDMA_WHY);

	choice->wanted = (struct rdmaWanted){.isPlain = 1};
	return rdma && !choosePort(host, rdma, rail, choice, why) ? rdma : NULL;
}

/* `why`: the reason of a failure; on success the port in words, for the log. */
static int openPort(const struct backendHost *host, const struct rdma **rdma,
		    struct rdmaPort **port, char *why)
{
	struct rdmaChoice choice;

	*rdma = rdmaPortFind(host, 0, &choice, why);
	if (!*rdma || (*rdma)->portOpen(&choice.wanted, port, why))
		return -1;
	snprintf(why, RDMA_WHY, "%s:%d: %.200s", choice.found.device, choice.found.port,
		 choice.found.why);
	return 0;
}

int rdmaProbe(const struct backendHost *host, struct rdmaAddress *address, char why[BACKEND_WHY])
{
	struct rdmaFeatures features;
	const struct rdma *rdma;
	struct rdmaPort *port;
	char reason[RDMA_WHY];

	if (openPort(host, &rdma, &port, reason)) {
		snprintf(why, BACKEND_WHY, "%.*s", BACKEND_WHY - 1, reason);
		return 0;
	}
	rdma->portDescribe(port, address, &features);
	rdma->portClose(port);
	why[0] = '\0';
	return 1;
}

static int isIpv4(const struct rdmaAddress *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(a->gid, mapped, sizeof(mapped));
}

/* Two limited members of a partition do not talk. */
static int sharesPartition(const struct rdmaAddress *a, const struct rdmaAddress *b)
{
	return !((a->partition ^ b->partition) & 0x7fff) && (a->partition | b->partition) & 0x8000;
}

/* What differs; NULL: nothing. A port that needs a global route header may reach other subnets. */
static const char *differenceOf(const struct rdmaAddress *a, const struct rdmaAddress *b)
{
	if (a->ethernet != b->ethernet)
		return "one port is on Ethernet and the other on InfiniBand: choose ports by "
		       "GIN_NIC";
	if (a->roceVersion != b->roceVersion)
		return "one port has a GID of RoCE v1 and the other of RoCE v2: choose by "
		       "GIN_NIC_GID";
	if (a->ethernet && isIpv4(a) != isIpv4(b))
		return "one port has a GID of IPv4 and the other of IPv6: give both an address of "
		       "one kind, or choose by GIN_NIC_GID";
	if (!a->ethernet && memcmp(a->gid, b->gid, 8) && !(a->grh && b->grh))
		return "the ports are in two InfiniBand subnets: choose ports by GIN_NIC";
	if (!a->ethernet && !sharesPartition(a, b))
		return "the ports are in two InfiniBand partitions, or both are limited members";
	return NULL;
}

int rdmaReaches(const struct rdmaAddress *a, const struct rdmaAddress *b, char why[BACKEND_WHY])
{
	const char *difference = differenceOf(a, b);

	snprintf(why, BACKEND_WHY, "%s", difference ? difference : "");
	return !difference;
}

ginResult_t rdmaPortOpen(const struct backendHost *host, const char *user, const struct rdma **rdma,
			 struct rdmaPort **port)
{
	char why[RDMA_WHY] = "";

	if (openPort(host, rdma, port, why))
		return fail(ginErrorSystem, "%s: %s", user, why);
	logWrite(logInfo, "%s: port %s", user, why);
	return ginSuccess;
}

enum { HOPS = 64, MOST_PRIORITY = 7 };

ginResult_t rdmaPathOf(int isEthernet, struct rdmaPath *path)
{
	*path = (struct rdmaPath){.serviceLevel = (uint8_t)paramNumber(paramNicSl),
				  .trafficClass = (uint8_t)paramNumber(paramNicTc),
				  .timeout = (uint8_t)paramNumber(paramNicTimeout),
				  .retries = (uint8_t)paramNumber(paramNicRetries),
				  .hopLimit = HOPS};
	if (!isEthernet || path->serviceLevel <= MOST_PRIORITY)
		return ginSuccess;
	return fail(ginErrorInvalidArgument, "GIN_NIC_SL=%u: must be 0 to %d on Ethernet",
		    path->serviceLevel, MOST_PRIORITY);
}

/* The ports that ginNicQuery() found when it was last called with index 0. */
static struct {
	struct rdmaFound found[PORTS];
	int count;
	char why[RDMA_WHY]; /* if `count` is 0: why there are no ports */
} seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void listAgain(void)
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
		snprintf(info->why, sizeof(info->why), "%s=%.250s leaves it out",
			 names[0] ? "GIN_NIC" : "NCCL_IB_HCA", names[0] ? names : nicsOfNccl());
}

static ginResult_t nicLocked(int index, ginNicInfo_t *info)
{
	if (!index)
		listAgain();
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

ginResult_t rdmaNic(int index, ginNicInfo_t *info)
{
	pthread_mutex_lock(&lock);
	ginResult_t result = nicLocked(index, info);
	pthread_mutex_unlock(&lock);
	return result;
}
