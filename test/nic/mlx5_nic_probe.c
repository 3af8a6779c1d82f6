/* SPDX-License-Identifier: BSD-3-Clause */
/* mlx5_nic_probe.c - whether a rank can have queues of a NIC: the port it gets, or the reason */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "backends/rdma/port.h"
#include "pinning.h"

#include "nic.h"

static struct identity ranks[2];
static const struct backendHost host = {.nRanks = 2, .ranks = ranks, .device = &hostThreads};

static void expectWhy(const char *words)
{
	struct rdmaAddress address;
	char why[BACKEND_WHY];

	EXPECT_EQUAL(rdmaProbe(&host, &address, why), 0);
	EXPECT_HAS(why, words);
	printf("ok: %s\n", why);
}

static void usable(void)
{
	struct rdmaAddress address, opened;
	struct rdmaFeatures features;
	const struct rdma *rdma;
	struct rdmaPort *port;
	char why[BACKEND_WHY] = "?";

	expectThat(rdmaProbe(&host, &address, why), __FILE__, __LINE__, "%s", why);
	EXPECT_TEXT(why, "");
	EXPECT_SUCCESS(rdmaPortOpen(&host, "gdaki", &rdma, &port));
	rdma->portDescribe(port, &opened, &features);
	EXPECT(!memcmp(&address, &opened, sizeof(address)));
	rdma->portClose(port);
}

static void otherNic(void)
{
	setenv("GIN_NIC", "mlx5_7", 1);
	expectWhy("no usable port of mlx5_7");
}

static void otherGid(void)
{
	setenv("GIN_NIC_GID", "7", 1);
	expectWhy("has no GID of index 7");
}

static void badGid(void)
{
	setenv("GIN_NIC_GID", "first", 1);
	expectWhy("GIN_NIC_GID=first: must be an index");
}

static void negativeGid(void)
{
	setenv("GIN_NIC_GID", "-1", 1);
	expectWhy("GIN_NIC_GID=-1: must be an index, 0 at least");
}

static void noAtomics(void)
{
	expectWhy("no 8-byte atomics");
}

/* Without the software device: prints the hardware's answer. */
static int unknown(void)
{
	struct rdmaAddress address;
	char why[BACKEND_WHY];
	int can = rdmaProbe(&host, &address, why);

	EXPECT(can == !why[0]);
	printf("%s\n", can ? "usable" : why);
	return 0;
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!nicIsSoftware())
		return unknown();
	if (nicProfile("noatomics")) {
		expectChild("no atomics", noAtomics);
		return expectFailures != 0;
	}
	expectChild("usable", usable);
	expectChild("another NIC", otherNic);
	expectChild("another GID", otherGid);
	expectChild("no GID", badGid);
	expectChild("a negative GID", negativeGid);
	return expectFailures != 0;
}
