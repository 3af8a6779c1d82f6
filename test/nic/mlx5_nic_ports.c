/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_ports.c - libgin-rdma.so: which ports exist, and which are usable or why not
 *
 * The software device's profile gives the expected ports. EXPECT_PORT=words: the description of
 * mlx5_0, or the reason why it is not usable, has the words.
 */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <net/if.h>

#include "nic.h"

/* gid.c of this file, over tables of the test: the device's entries, and this host's interfaces. */
static struct ibv_gid_entry gidTable[2];
static struct ifaddrs *ownAddresses;

#define ibv_query_gid_table(context, entries, most, flags)                                         \
	((void)(context), memcpy(entries, gidTable, sizeof(gidTable)), (ssize_t)2)
#define getifaddrs(list) (*(list) = ownAddresses, 0)
#define freeifaddrs(list) ((void)(list))
#define if_indextoname nameOf

/* Others are of another network namespace. */
static char *nameOf(unsigned index, char *name)
{
	errno = ENXIO;
	return index == 1 ? strcpy(name, "eth1") : index == 10 ? strcpy(name, "eth10") : NULL;
}

#include "backends/rdma/nic/explain.c"
#include "backends/rdma/nic/gid.c"

enum { ROOM = 16, NO_GID = 7 };

static const struct rdmaWanted anyPort = {.device = "mlx5_0", .gid = -1};

static void listed(void)
{
	struct rdmaFound found[ROOM];
	const char *words = nicProfile("noatomics") ? "atomics"
			    : nicProfile("roce")    ? "RoCE v2, GID 3, MTU 1024"
						    : "InfiniBand, GID 0, MTU 4096";
	int count = nic->list(&anyPort, found, ROOM, nicWhy);

	EXPECT_EQUAL(count, atoi(getenv("MLX5DEV_DEVICES") ? getenv("MLX5DEV_DEVICES") : "1"));
	for (int i = 0; i < count; i++) {
		printf("ok: %s, port %d: %s\n", found[i].device, found[i].port, found[i].why);
		EXPECT_EQUAL(found[i].usable, !nicProfile("noatomics"));
		EXPECT_EQUAL(found[i].port, 1);
		EXPECT_HAS(found[i].why, words);
	}
	EXPECT_EQUAL(nic->list(&anyPort, found, 0, nicWhy), count);
}

static void refusals(void)
{
	struct rdmaWanted wanted = anyPort;
	struct rdmaPort *port;

	wanted.device = "mlx5_9";
	EXPECT_REFUSED(nic->portOpen(&wanted, &port, nicWhy), "there is no RDMA device mlx5_9");
	wanted = anyPort;
	wanted.port = 2;
	EXPECT_REFUSED(nic->portOpen(&wanted, &port, nicWhy), "port 2: ");
	wanted = anyPort;
	wanted.gid = NO_GID;
	EXPECT_REFUSED(nic->portOpen(&wanted, &port, nicWhy), "has no GID of index 7");
	wanted = anyPort;
	wanted.mtu = 255;
	EXPECT_REFUSED(nic->portOpen(&wanted, &port, nicWhy), "MTU of 255 bytes is too small");
}

static void chosen(int gid, uint32_t mtu, int version, int mtuNumber)
{
	struct rdmaWanted wanted = anyPort;
	struct rdmaFeatures features;
	struct rdmaAddress address;
	struct rdmaPort *port;

	wanted.gid = gid;
	wanted.mtu = mtu;
	EXPECT_NIC(nic->portOpen(&wanted, &port, nicWhy));
	nic->portDescribe(port, &address, &features);
	EXPECT_EQUAL(address.mtu, mtuNumber);
	EXPECT_EQUAL(features.roceVersion, version);
	EXPECT_EQUAL(address.logReads, 4);
	EXPECT_EQUAL(address.ethernet, version != 0);
	EXPECT(address.ethernet ? !address.lid : address.lid);
	EXPECT(address.atomics & rdmaAtomics8);
	EXPECT_EQUAL(features.maxDepth, RDMA_MAX_DEPTH);
	EXPECT_EQUAL(features.relaxedOrdering, !nicProfile("norelaxed"));
	if (gid >= 0)
		EXPECT_EQUAL(features.gid, gid);
	nic->portClose(port);
}

static void choices(void)
{
	if (!nicProfile("roce")) {
		chosen(-1, 0, 0, 5);
		chosen(0, 2047, 0, 3);
		chosen(0, 256, 0, 1);
		return;
	}
	chosen(-1, 0, 2, 3);
	chosen(1, 65536, 2, 3);
	chosen(0, 512, 1, 2);
}

