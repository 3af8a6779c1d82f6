/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.c - what a rank tells of itself */
#include "identity.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "error.h"
#include "param.h"
#include "random.h"

/* What tells this kernel from all others; "" where there is no /proc. */
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
 * Launchers number hosts differently or wrongly, so that the kernel is asked: boot id, host name
 * and network namespace, or GIN_HOSTID in their place.
 */
static uint64_t hostId(const char *host)
{
	static const uint8_t key[SIPHASH_KEY_BYTES] = "libgin host";
	char text[256], boot[64];
	struct stat net = {0};

	if (*paramText(paramHostId))
		return siphash(key, paramText(paramHostId), strlen(paramText(paramHostId)));
	readBootId(boot, sizeof(boot));
	stat("/proc/self/ns/net", &net);
	int length = snprintf(text, sizeof(text), "%s %s %llu", boot, host,
			      (unsigned long long)net.st_ino);
	return siphash(key, text, (size_t)length);
}

static uint64_t cookie;
static pthread_once_t cookieOnce = PTHREAD_ONCE_INIT;

static void makeCookie(void)
{
	if (randomBytes(&cookie, sizeof(cookie)))
		cookie = 0; /* then the pid alone tells processes of one host apart */
}

/* A pid alone means little between containers; a cookie alone is inherited by fork(). */
static void processId(uint64_t out[2])
{
	pthread_once(&cookieOnce, makeCookie);
	out[0] = cookie;
	out[1] = (uint64_t)getpid();
}

ginResult_t identityMake(struct identity *me)
{
	struct utsname name;

	*me = (struct identity){.magic = IDENTITY_MAGIC};
	if (randomBytes(me->secret, sizeof(me->secret)) || uname(&name))
		return fail(ginErrorSystem, "no random bytes or no host name: %m");
	snprintf(me->host, sizeof(me->host), "%.63s", name.nodename);
	me->hostId = hostId(name.nodename);
	processId(me->processId);
	me->addresses = (uint16_t)socketAddresses(paramText(paramSocketIfname), me->address,
						  IDENTITY_ADDRESSES);
	if (*paramText(paramSocketIfname) && !me->addresses)
		return fail(ginErrorInvalidArgument,
			    "GIN_SOCKET_IFNAME=%s: no such interface that is up and has an address",
			    paramText(paramSocketIfname));
	return ginSuccess;
}
