/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxy_choice.c - GIN_TRANSPORT, the interface of the proxy's network, and when the plug-in of
 * a network is loaded
 */
/* NEEDS: libgin-weak.so libgin-ofi.so */
#include <dlfcn.h>
#include <sys/resource.h>

#include "backends/proxy/network/choice/interface.h"
#include "backends/proxy/network/choice/choice.h"
#include "expect.h"
#include "ranks.h"

/* As NCCL's documentation of the variable says. */
static void interfaceLists(void)
{
	EXPECT(networkInterfaceAllowed("eth", "eth0"));
	EXPECT(networkInterfaceAllowed("eth,ib", "ib3"));
	EXPECT(!networkInterfaceAllowed("eth,ib", "docker0"));
	EXPECT(networkInterfaceAllowed("=eth1", "eth1"));
	EXPECT(!networkInterfaceAllowed("=eth1", "eth10"));
	EXPECT(networkInterfaceAllowed("=eth0,eth1", "eth1"));
	EXPECT(!networkInterfaceAllowed("^docker,lo", "docker0"));
	EXPECT(!networkInterfaceAllowed("^docker,lo", "lo"));
	EXPECT(networkInterfaceAllowed("^docker,lo", "eth0"));
	EXPECT(networkInterfaceAllowed("^=eth1", "eth10"));
	EXPECT(!networkInterfaceAllowed("^=eth1", "eth1"));
}

/* Listing the interfaces takes a descriptor. */
static void noDescriptor(void)
{
	const struct identity ranks[2] = {{.hostId = 1}, {.hostId = 2}};
	const struct backendHost host = {.nRanks = 2, .ranks = ranks};
	const struct rlimit none = {0, 0};
	struct networkInterface found;
	char why[BACKEND_WHY] = "";

	EXPECT(!setrlimit(RLIMIT_NOFILE, &none));
	EXPECT(!networkInterfaceFind(&host, &found, why));
	EXPECT_HAS(why, "cannot list the network interfaces: Too many open files");
}

static struct proxyBlob probed(const char *list, int works, const char *words)
{
	struct proxyBlob blob = {.hasNetwork = 0};
	char why[BACKEND_WHY] = "";

	if (list)
		setenv("GIN_TRANSPORT", list, 1);
	else
		unsetenv("GIN_TRANSPORT");
	expectThat(networkProbe(&blob, why) == works, __FILE__, __LINE__, "%s: %s", list, why);
	EXPECT_HAS(why, words);
	return blob;
}

static void expectBlob(const char *list, int allowsIpc, int prefers, enum backendSearch searches)
{
	const struct proxyBlob blob = probed(list, 1, "");

	EXPECT_EQUAL(blob.allowsIpc, allowsIpc);
	EXPECT_EQUAL(blob.prefersNetwork, prefers);
	EXPECT_EQUAL(blob.searches, searches);
}

static void unset(void)
{
	expectBlob(NULL, 1, 0, searchMissing);
}

static void ipcAlone(void)
{
	expectBlob("ipc", 1, 0, searchNever);
}

static void networkAlone(void)
{
	expectBlob("weak", 0, 1, searchAnyway);
}

static void networkFirst(void)
{
	expectBlob("weak,ipc", 1, 1, searchAnyway);
}

static void networkLast(void)
{
	expectBlob("ipc,weak", 1, 0, searchAnyway);
}

static void twoNetworks(void)
{
	probed("weak,ofi", 0, "GIN_TRANSPORT: must be ipc, the name of a network, or both");
}

static void notPlain(void)
{
	probed("../weak", 0, "GIN_TRANSPORT: must be ipc, the name of a network, or both");
}

/* A plug-in that is named and missing is never passed over in silence. */
static void missing(void)
{
	probed("nosuch,ipc", 0, "there is no libgin-nosuch.so in ");
}

/* The plug-in lies above the folder of the test. */
static int hasPlugin(const char *name)
{
	char path[512];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 32);

	if (length <= 0)
		return 0;
	path[length] = '\0';
	snprintf(strrchr(path, '/'), 32, "/../libgin-%s.so", name);
	return !access(path, R_OK);
}

static int isLoaded(void)
{
	return dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

static ginPeerInfo_t peerOf(ginComm_t comm, int peer)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	EXPECT_SUCCESS(ginCommQueryPeer(comm, peer, &info));
	return info;
}

static ginComm_t openComm(const ginConfig_t *config)
{
	ginConfig_t host = *config;
	ginComm_t comm = NULL;

	host.device = GIN_DEVICE_NONE;
	EXPECT_SUCCESS(ginCommInit(&host, &comm));
	return comm;
}