/* Which of two entries is chosen; -1: none. eth1 has 10.0.0.1 by a label, eth10 10.0.0.10. */
static void gids(void)
{
	enum { v1 = IBV_GID_TYPE_ROCE_V1, v2 = IBV_GID_TYPE_ROCE_V2 };
	static const struct {
		struct {
			uint32_t type, interface;
			const char *gid;
		} entry[2];
		int chosen;
	} cases[] = {
		{{{v2, 1, "fe80::1"}, {v2, 1, "2001:db8::1"}}, 1},
		{{{v2, 1, "2001:db8::1"}, {v2, 1, "::ffff:10.0.0.1"}}, 1},
		{{{v2, 1, "::ffff:169.254.1.1"}, {v2, 1, "2001:db8::1"}}, 1},
		{{{v1, 1, "::ffff:10.0.0.1"}, {v2, 1, "fe80::1"}}, 1},
		{{{v2, 1, "::ffff:10.0.0.10"}, {v2, 1, "fe80::1"}}, 1},
		{{{v2, 10, "::ffff:10.0.0.10"}, {v2, 1, "2001:db8::1"}}, 0},
		{{{v2, 9, "fe80::1"}, {v2, 9, "::ffff:10.0.0.1"}}, -1},
	};
	struct sockaddr_in one = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a000001)}},
			   ten = {.sin_family = AF_INET, .sin_addr = {htonl(0x0a00000a)}};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct ifaddrs own[] = {{.ifa_name = "eth1:0", .ifa_addr = (struct sockaddr *)&one},
				{.ifa_name = "eth10", .ifa_addr = (struct sockaddr *)&ten},
				{.ifa_name = "eth1", .ifa_addr = (struct sockaddr *)&six}};

	inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr);
	own[0].ifa_next = &own[1];
	own[1].ifa_next = &own[2];
	ownAddresses = own;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdmaPort port = {.number = 1};
		for (uint32_t e = 0; e < 2; e++) {
			gidTable[e] =
				(struct ibv_gid_entry){.gid_index = e,
						       .port_num = 1,
						       .gid_type = cases[i].entry[e].type,
						       .ndev_ifindex = cases[i].entry[e].interface};
			inet_pton(AF_INET6, cases[i].entry[e].gid, gidTable[e].gid.raw);
		}
		int result = gidChoose(&port, -1, nicWhy);
		EXPECT_EQUAL(result < 0 ? -1 : (int)port.gid.index, cases[i].chosen);
	}
	EXPECT_HAS(nicWhy, "port 1 has GIDs of other network namespaces alone");
}

/* A sentence for an earlier request remains valid after the port is gone, and is given once. */
static void events(void)
{
	struct rdmaPort *port;
	char text[RDMA_WHY];
	int lost = 0;

	EXPECT_NIC(nic->portOpen(&anyPort, &port, nicWhy));
	EXPECT_EQUAL(nic->portEvent(port, text, &lost), 0);
	nicFault("portdown");
	EXPECT_EQUAL(nic->portEvent(port, text, &lost), 1);
	EXPECT_TEXT(text, "mlx5_0, port 1: the port is down");
	EXPECT_EQUAL(nic->portEvent(port, text, &lost), 0);
	nic->portClose(port);
	EXPECT_REFUSED(nic->portOpen(&anyPort, &port, nicWhy), "port 1 is down");
}

static void resources(void)
{
	struct rdmaPort *port, *second;

	EXPECT_NIC(nic->portOpen(&anyPort, &port, nicWhy));
	nicFault("no-pd=0");
	EXPECT_REFUSED(nic->portOpen(&anyPort, &second, nicWhy), "a protection domain: ");
	nic->portClose(port);
}

static void gone(void)
{
	struct rdmaPort *port, *second;
	char text[RDMA_WHY];
	int lost = 0;

	EXPECT_NIC(nic->portOpen(&anyPort, &port, nicWhy));
	nicFault("remove");
	while (nic->portEvent(port, text, &lost) == 1)
		printf("ok: %s\n", text);
	EXPECT_REFUSED(nic->portOpen(&anyPort, &second, nicWhy), "Input/output error");
	nic->portClose(port);
}

/* Without the software device: hardware, or none. */
static int unknown(void)
{
	struct rdmaFound found[ROOM];
	int count = nic->list(&anyPort, found, ROOM, nicWhy);

	for (int i = 0; i < count && i < ROOM; i++) {
		EXPECT(found[i].device[0] && found[i].why[0]);
		printf("%s, port %d: %s%s\n", found[i].device, found[i].port,
		       found[i].usable ? "" : "not usable: ", found[i].why);
	}
	if (count < 0)
		EXPECT(nicWhy[0]);
	printf("%d ports; %s\n", count, nicWhy);
	return 0;
}

static int describedBy(const char *words)
{
	struct rdmaFound found[ROOM];

	EXPECT(nic->list(&anyPort, found, ROOM, nicWhy) > 0);
	EXPECT_HAS(found[0].why, words);
	EXPECT_EQUAL(found[0].usable, strstr(found[0].why, ", MTU ") != NULL);
	return 0;
}

int main(void)
{
	const char *words = getenv("EXPECT_PORT");

	setvbuf(stdout, NULL, _IOLBF, 0);
	nicLoad();
	expectChild("GIDs", gids);
	if (words)
		return describedBy(words);
	if (!nicIsSoftware())
		return unknown();
	expectChild("listed", listed);
	if (nicProfile("noatomics"))
		return expectFailures != 0;
	expectChild("refusals", refusals);
	expectChild("choices", choices);
	expectChild("events", events);
	expectChild("resources", resources);
	expectChild("gone", gone);
	return expectFailures != 0;
}
