/* SPDX-License-Identifier: BSD-3-Clause */
/* interface.c - the network interface of this host that the proxy's network uses */
#include "interface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int networkInterfaceAllowed(const char *list, const char *name)
{
	int isExcluding = *list == '^', found = 0;

	list += isExcluding;
	int isWhole = *list == '=';
	list += isWhole;
	for (size_t length; *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		found |= length && !strncmp(list, name, length) &&
			 (!isWhole || strlen(name) == length);
	}
	return found != isExcluding;
}

/* Which interfaces of this host may be used. */
struct interfaceRule {
	const char *variable; /* that has `value`; NULL: any interface */
	const char *value;
	int isList; /* as of NCCL_SOCKET_IFNAME; 0: the interface's name */
};

static struct interfaceRule readRule(void)
{
	const char *list = getenv("NCCL_SOCKET_IFNAME");

	if (*paramText(paramOfiInterface))
		return (struct interfaceRule){"GIN_OFI_INTERFACE", paramText(paramOfiInterface), 0};
	if (list && *list)
		return (struct interfaceRule){"NCCL_SOCKET_IFNAME", list, 1};
	if (*paramText(paramSocketIfname))
		return (struct interfaceRule){"GIN_SOCKET_IFNAME", paramText(paramSocketIfname), 0};
	return (struct interfaceRule){NULL, "", 0};
}

static int allows(const struct interfaceRule *rule, const char *name)
{
	if (!rule->variable)
		return 1;
	return rule->isList ? networkInterfaceAllowed(rule->value, name)
			    : !strcmp(rule->value, name);
}

static int hasAddress(const struct identity *of, const struct netAddress *address)
{
	for (unsigned a = 0; a < of->addresses; a++)
		if (!memcmp(&of->address[a], address, sizeof(*address)))
			return 1;
	return 0;
}

/* A bridge of containers has the address of another host's bridge, and leads to no other host. */
static int isOwn(const struct backendHost *host, const struct netAddress *address)
{
	for (int r = 0; r < host->nRanks; r++)
		if (!identitySameHost(&host->ranks[r], &host->ranks[host->rank]) &&
		    hasAddress(&host->ranks[r], address))
			return 0;
	return 1;
}

/* Fills in the interface if the rule allows it, and no other host has its address. */
static int takeIfOwn(const struct backendHost *host, const struct interfaceRule *rule,
		     const struct netInterface *one, struct networkInterface *out)
{
	if (!allows(rule, one->name) || !isOwn(host, &one->address))
		return 0;
	snprintf(out->name, sizeof(out->name), "%s", one->name);
	inet_ntop(one->address.family, one->address.bytes, out->address, sizeof(out->address));
	return 1;
}

/*
 * The address by which a rank of this host has reached another host; NULL: none has. It is equal
 * for all ranks of this host.
 */
static const struct netAddress *provenAddress(const struct backendHost *host)
{
	for (int r = 0; r < host->nRanks; r++)
		if (host->ranks[r].proven &&
		    identitySameHost(&host->ranks[r], &host->ranks[host->rank]))
			return &host->ranks[r].address[0];
	return NULL;
}

/* Returns 1 if an interface of the list fits the rule: the proven one, or the first. */
static int takeAllowed(const struct backendHost *host, const struct interfaceRule *rule,
		       const struct netInterface *list, int count, struct networkInterface *out)
{
	const struct netAddress *proven = provenAddress(host);

	for (int i = 0; proven && i < count; i++)
		if (!memcmp(&list[i].address, proven, sizeof(*proven)) &&
		    takeIfOwn(host, rule, &list[i], out))
			return 1;
	for (int i = 0; i < count; i++)
		if (takeIfOwn(host, rule, &list[i], out))
			return 1;
	return 0;
}

static int isAlone(const struct backendHost *host)
{
	for (int r = 0; r < host->nRanks; r++)
		if (!identitySameHost(&host->ranks[r], &host->ranks[host->rank]))
			return 0;
	return 1;
}

static void loopback(struct networkInterface *out)
{
	*out = (struct networkInterface){"lo", "127.0.0.1"};
}

int networkInterfaceFind(const struct backendHost *host, struct networkInterface *out, char *why)
{
	const struct interfaceRule rule = readRule();
	int isNamed = *paramText(paramOfiInterface) != 0;

	*out = (struct networkInterface){"", ""};
	if (isAlone(host) && !isNamed) {
		loopback(out);
		return 1;
	}
	struct netInterface *list = NULL;
	int count = socketInterfaces(&list);
	if (count < 0) {
		snprintf(why, BACKEND_WHY, "cannot list the network interfaces: %m");
		return 0;
	}
	int isTaken = takeAllowed(host, &rule, list, count, out);
	free(list);
	if (isTaken)
		return 1;
	if (isNamed) { /* a NIC, which the plug-in has to find */
		snprintf(out->name, sizeof(out->name), "%s", rule.value);
		return 1;
	}
	if (rule.isList) {
		snprintf(why, BACKEND_WHY,
			 "NCCL_SOCKET_IFNAME=%.40s allows no interface that is up and has an "
			 "address: set GIN_OFI_INTERFACE",
			 rule.value);
		return 0;
	}
	loopback(out); /* hosts by GIN_HOSTID, on one machine */
	return 1;
}
