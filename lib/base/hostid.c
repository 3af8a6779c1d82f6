/* SPDX-License-Identifier: BSD-3-Clause */
/* hostid.c - what tells this host from others */
#include "hostid.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "param.h"
#include "siphash.h"

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
uint64_t hostId(void)
{
	static const uint8_t key[SIPHASH_KEY_BYTES] = "libgin host";
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
