/* SPDX-License-Identifier: BSD-3-Clause */
#include "choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "near.h"

int portAllowed(const char *names, const struct rdmaFound *found)
{
	char copy[512], whole[80], *rest = NULL;

	if (!names[0])
		return 1;
	snprintf(copy, sizeof(copy), "%s", names);
	snprintf(whole, sizeof(whole), "%s:%d", found->device, found->port);
	for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
		if (!strcmp(name, found->device) || !strcmp(name, whole))
			return 1;
	return 0;
}

static unsigned nearnessOf(const struct backendHost *host, const struct rdmaFound *found)
{
	const char *gpu = host->device->pciBusId;

	return gpu[0] ? nearness("/sys", found->device, gpu) : 0;
}

/* Which of its host's ranks this one is. */
static int localIndex(const struct backendHost *host)
{
	int index = 0;

	for (int r = 0; r < host->rank; r++)
		index += identitySameHost(&host->ranks[r], &host->ranks[host->rank]) != 0;
	return index;
}

/* Reasons of the ports that may be used, one after the other, as far as there is room. */
static int sayNone(const char *names, const struct rdmaFound *found, int count, char *why)
{
	size_t used = 0;

	snprintf(why, RDMA_WHY, "%s%s", count ? "no usable port of " : "there is no mlx5 device",
		 !count	    ? ""
		 : names[0] ? names
			    : "this host");
	if (!count)
		return -1;
	used = strlen(why);
	for (int i = 0; i < count && used < RDMA_WHY - 1; i++) {
		if (!portAllowed(names, &found[i]))
			continue;
		used += (size_t)snprintf(why + used, RDMA_WHY - used, "; %s: %s", found[i].device,
					 found[i].why);
	}
	return -1;
}

static unsigned nearest(const struct backendHost *host, const char *names,
			const struct rdmaFound *found, int count, int *how)
{
	unsigned most = 0;

	*how = 0;
	for (int i = 0; i < count; i++) {
		if (!found[i].usable || !portAllowed(names, &found[i]))
			continue;
		unsigned near = nearnessOf(host, &found[i]);
		*how = near == most ? *how + 1 : near > most ? 1 : *how;
		most = near > most ? near : most;
	}
	return most;
}

int portChoose(const struct backendHost *host, const char *names, const struct rdmaFound *found,
	       int count, char *why)
{
	int alike;
	unsigned most = nearest(host, names, found, count, &alike);

	if (!alike)
		return sayNone(names, found, count, why);
	int turn = localIndex(host) % alike, i = 0;
	while (!found[i].usable || !portAllowed(names, &found[i]) ||
	       nearnessOf(host, &found[i]) != most || turn-- > 0)
		i++;
	return i;
}
