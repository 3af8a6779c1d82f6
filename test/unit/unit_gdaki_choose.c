/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_gdaki_choose.c - which port a rank uses, how near NICs are to GPUs, and the ports that the
 * proxy uses together
 */
/* LINK: -Wl,--wrap=networkPlugin,--wrap=rdmaRailFind */
#include "backends/proxy/network/choice/rails.h"
#include "backends/rdma/port.h"
#include "pinning.h"

#include <sys/stat.h>

enum { RANKS = 6 };

static struct identity ranks[RANKS]; /* three on one host, three on another */
static struct backendHost host = {.nRanks = RANKS, .ranks = ranks, .device = &hostThreads};

static const struct rdmaFound ports[] = {
	{.device = "mlx5_0", .port = 1, .usable = 1, .why = "InfiniBand"},
	{.device = "mlx5_1", .port = 1, .usable = 0, .why = "port 1 is down"},
	{.device = "mlx5_2", .port = 1, .usable = 1, .why = "InfiniBand"},
	{.device = "mlx5_2", .port = 2, .usable = 1, .why = "InfiniBand"},
	{.device = "qedr0", .port = 1, .usable = 0, .why = "qedr0 is no mlx5 device"},
};

static int choose(int rank, const char *names, int count, char *why)
{
	host.rank = rank;
	return portChoose(&host, names, ports, count, why);
}

static void chosen(void)
{
	static const int first[] = {0, 2, 3, 0, 2, 3}, two[] = {2, 3, 2, 2, 3, 2};
	char why[RDMA_WHY];

	for (int r = 0; r < RANKS; r++)
		ranks[r].hostId = 7 + (uint64_t)(r >= RANKS / 2);
	for (int r = 0; r < RANKS; r++) {
		EXPECT_EQUAL(choose(r, "", 5, why), first[r]);
		EXPECT_EQUAL(choose(r, "mlx5_2", 5, why), two[r]);
		EXPECT_EQUAL(choose(r, "mlx5_1,mlx5_2:2", 5, why), 3);
		EXPECT_EQUAL(choose(r, "", 1, why), 0);
	}
	printf("ok: in turn\n");
}

/* Three usable ports: the rails of a rank differ, and follow the rails of the preceding rank. */
static void rails(void)
{
	static const int expected[][2] = {{0, 2}, {3, 0}, {2, 3}};
	char why[RDMA_WHY];

	for (int r = 0; r < 3; r++)
		for (unsigned i = 0; i < 2; i++) {
			host.rank = r;
			EXPECT_EQUAL(
				portChooseRail(&host, "", ports, 5, (struct rdmaRail){i, 2}, why),
				expected[r][i]);
		}
	host.rank = 0;
	EXPECT_EQUAL(portChooseRail(&host, "mlx5_0", ports, 5, (struct rdmaRail){1, 2}, why), 0);
	printf("ok: rails\n");
}

static void none(void)
{
	char why[RDMA_WHY];

	EXPECT_EQUAL(choose(0, "", 0, why), -1);
	EXPECT_TEXT(why, "there is no RDMA device");
	EXPECT_EQUAL(choose(0, "mlx5_1", 5, why), -1);
	EXPECT_TEXT(why, "no usable port of mlx5_1; mlx5_1: port 1 is down");
	EXPECT_EQUAL(choose(0, "mlx5_1,qedr0", 5, why), -1);
	EXPECT_TEXT(why, "no usable port of mlx5_1,qedr0; mlx5_1: port 1 is down; qedr0: qedr0 is "
			 "no mlx5 device");
	EXPECT_EQUAL(choose(0, "mlx5_2:3", 5, why), -1);
	EXPECT_TEXT(why, "no usable port of mlx5_2:3");
	printf("ok: none\n");
}

