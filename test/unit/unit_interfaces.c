/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_interfaces.c - the order of this host's addresses: in a network namespace of its own, with
 * bridges of containers, an interface without carrier, a default route and a deprecated address
 */
#include "lib/base/net/socket.h"

#include <arpa/inet.h>
#include <sched.h>

#include "backends/proxy/network/choice/interface.h"
#include "expect.h"

static void ip(const char *words)
{
	char command[512];

	snprintf(command, sizeof(command), "ip %s", words);
	expectThat(!system(command), __FILE__, __LINE__, "%s", command);
}

/* Interfaces in the order of the kernel, the worst first. */
static void makeHost(void)
{
	char words[128];

	for (int i = 0; i < 12; i++) {
		snprintf(words, sizeof(words), "link add br%d up type bridge", i);
		ip(words);
		snprintf(words, sizeof(words), "addr add 172.18.%d.1/24 dev br%d", i, i);
		ip(words);
	}
	ip("link add plain type veth peer name end1 && ip link set end1 up");
	ip("addr add 10.1.0.1/24 dev plain && ip link set plain up");
	ip("link add gate type veth peer name end2 && ip link set end2 up");
	ip("addr add 10.2.0.1/24 dev gate && ip link set gate up");
	ip("link add loose type veth peer name end3");
	ip("addr add 10.3.0.1/24 dev loose && ip link set loose up");
	/* The kernel notes a carrier, or that there is none, up to a second later. */
	while (system(
		"ip -o link | awk '/ (plain|gate)[:@].* state UP / {up++} /loose.*NO-CARRIER/ "
		"{down++} END {exit up != 2 || down != 1}'"))
		usleep(20000);
}

static int at(const struct netInterface *list, int count, const char *address)
{
	char text[INET6_ADDRSTRLEN];

	for (int i = 0; i < count; i++)
		if (!strcmp(inet_ntop(list[i].address.family, list[i].address.bytes, text,
				      sizeof(text)),
			    address))
			return i;
	return -1;
}

/* Returns how many addresses there are. */
static int expectOrder(const char *const *addresses, int count)
{
	struct netInterface *list = NULL;
	int all = socketInterfaces(&list);

	for (int i = 0; i < count; i++)
		expectThat(at(list, all, addresses[i]) == i, __FILE__, __LINE__,
			   "%s is number %d, not %d", addresses[i], at(list, all, addresses[i]), i);
	free(list);
	return all;
}

/* Among the last `few`. */
static void expectLast(const char *address, int few)
{
	struct netInterface *list = NULL;
	int all = socketInterfaces(&list);

	EXPECT(at(list, all, address) >= all - few);
	free(list);
}

static void inOrder(void)
{
	static const char *const before[] = {"10.1.0.1", "10.2.0.1", "172.18.0.1"},
				 *const after[] = {"10.2.0.1", "10.1.0.1", "172.18.0.1"};
	struct netAddress few[2];

	makeHost();
	EXPECT_EQUAL(expectOrder(before, 3), 15);
	expectLast("10.3.0.1", 1);
	ip("route add default via 10.2.0.254");
	EXPECT_EQUAL(expectOrder(after, 3), 15);
	EXPECT_EQUAL(socketAddresses("", few, 2), 2);
	EXPECT_EQUAL(few[0].bytes[1], 2);
	EXPECT_EQUAL(socketAddresses("loose", few, 2), 1);
	EXPECT_EQUAL(few[0].bytes[1], 3);
}

/* A bridge that leads to the default gateway is this host's network. */
static void bridgedHost(void)
{
	static const char *const order[] = {"172.18.11.1", "10.1.0.1"};

	makeHost();
	ip("route add default via 172.18.11.254");
	expectOrder(order, 2);
}

static void deprecated(void)
{
	static const char *const order[] = {"10.2.0.1", "fd00:1::2", "10.1.0.1"};
	makeHost();
	if (access("/proc/net/if_inet6", R_OK))
		return; /* the kernel has no IPv6 */
	/* The kernel checks fd00:1::3 for doubles for a hundred seconds. */
	expectThat(!system("echo 100 >/proc/sys/net/ipv6/conf/gate/dad_transmits"), __FILE__,
		   __LINE__, "dad_transmits");
	ip("-6 addr add fd00:1::3/64 dev gate");
	ip("-6 addr add fd00:1::1/64 dev gate nodad preferred_lft 0");
	ip("-6 addr add fd00:1::2/64 dev gate nodad");
	ip("-6 route add default via fd00:1::fe");
	EXPECT_EQUAL(expectOrder(order, 3), 18);
	expectLast("fd00:1::1", 2);
	expectLast("fd00:1::3", 2);
}

/* As two hosts of the first kind: the other one has reached this one by the interface `plain`. */
static void proven(void)
{
	struct identity ranks[3] = {{.hostId = 1}, {.hostId = 2}, {.hostId = 2}};
	const struct backendHost host = {.rank = 1, .nRanks = 3, .ranks = ranks};
	const struct netAddress plain = {.family = AF_INET, .bytes = {10, 1, 0, 1}};
	struct networkInterface found;
	char why[BACKEND_WHY] = "";

	makeHost();
	ip("route add default via 10.2.0.254");
	unsetenv("NCCL_SOCKET_IFNAME");
	EXPECT(networkInterfaceFind(&host, &found, why));
	EXPECT_TEXT(found.name, "gate");
	for (int i = 0; i < IDENTITY_ADDRESSES + 3; i++) /* more than there is room for */
		identityProve(&ranks[2], &(struct netAddress){AF_INET, {10, 9, 0, (uint8_t)i}});
	identityProve(&ranks[2], &plain);
	EXPECT_EQUAL(ranks[2].addresses, IDENTITY_ADDRESSES);
	EXPECT(networkInterfaceFind(&host, &found, why));
	EXPECT_TEXT(found.name, "plain");
	EXPECT_TEXT(found.address, "10.1.0.1");
	setenv("NCCL_SOCKET_IFNAME", "^plain", 1);
	EXPECT(networkInterfaceFind(&host, &found, why));
	EXPECT_TEXT(found.name, "gate");
}

int main(void)
{
	if (unshare(CLONE_NEWNET) || system("ip link add br0 type bridge && ip link del br0")) {
		printf("no network namespace, or no bridges in it: only root can make them, by "
		       "ip\n");
		return 77;
	}
	static void (*const tests[])(void) = {inOrder, bridgedHost, deprecated, proven};
	static const char *const names[] = {"the order of addresses", "a host on a bridge",
					    "deprecated addresses", "an address that is proven"};
	for (int i = 0; i < 4; i++) {
		EXPECT(!unshare(CLONE_NEWNET));
		expectChild(names[i], tests[i]);
	}
	return expectFailures != 0;
}