/* Every pair has a route without libfabric. */
static int oneHost(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);

	EXPECT(!isLoaded());
	EXPECT_TEXT(peerOf(comm, !config->rank).backend, "direct");
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

static int copyAlone(void *arg, const void *in, void *out, size_t bytes)
{
	(void)arg;
	memcpy(out, in, bytes);
	return 0;
}

/* As a library makes one for memory: it is no reason to warn. */
static void liveAlone(void)
{
	const ginConfig_t alone = {.size = sizeof(alone),
				   .device = GIN_DEVICE_NONE,
				   .allgather = copyAlone,
				   .nRanks = 1};
	ginComm_t comm = openComm(&alone);

	EXPECT_SUCCESS(ginCommDestroy(comm));
}

/*
 * What the log of this process has after a communicator of this rank and two of all ranks:
 * GIN_LOG=info.
 */
static void readLog(const ginConfig_t *config, char *text, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/proxy_choice.%d", (int)getpid());
	setenv("GIN_LOG", "info", 1);
	setenv("GIN_LOG_FILE", "/tmp/proxy_choice.%p", 1);
	liveAlone();
	ginComm_t first = openComm(config), second = openComm(config);
	EXPECT_SUCCESS(ginCommDestroy(second));
	EXPECT_SUCCESS(ginCommDestroy(first));
	FILE *log = fopen(path, "r");
	size_t got = log ? fread(text, 1, bytes - 1, log) : 0;
	text[got] = '\0';
	EXPECT(log && !fclose(log) && !unlink(path));
}

/* A network that is named and not used: rank 0 says so, once. */
static int unusedNetwork(const ginConfig_t *config)
{
	char text[8192];

	setenv("GIN_TRANSPORT", "ipc", 1);
	readLog(config, text, sizeof(text));
	EXPECT_HAS(text, "INFO route to rank 0: direct, ");
	EXPECT_HAS(text, "INFO route to rank 1: direct, ");
	char *told = strstr(text, "WARN GIN_TRANSPORT=ipc has no effect: no pair of ranks uses");
	EXPECT_EQUAL(told != NULL, !config->rank);
	EXPECT(!told || !strstr(told + 1, "WARN"));
	EXPECT(!told || strstr(text, "INFO route to rank 1") < told); /* of all ranks */
	return expectFailures;
}

static int usedNetwork(const ginConfig_t *config)
{
	char text[8192];

	setenv("GIN_TRANSPORT", "ipc", 1);
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	readLog(config, text, sizeof(text));
	EXPECT_HAS(text, "INFO route to rank 0: proxy, ");
	EXPECT_HAS(text, "INFO route to rank 1: proxy, ");
	EXPECT(!strstr(text, "has no effect"));
	return expectFailures;
}

/* The routes to both other ranks are alike. */
static int alikeRoutes(const ginConfig_t *config)
{
	char text[8192], words[64];

	readLog(config, text, sizeof(text));
	snprintf(words, sizeof(words), "INFO route to rank %d and 1 more: direct, ", !config->rank);
	EXPECT_HAS(text, words);
	return expectFailures;
}