/* As NCCL's documentation of NCCL_IB_HCA says. */
static void byNccl(void)
{
	static const struct {
		const char *list;
		int allowed[5];
	} cases[] = {
		{"mlx5", {1, 1, 1, 1, 0}},
		{"mlx5_2:2", {0, 0, 0, 1, 0}},
		{"mlx5_0,qedr", {1, 0, 0, 0, 1}},
		{"=mlx5", {0, 0, 0, 0, 0}},
		{"=mlx5_0,mlx5_2:1", {1, 0, 1, 0, 0}},
		{"^mlx5_2", {1, 1, 0, 0, 1}},
		{"^=mlx5_0:1", {0, 1, 1, 1, 1}},
		{"^=mlx5", {1, 1, 1, 1, 1}},
	};
	char why[RDMA_WHY];

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
		for (int i = 0; i < 5; i++)
			expectThat(portAllowedByNccl(cases[c].list, &ports[i]) ==
					   cases[c].allowed[i],
				   __FILE__, __LINE__, "%s and %s:%d", cases[c].list,
				   ports[i].device, ports[i].port);
	setenv("NCCL_IB_HCA", "mlx5_2", 1);
	EXPECT_EQUAL(choose(0, "", 5, why), 2);
	EXPECT_EQUAL(choose(0, "mlx5_0", 5, why), 0);
	setenv("NCCL_IB_HCA", "=mlx5_1", 1);
	EXPECT_EQUAL(choose(0, "", 5, why), -1);
	EXPECT_TEXT(why, "no usable port of =mlx5_1; mlx5_1: port 1 is down");
	unsetenv("NCCL_IB_HCA");
	printf("ok: NCCL_IB_HCA\n");
}

static char root[] = "/tmp/unit_gdaki_choose.XXXXXX";

static void folder(const char *path)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	for (char *slash = whole + 1; (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		EXPECT(!mkdir(whole, 0700) || errno == EEXIST);
		*slash = '/';
	}
	EXPECT(!mkdir(whole, 0700) || errno == EEXIST);
}

static void linked(const char *from, const char *to)
{
	char target[512], name[512];

	folder(to);
	snprintf(target, sizeof(target), "%s/%s", root, to);
	snprintf(name, sizeof(name), "%s/%s", root, from);
	EXPECT(!symlink(target, name));
}

/* A GPU and NICs: below one switch, below one root port, elsewhere. */
static void near(void)
{
	EXPECT(mkdtemp(root));
	folder("class/infiniband/mlx5_0");
	folder("class/infiniband/mlx5_1");
	folder("class/infiniband/mlx5_2");
	folder("bus/pci/devices");
	linked("bus/pci/devices/0000:1b:00.0",
	       "devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:1b:00.0");
	linked("class/infiniband/mlx5_0/device",
	       "devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:1c:00.0");
	linked("class/infiniband/mlx5_1/device",
	       "devices/pci0000:15/0000:15:01.0/0000:17:00.0/0000:1d:00.0");
	linked("class/infiniband/mlx5_2/device", "devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0");
	EXPECT_EQUAL(pciSharedBridges(root, "mlx5_0", "0000:1B:00.0"), 3);
	EXPECT_EQUAL(pciSharedBridges(root, "mlx5_1", "0000:1B:00.0"), 2);
	EXPECT_EQUAL(pciSharedBridges(root, "mlx5_2", "0000:1B:00.0"), 0);
	EXPECT_EQUAL(pciSharedBridges(root, "mlx5_3", "0000:1B:00.0"), 0);
	EXPECT_EQUAL(pciSharedBridges(root, "mlx5_0", "0000:2B:00.0"), 0);
	printf("ok: near\n");
}

static struct rdmaAddress roceAt(int version, int isIpv4)
{
	struct rdmaAddress a = {.ethernet = 1, .roceVersion = (uint8_t)version};

	if (isIpv4)
		memcpy(a.gid, (const uint8_t[16]){[10] = 0xff, 0xff, 10, 0, 0, 1}, 16);
	else
		a.gid[0] = 0xfd;
	return a;
}

static struct rdmaAddress infinibandAt(uint8_t subnet, uint16_t partition, int grh)
{
	return (struct rdmaAddress){.gid = {0xfe, 0x80, [7] = subnet, [15] = 1},
				    .lid = 1,
				    .grh = (uint8_t)grh,
				    .partition = partition};
}

static void expectReach(struct rdmaAddress a, struct rdmaAddress b, const char *words)
{
	char why[BACKEND_WHY] = "?";

	EXPECT_EQUAL(rdmaReaches(&a, &b, why), !*words);
	EXPECT_HAS(why, words);
	EXPECT_EQUAL(rdmaReaches(&b, &a, why), !*words);
}

