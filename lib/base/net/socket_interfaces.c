/* SPDX-License-Identifier: BSD-3-Clause */
/* socket_interfaces.c - the addresses of this host that other hosts may reach, the likely first */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "socket.h"

/* The sum orders addresses; a larger one is worse. */
enum flaw { flawNotDefault = 1, flawBridge = 2, flawNoCarrier = 4, flawDeprecated = 8 };

static int isUsable(const struct ifaddrs *i, struct netAddress *address)
{
	int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	if (!(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
		return 0;
	socketAddress(i->ifa_addr, address);
	return !socketIsLinkLocal(address);
}

/*
 * The address from which the kernel would send to a host far away: connecting a socket of UDP sends
 * nothing. Returns 0 if there is no route.
 */
static int sourceOf(const struct sockaddr *far, socklen_t bytes, struct netAddress *out)
{
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);
	int fd = fileAboveStandard(socket(far->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	if (fd < 0)
		return 0;
	int found = !connect(fd, far, bytes) && !getsockname(fd, (struct sockaddr *)&own, &length);
	close(fd);
	if (found)
		socketAddress((const struct sockaddr *)&own, out);
	return found;
}

/* Addresses that documentation uses, and no network has: 192.0.2.1, 2001:db8::1. */
static int sourceToFar(int family, struct netAddress *out)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(0xc0000201)}};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
					.sin6_addr = {{{0x20, 0x01, 0x0d, 0xb8, [15] = 1}}}};

	return family == AF_INET ? sourceOf((const struct sockaddr *)&v4, sizeof(v4), out)
				 : sourceOf((const struct sockaddr *)&v6, sizeof(v6), out);
}

/* Asks the kernel, because /sys may show another network namespace. */
static int isBridge(int fd, const char *name)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_data = (char *)&driver};

	memcpy(request.ifr_name, name, strnlen(name, IF_NAMESIZE - 1));
	return fd >= 0 && !ioctl(fd, SIOCETHTOOL, &request) && !strcmp(driver.driver, "bridge");
}

#define DEPRECATED 0x20
#define TENTATIVE 0x40

/* Of IPv6: deprecated, or not checked for doubles yet. `list`: /proc/net/if_inet6, or NULL. */
static int isDeprecated(FILE *list, const struct netAddress *address)
{
	char text[33], line[128], wanted[33];
	unsigned flags;

	if (!list || address->family != AF_INET6)
		return 0;
	for (int i = 0; i < 16; i++)
		snprintf(wanted + 2 * i, 3, "%02x", address->bytes[i]);
	rewind(list);
	while (fgets(line, sizeof(line), list))
		if (sscanf(line, "%32s %*x %*x %*x %x", text, &flags) == 2 && !strcmp(text, wanted))
			return (flags & (DEPRECATED | TENTATIVE)) != 0;
	return 0;
}

/* What the search for flaws needs. */
struct flawSearch {
	int socket;		       /* -1: none */
	FILE *addresses;	       /* NULL: none */
	char defaults[2][IF_NAMESIZE]; /* interfaces to the default gateways of IPv4 and IPv6 */
};

static void findDefault(const struct ifaddrs *list, int family, char *name)
{
	struct netAddress source, address;

	if (!sourceToFar(family, &source))
		return;
	for (; list; list = list->ifa_next)
		if (isUsable(list, &address) && !memcmp(&address, &source, sizeof(source)))
			snprintf(name, IF_NAMESIZE, "%s", list->ifa_name);
}

static unsigned flawsOf(const struct flawSearch *search, const struct ifaddrs *i,
			const struct netAddress *address)
{
	unsigned flaws = 0;

	if (isDeprecated(search->addresses, address))
		flaws |= flawDeprecated;
	if (!(i->ifa_flags & IFF_RUNNING))
		flaws |= flawNoCarrier;
	if (!strcmp(i->ifa_name, search->defaults[0]) || !strcmp(i->ifa_name, search->defaults[1]))
		return flaws;
	return flaws | flawNotDefault | (isBridge(search->socket, i->ifa_name) ? flawBridge : 0);
}

/* Among equals, the kernel's order stays. */
static void insert(struct netInterface *list, int count, const struct netInterface *one)
{
	int at = count;

	for (; at && list[at - 1].flaws > one->flaws; at--)
		list[at] = list[at - 1];
	list[at] = *one;
}

static int sortInto(const struct ifaddrs *list, struct netInterface *out)
{
	struct flawSearch search = {
		.socket = fileAboveStandard(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
		.addresses = fopen("/proc/thread-self/net/if_inet6", "re")};
	int count = 0;

	findDefault(list, AF_INET, search.defaults[0]);
	findDefault(list, AF_INET6, search.defaults[1]);
	for (; list; list = list->ifa_next) {
		struct netInterface one = {.flaws = 0};
		if (!isUsable(list, &one.address))
			continue;
		snprintf(one.name, sizeof(one.name), "%s", list->ifa_name);
		one.flaws = flawsOf(&search, list, &one.address);
		insert(out, count++, &one);
	}
	if (search.addresses)
		fclose(search.addresses);
	if (search.socket >= 0)
		close(search.socket);
	return count;
}

int socketInterfaces(struct netInterface **out)
{
	struct ifaddrs *list;
	size_t room = 1;

	if (getifaddrs(&list))
		return -1;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		room++;
	struct netInterface *found = calloc(room, sizeof(*found));
	int count = found ? sortInto(list, found) : -1;
	freeifaddrs(list);
	if (found)
		*out = found;
	else
		errno = ENOMEM;
	return count;
}

unsigned socketAddresses(const char *ifname, struct netAddress *out, unsigned most)
{
	struct netInterface *list = NULL;
	int all = socketInterfaces(&list);
	unsigned count = 0;

	for (int i = 0; i < all && count < most; i++)
		if (!*ifname || !strcmp(ifname, list[i].name))
			out[count++] = list[i].address;
	free(list);
	return count;
}
