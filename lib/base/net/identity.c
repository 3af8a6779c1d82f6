/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.c - a rank's description of itself, and which host it is on */
#include "identity.h"

#include <ctype.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/param.h"
#include "lib/base/random.h"

/* Differs between running kernels; "" without /proc. */
static void readBootId(char *out, size_t bytes)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	out[0] = '\0';
	if (!file)
		return;
	if (!fgets(out, (int)bytes, file))
		out[0] = '\0';
	fclose(file);
}

/*
 * Launchers number hosts in different ways, some of them wrong. GIN_HOSTID decides when it is set,
 * otherwise the kernel's boot id, the host name and the network namespace.
 */
uint64_t identityHostId(void)
{
	static const uint8_t key[AUTH_KEY_BYTES] = "libgin host";
	char text[256], boot[64];
	struct utsname name = {0};
	struct stat net = {0};

	if (*paramText(paramHostId))
		return siphash(key, paramText(paramHostId), strlen(paramText(paramHostId)));
	readBootId(boot, sizeof(boot));
	uname(&name);
	stat("/proc/self/ns/net", &net);
	int length = snprintf(text, sizeof(text), "%s %s %llu", boot, name.nodename,
			      (unsigned long long)net.st_ino);
	return siphash(key, text, (size_t)length);
}

static uint64_t cookie;
static pthread_once_t cookieOnce = PTHREAD_ONCE_INIT;

static void makeCookie(void)
{
	if (randomBytes(&cookie, sizeof(cookie)))
		cookie = 0; /* the pid alone then distinguishes the processes of a host */
}

/*
 * Two containers may use one pid, and fork() copies a cookie: only both together identify a
 * process.
 */
static void processId(uint64_t out[2])
{
	pthread_once(&cookieOnce, makeCookie);
	out[0] = cookie;
	out[1] = (uint64_t)getpid();
}

static int isLoopback(const char *ifname)
{
	struct ifaddrs *list;
	int found = 0;

	if (getifaddrs(&list))
		return 0;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		found |= (i->ifa_flags & IFF_LOOPBACK) && !strcmp(i->ifa_name, ifname);
	freeifaddrs(list);
	return found;
}

ginResult_t identityMake(struct identity *me)
{
	struct utsname name;

	*me = (struct identity){0};
	if (randomBytes(me->nonce, sizeof(me->nonce)) || uname(&name))
		return fail(ginErrorSystem, "no random bytes or no host name: %m");
	snprintf(me->host, sizeof(me->host), "%.63s", name.nodename);
	me->hostId = identityHostId();
	processId(me->processId);
	me->addresses = (uint16_t)socketAddresses(paramText(paramSocketIfname), me->address,
						  IDENTITY_ADDRESSES);
	if (!me->addresses && isLoopback(paramText(paramSocketIfname)))
		return fail(ginErrorInvalidArgument,
			    "GIN_SOCKET_IFNAME=%s is a loopback interface, which no other host "
			    "reaches: unset it; ranks of one host use loopback in any case",
			    paramText(paramSocketIfname));
	if (*paramText(paramSocketIfname) && !me->addresses)
		return fail(ginErrorInvalidArgument,
			    "GIN_SOCKET_IFNAME=%s: no such interface that is up and has an address",
			    paramText(paramSocketIfname));
	return ginSuccess;
}

void identityProve(struct identity *me, const struct netAddress *address)
{
	unsigned at = 0;

	while (at < me->addresses && memcmp(&me->address[at], address, sizeof(*address)))
		at++;
	if (at == IDENTITY_ADDRESSES)
		at--;
	else if (at == me->addresses)
		me->addresses++;
	memmove(&me->address[1], &me->address[0], at * sizeof(me->address[0]));
	me->address[0] = *address;
	me->proven = 1;
}

void identityBound(struct identity *received)
{
	received->host[sizeof(received->host) - 1] = '\0';
	for (char *c = received->host; *c; c++) /* it goes to log lines */
		if (!isprint((unsigned char)*c))
			*c = '?';
	if (received->addresses > IDENTITY_ADDRESSES)
		received->addresses = IDENTITY_ADDRESSES;
}

struct rankHost {
	uint64_t hostId;
	uint32_t rank;
};

static int compareHosts(const void *a, const void *b)
{
	const struct rankHost *x = a, *y = b;

	if (x->hostId != y->hostId)
		return x->hostId < y->hostId ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

ginResult_t identityCount(const struct identity *ranks, int n, uint32_t *index)
{
	struct rankHost *sorted = calloc((size_t)n, sizeof(*sorted));

	if (!sorted)
		return fail(ginErrorSystem, "no memory");
	for (int r = 0; r < n; r++)
		sorted[r] = (struct rankHost){ranks[r].hostId, (uint32_t)r};
	qsort(sorted, (size_t)n, sizeof(*sorted), compareHosts);
	for (int i = 0; i < n; i++) {
		int follows = i && sorted[i].hostId == sorted[i - 1].hostId;
		index[sorted[i].rank] = follows ? index[sorted[i - 1].rank] + 1 : 0;
	}
	free(sorted);
	return ginSuccess;
}