static int oneHostByProxy(const ginConfig_t *config)
{
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	ginComm_t comm = openComm(config);

	EXPECT(!isLoaded());
	EXPECT_HAS(peerOf(comm, !config->rank).why, "shared memory of one host");
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

/* Ranks of one host take the way that one of them prefers. */
static int listsDiffer(const ginConfig_t *config)
{
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	setenv("GIN_TRANSPORT", config->rank ? "ofi,ipc" : "ipc,ofi", 1);
	ginComm_t comm = openComm(config);

	EXPECT_HAS(peerOf(comm, !config->rank).why, "libfabric ");
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

static int asHosts(const ginConfig_t *config)
{
	setenv("GIN_HOSTID", config->rank ? "b" : "a", 1);
	ginComm_t comm = openComm(config);
	ginPeerInfo_t other = peerOf(comm, !config->rank);

	EXPECT(isLoaded());
	EXPECT_TEXT(other.backend, "proxy");
	EXPECT_HAS(other.why, "libfabric ");
	EXPECT_HAS(other.why, "; not gdaki: ");
	EXPECT_TEXT(peerOf(comm, config->rank).backend, "direct");
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

/* One of two ranks excludes the network: the pair has no route, and both ranks have a reason. */
static int oneWithout(const ginConfig_t *config)
{
	if (config->rank)
		setenv("GIN_TRANSPORT", "ipc", 1);
	setenv("GIN_HOSTID", config->rank ? "b" : "a", 1);
	ginComm_t comm = openComm(config);
	ginPeerInfo_t other = peerOf(comm, !config->rank);

	EXPECT_TEXT(other.backend, "none");
	EXPECT_HAS(other.why,
		   config->rank ? "GIN_TRANSPORT=ipc rules a network out" : "it has no network");
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

static int twoProviders(const ginConfig_t *config)
{
	setenv("GIN_HOSTID", config->rank ? "b" : "a", 1);
	setenv("GIN_OFI_PROVIDER", config->rank ? "tcp;ofi_rxm" : "net", 1);
	ginComm_t comm = openComm(config);

	EXPECT_TEXT(peerOf(comm, !config->rank).backend, "none");
	EXPECT_HAS(peerOf(comm, !config->rank).why,
		   config->rank ? "set one GIN_OFI_PROVIDER: this rank has libfabric tcp"
				: "set one GIN_OFI_PROVIDER: this rank has libfabric net");
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

/* A transport that is named and does not work fails the communicator, on every rank. */
static int noProvider(const ginConfig_t *config)
{
	ginConfig_t host = *config;
	ginComm_t comm = NULL;

	setenv("GIN_HOSTID", config->rank ? "b" : "a", 1);
	setenv("GIN_TRANSPORT", "ofi", 1);
	setenv("GIN_OFI_PROVIDER", "sockets", 1);
	host.device = GIN_DEVICE_NONE;
	EXPECT_RESULT(ginCommInit(&host, &comm), ginErrorUnsupported);
	EXPECT_HAS(ginGetLastError(), "GIN_OFI_PROVIDER=sockets: must be one of net, tcp");
	return expectFailures;
}

/* No port has this name, whatever NICs the host has. */
static int noNic(const ginConfig_t *config)
{
	ginConfig_t host = *config;
	ginComm_t comm = NULL;

	setenv("GIN_HOSTID", config->rank ? "b" : "a", 1);
	setenv("GIN_TRANSPORT", "verbs", 1);
	setenv("GIN_NIC", "nosuch", 1);
	host.device = GIN_DEVICE_NONE;
	EXPECT_RESULT(ginCommInit(&host, &comm), ginErrorUnsupported);
	EXPECT_HAS(ginGetLastError(), "GIN_TRANSPORT=verbs: ");
	return expectFailures;
}

static int noInterface(const ginConfig_t *config)
{
	setenv("GIN_HOSTID", config->rank ? "b" : "a", 1);
	setenv("GIN_OFI_INTERFACE", "nosuch0", 1);
	ginComm_t comm = openComm(config);

	EXPECT_TEXT(peerOf(comm, !config->rank).backend, "none");
	EXPECT_HAS(peerOf(comm, !config->rank).why, "nosuch0");
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

static int (*forked)(const ginConfig_t *config);

static int forks = 2;

static void runForked(void)
{
	const int *result = ranksStart(forks, 0, forked);

	for (int r = 0; r < forks; r++)
		EXPECT_EQUAL(result[r], 0);
}

static void expectForks(const char *name, int (*body)(const ginConfig_t *config))
{
	forked = body;
	expectChild(name, runForked);
}

int main(void)
{
	setenv("GIN_LOG", "none", 1);
	expectChild("NCCL_SOCKET_IFNAME", interfaceLists);
	expectChild("interfaces, without a descriptor", noDescriptor);
	expectChild("GIN_TRANSPORT unset", unset);
	expectChild("GIN_TRANSPORT=ipc", ipcAlone);
	expectChild("GIN_TRANSPORT=weak", networkAlone);
	expectChild("GIN_TRANSPORT=weak,ipc", networkFirst);
	expectChild("GIN_TRANSPORT=ipc,weak", networkLast);
	expectChild("two networks", twoNetworks);
	expectChild("a name with a slash", notPlain);
	expectChild("a plug-in that is missing", missing);
	expectForks("one host", oneHost);
	expectForks("one host, by the proxy", oneHostByProxy);
	expectForks("GIN_TRANSPORT has no effect", unusedNetwork);
	expectForks("GIN_TRANSPORT has an effect", usedNetwork);
	forks = 3;
	expectForks("routes that are alike", alikeRoutes);
	forks = 2;
	if (hasPlugin("rdma"))
		expectForks("verbs without a NIC", noNic);
	else
		printf("left out: verbs without a NIC: libgin was built without libibverbs\n");
	if (!hasPlugin("ofi")) {
		printf("left out: two hosts by libfabric: libgin was built without libfabric\n");
		return expectFailures != 0;
	}
	expectForks("one host, a rank prefers a network", listsDiffer);
	expectForks("two hosts", asHosts);
	expectForks("two hosts, one without a network", oneWithout);
	expectForks("two hosts with two providers", twoProviders);
	expectForks("a provider that libgin does not use", noProvider);
	expectForks("an interface that is missing", noInterface);
	return expectFailures != 0;
}
