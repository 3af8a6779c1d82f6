/* SPDX-License-Identifier: BSD-3-Clause */
#include "near.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the link leads to, without "sysfs" in front; "" when there is none. */
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

/* Folders that both begin with; their own names at the ends may be in common too. */
static unsigned common(const char *a, const char *b)
{
	unsigned folders = 0;

	for (; *a && *b && *a == *b; a++, b++)
		folders += a[1] == '/' && b[1] == '/';
	return folders;
}

unsigned nearness(const char *sysfs, const char *nic, const char *gpu)
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
	/* "/devices" is common to all. */
	unsigned folders = common(at, gpuAt);
	return folders ? folders - 1 : 0;
}
