/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.c - what a rank tells of itself */
#include "identity.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "error.h"
#include "hostid.h"
#include "param.h"
#include "random.h"

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

	*me = (struct identity){0};
	if (randomBytes(me->secret, sizeof(me->secret)) || uname(&name))
		return fail(ginErrorSystem, "no random bytes or no host name: %m");
	snprintf(me->host, sizeof(me->host), "%.63s", name.nodename);
	me->hostId = hostId();
	processId(me->processId);
	me->addresses = (uint16_t)socketAddresses(paramText(paramSocketIfname), me->address,
						  IDENTITY_ADDRESSES);
	if (*paramText(paramSocketIfname) && !me->addresses)
		return fail(ginErrorInvalidArgument,
			    "GIN_SOCKET_IFNAME=%s: no such interface that is up and has an address",
			    paramText(paramSocketIfname));
	return ginSuccess;
}