static void reaching(void)
{
	expectReach(roceAt(2, 1), roceAt(2, 1), "");
	expectReach(roceAt(2, 1), roceAt(2, 0), "a GID of IPv4 and the other of IPv6");
	expectReach(roceAt(1, 1), roceAt(2, 1), "RoCE v1 and the other of RoCE v2");
	expectReach(roceAt(2, 1), infinibandAt(0, 0xffff, 0),
		    "Ethernet and the other on InfiniBand");
	expectReach(infinibandAt(0, 0xffff, 0), infinibandAt(0, 0x7fff, 0), "");
	expectReach(infinibandAt(0, 0x7fff, 0), infinibandAt(0, 0x7fff, 0), "both are limited");
	expectReach(infinibandAt(0, 0xffff, 0), infinibandAt(0, 0x8001, 0),
		    "two InfiniBand partitions");
	expectReach(infinibandAt(1, 0xffff, 0), infinibandAt(2, 0xffff, 1),
		    "two InfiniBand subnets");
	expectReach(infinibandAt(1, 0xffff, 1), infinibandAt(2, 0xffff, 1), "");
	printf("ok: reaching\n");
}

static void tidy(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	EXPECT(!system(command));
}

/* What a probe finds for each rail of the network verbs. */
static struct fabricAbout probed[NETWORK_RAILS];

const struct rdma *__wrap_rdmaRailFind(const struct backendHost *unused, struct rdmaRail rail,
				       struct rdmaChoice *out, char *why)
{
	static const struct rdma calls;

	(void)unused, (void)why;
	out->found.port = (int)rail.index;
	return &calls;
}

static int probeRail(const struct fabricWanted *want, struct fabricAbout *about, char *why)
{
	(void)why;
	*about = probed[atoi(strchr(want->interface, ':') + 1)];
	return fabricOk;
}

const struct fabricCalls *__wrap_networkPlugin(const char *name, char *why)
{
	static const struct fabricCalls calls = {.probe = probeRail};

	(void)name, (void)why;
	return &calls;
}

static void expectRails(uint32_t lanes, uint8_t count, uint32_t speed, uint64_t mostBytes)
{
	struct networkFound found;
	char why[BACKEND_WHY];

	EXPECT(networkRailsFind(&host, NETWORK_VERBS, lanes, &found, why));
	EXPECT_EQUAL(found.rails, count);
	EXPECT_EQUAL(found.about.speed, speed);
	EXPECT_EQUAL(found.about.mostBytes, mostBytes);
}

/* As many as work alike; their speeds add up, and the shortest message of them counts. */
static void railsOfProxy(void)
{
	setenv("GIN_NIC_RAILS", "3", 1);
	for (unsigned i = 0; i < NETWORK_RAILS; i++) {
		probed[i] = (struct fabricAbout){.speed = 100 << i, .kind = 7, .mostBytes = 9000};
		snprintf(probed[i].interface, sizeof(probed[i].interface), "mlx5_%u", i);
	}
	probed[1].mostBytes = 4000;
	expectRails(8, 3, 700, 4000);
	expectRails(2, 2, 300, 4000);
	expectRails(1, 1, 100, 9000);
	probed[2].kind = 8;
	expectRails(8, 2, 300, 4000);
	strcpy(probed[1].interface, "mlx5_0");
	expectRails(8, 1, 100, 9000);
}

static void names(void)
{
	struct transportChoice choice;

	EXPECT(networkChoiceRead("abcdefg,ipc", &choice));
	EXPECT_TEXT(choice.name, "abcdefg");
	EXPECT(choice.allowsIpc && choice.prefersNetwork);
	EXPECT(!networkChoiceRead("abcdefgh", &choice));
	EXPECT(networkChoiceRead("ipc,a", &choice));
	EXPECT(choice.allowsIpc && !choice.prefersNetwork);
	EXPECT(!networkChoiceRead("a,b", &choice));
}

int main(void)
{
	chosen();
	rails();
	expectChild("rails of the proxy", railsOfProxy);
	expectChild("names of networks", names);
	none();
	byNccl();
	near();
	reaching();
	tidy();
	return expectFailures != 0;
}
