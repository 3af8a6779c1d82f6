/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments_comm.c - creating, querying and destroying communicators: every wrong argument, and
 * contradictory environments; nothing leaks
 */
#include "arguments.h"

#include "bootstrap/bootstrap.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A failed ginCommInit() writes no communicator, and leaves no file descriptor open. */
#define EXPECT_NO_COMM(config, result, ...)                                                        \
	do {                                                                                       \
		ginComm_t noComm = POISON;                                                         \
		int files = countFiles();                                                          \
		EXPECT_FAILS(ginCommInit(config, &noComm), result, "ginCommInit", __VA_ARGS__);    \
		EXPECT(noComm == POISON);                                                          \
		EXPECT_EQUAL(countFiles(), files);                                                 \
	} while (0)

static const ginConfig_t alone = {
	.size = sizeof(ginConfig_t), .device = GIN_DEVICE_NONE, .nRanks = 1};

static void expectAlone(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);

	EXPECT_EQUAL(sizeOf(comm), 1);
	EXPECT_EQUAL(rankOf(comm), 0);
	expectWorks(comm);
	closeComm(comm);
}

static int allgathers;

static int countingAllgather(void *arg, const void *in, void *out, size_t bytes)
{
	allgathers++;
	memcpy(out, in, bytes);
	return arg ? *(int *)arg : 0;
}

static void badSizes(void)
{
	struct {
		ginConfig_t config;
		char more[64];
	} newer = {alone, "members that this libgin does not know"};
	ginConfig_t older = {.size = offsetof(ginConfig_t, allgather),
			     .device = GIN_DEVICE_NONE,
			     .allgather = countingAllgather,
			     .rank = 7,
			     .nRanks = 9};
	ginConfig_t config = alone;

	config.size = 0;
	EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.size is 0", "GIN_CONFIG_INIT");
	config.size = older.size - 1;
	EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.size is ");
	config.allgather = countingAllgather;
	for (config.size = older.size + 1; config.size % sizeof(size_t); config.size++)
		EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.size is ");
	config.allgather = NULL;
	config.size = 4097;
	EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.size is 4097");
	config.size = SIZE_MAX;
	EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.size is ");
	newer.config.size = sizeof(newer);
	expectAlone(&newer.config);
	expectAlone(&older); /* it has no allgather */
	EXPECT_EQUAL(allgathers, 0);
}

static void badConfigs(void)
{
	ginConfig_t config = alone;

	EXPECT_FAILS(ginCommInit(NULL, NULL), ginErrorInvalidArgument, "ginCommInit: comm is NULL");
	EXPECT_FAILS(ginCommInit(&config, NULL), ginErrorInvalidArgument, "comm is NULL");
	config.device = -3;
	EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.device is -3", "GIN_DEVICE_AUTO");
	config.device = INT_MIN;
	EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.device is -2147483648");
	config.device = 1000;
	EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.device is 1000");
	config.device = alone.device;
	for (config.copyEngines = -1; config.copyEngines <= 2; config.copyEngines += 3)
		EXPECT_NO_COMM(&config, ginErrorInvalidArgument, "config.copyEngines is ",
			       "must be 0 or 1");
	config.copyEngines = 1;
	expectAlone(&config);
	expectAlone(&alone);
}

static void badRanks(void)
{
	static const int pairs[][2] = {{-1, 2}, {2, 2},	      {0, 0},	   {0, -1},
				       {1, 1},	{INT_MAX, 2}, {0, INT_MIN}};
	ginConfig_t config = alone;
	char words[96];

	config.allgather = countingAllgather;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		config.rank = pairs[i][0];
		config.nRanks = pairs[i][1];
		snprintf(words, sizeof(words), "config.rank is %d and config.nRanks %d",
			 config.rank, config.nRanks);
		EXPECT_NO_COMM(&config, ginErrorInvalidArgument, words);
	}
	EXPECT_EQUAL(allgathers, 0); /* no rank had to wait */
}

/* Numbers without allgather: the rank must not go on as another rank, or alone. */
static void ranksWithoutAllgather(void)
{
	static const int pairs[][2] = {{1, 4}, {0, 4}, {1, 1}, {3, 0}, {0, INT_MIN}};
	ginConfig_t config = alone;
	char words[96];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		config.rank = pairs[i][0];
		config.nRanks = pairs[i][1];
		snprintf(words, sizeof(words),
			 "config.rank is %d and config.nRanks %d, but this is rank 0 of 1",
			 config.rank, config.nRanks);
		EXPECT_NO_COMM(&config, ginErrorInvalidArgument, words, "config.allgather");
	}
	config.rank = config.nRanks = 0; /* of a struct of zeros */
	expectAlone(&config);
}

/* A rank that is alone waits for no other rank of the job. */
static void aloneInJob(void)
{
	static const char *const ways[] = {"tcp", "pmix"};
	ginConfig_t config = alone;

	config.allgather = countingAllgather;
	setenv("WORLD_SIZE", "2", 1);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		setenv("GIN_BOOTSTRAP", ways[i], 1);
		expectAlone(&config);
	}
}

static ginComm_t commOfParent;

static void useCommOfParent(void)
{
	ginConfig_t config = alone;
	void *at = POISON;

	EXPECT_FAILS(ginMemAlloc(commOfParent, 64, &at), ginErrorInvalidUsage,
		     "comm belongs to the process that forked this one");
	EXPECT_FAILS(ginCommDestroy(commOfParent), ginErrorInvalidUsage,
		     "comm belongs to the process");
	EXPECT(at == POISON);
	expectAlone(&config);
}

/* A communicator of one rank has no connection whose end would show it. */
static void forked(void)
{
	commOfParent = openComm(&alone);
	expectChild("the communicator of a parent", useCommOfParent);
	expectWorks(commOfParent);
	closeComm(commOfParent);
}

/* Rank 1 of what is gathered here is all zeros: it could not start, or has another libgin. */
static int strangeAllgather(void *arg, const void *in, void *out, size_t bytes)
{
	memset(out, 0, 2 * bytes);
	memcpy(out, in, bytes);
	if (arg)
		memcpy((char *)out + bytes + offsetof(struct bootstrapEntry, host), "otherhost",
		       10);
	return 0;
}

static void badAllgathers(void)
{
	ginConfig_t config = alone;
	int result = 7;

	config.allgather = countingAllgather;
	config.allgatherArg = &result;
	EXPECT_NO_COMM(&config, ginErrorBootstrap, "rank 0", "config.allgather returned 7");
	result = -1;
	EXPECT_NO_COMM(&config, ginErrorBootstrap, "config.allgather returned -1");
	result = 0;
	expectAlone(&config);
	config.allgather = strangeAllgather;
	config.nRanks = 2;
	EXPECT_NO_COMM(&config, ginErrorBootstrap, "rank 1 (host otherhost)",
		       "another version of libgin");
	expectAlone(&alone);
}

/* A launcher's variables say that there are more ranks, and no variable says how to find them. */
static void launchers(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					    "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"};
	ginConfig_t config = alone;
	char words[96];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(words, sizeof(words),
			 "%s=2, but neither PMIX_NAMESPACE nor GIN_ROOT is set", names[i]);
		setenv(names[i], "2", 1);
		EXPECT_NO_COMM(&alone, ginErrorBootstrap, words, "mpirun", "srun --mpi=pmix",
			       "config.allgather", "GIN_BOOTSTRAP=self");
		config.allgather = countingAllgather;
		expectAlone(&config);
		setenv(names[i], "1", 1);
		expectAlone(&alone);
		setenv(names[i], "", 1);
		expectAlone(&alone);
		unsetenv(names[i]);
	}
}

static void launchersAndSelf(void)
{
	setenv("WORLD_SIZE", "2", 1);
	setenv("GIN_BOOTSTRAP", "self", 1);
	expectAlone(&alone);
}

static void badBootstrap(void)
{
	setenv("GIN_BOOTSTRAP", "udp", 1);
	EXPECT_NO_COMM(&alone, ginErrorInvalidArgument, "GIN_BOOTSTRAP=udp", "auto|pmix|tcp|self");
}

static void badInterface(void)
{
	setenv("GIN_SOCKET_IFNAME", "no-such-if0", 1);
	EXPECT_NO_COMM(&alone, ginErrorInvalidArgument, "GIN_SOCKET_IFNAME=no-such-if0");
}

static void loopbackInterface(void)
{
	setenv("GIN_SOCKET_IFNAME", "lo", 1);
	EXPECT_NO_COMM(&alone, ginErrorInvalidArgument,
		       "GIN_SOCKET_IFNAME=lo is a loopback interface");
}

/* One rank cannot start: the others do not wait for it, and report its sentence. */
static int badInterfaceOfOne(const ginConfig_t *config)
{
	ginConfig_t host = hostConfig(config);

	if (config->rank == 1)
		setenv("GIN_SOCKET_IFNAME", "no-such-if0", 1);
	EXPECT_NO_COMM(&host, ginErrorInvalidArgument, "rank 1: GIN_SOCKET_IFNAME=no-such-if0");
	return 0;
}

/* One rank asks for a GPU that does not exist: all ranks learn which. */
static int badDeviceOfOne(const ginConfig_t *config)
{
	ginConfig_t host = hostConfig(config);

	if (config->rank == 1)
		host.device = 1000;
	EXPECT_NO_COMM(&host, ginErrorInvalidArgument, "rank 1: config.device is 1000");
	ginComm_t comm = openComm(config);
	expectWorks(comm);
	return closeComm(comm);
}

/* Two descriptors with the number of a rank, of its next exchange, and without the key. */
static void forge(const char *name, uint32_t rank)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct {
		uint32_t rank, serial;
		uint64_t proof[2];
	} text = {rank, 1, {0}};
	struct iovec part = {&text, sizeof(text)};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} ancillary = {.header = {CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	struct msghdr message = {&to, bytes, &part, 1, ancillary.bytes, sizeof(ancillary), 0};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), sent[2] = {fd, fd};

	EXPECT(fd >= 0);
	memcpy(to.sun_path + 1, name, strlen(name));
	memcpy(CMSG_DATA(&ancillary.header), sent, sizeof(sent));
	sendmsg(fd, &message, MSG_DONTWAIT); /* another job's socket may be gone, or full */
	close(fd);
}

/* Anybody sees the names of the sockets for descriptors, and may send to them. */
static int strangers(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	FILE *list = fopen("/proc/net/unix", "re");
	int files = countFiles() - 1, names = 0;
	char line[256], *name;

	EXPECT(list != NULL);
	while (fgets(line, sizeof(line), list))
		if ((name = strstr(line, "@gin-"))) {
			name[strcspn(name, "\n")] = '\0';
			forge(name + 1, 0);
			forge(name + 1, 1);
			names++;
		}
	fclose(list);
	EXPECT(names >= 2);
	expectWorks(comm);
	EXPECT_EQUAL(countFiles(), files);
	return closeComm(comm);
}

/* No file, and no folder that ranks share, is needed for a rank to pass descriptors. */
static int withoutDirectory(const ginConfig_t *config)
{
	char name[200] = "/";

	memset(name + 1, 'x', sizeof(name) - 2);
	setenv("TMPDIR", config->rank ? name : "/no/such/directory", 1);
	ginComm_t comm = openComm(config);
	expectWorks(comm);
	return closeComm(comm);
}

static void withoutComm(void)
{
	ginResult_t error = POISON_INT;
	int out = POISON_INT;
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	EXPECT_FAILS(ginCommRank(NULL, &out), ginErrorInvalidArgument, "ginCommRank: comm is NULL");
	EXPECT_FAILS(ginCommSize(NULL, &out), ginErrorInvalidArgument, "ginCommSize: comm is NULL");
	EXPECT_FAILS(ginCommDevice(NULL, &out), ginErrorInvalidArgument,
		     "ginCommDevice: comm is NULL");
	EXPECT_FAILS(ginCommQueryPeer(NULL, 0, &info), ginErrorInvalidArgument,
		     "ginCommQueryPeer: comm is NULL");
	EXPECT_FAILS(ginCommAbort(NULL), ginErrorInvalidArgument, "ginCommAbort: comm is NULL");
	EXPECT_FAILS(ginCommGetAsyncError(NULL, &error), ginErrorInvalidArgument,
		     "ginCommGetAsyncError: comm is NULL");
	EXPECT_FAILS(ginWindowRegister(NULL, NULL, 0, 0, NULL), ginErrorInvalidArgument,
		     "ginWindowRegister: comm is NULL");
	EXPECT_SUCCESS(ginCommDestroy(NULL));
	EXPECT_EQUAL(out, POISON_INT);
	EXPECT_EQUAL(error, POISON_INT);
}

/* A destroyed communicator, and a pointer that never was one. */
static void destroyed(void)
{
	static char never[4096];
	ginConfig_t alone = GIN_CONFIG_INIT;
	ginComm_t other = openComm(&alone), comm = openComm(&alone);
	ginComm_t bad[] = {comm, (ginComm_t)(void *)never};
	int out = POISON_INT;
	void *at = POISON;

	closeComm(comm);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		EXPECT_FAILS(ginCommDestroy(bad[i]), ginErrorInvalidArgument,
			     "ginCommDestroy: comm is no communicator: was it destroyed?");
		EXPECT_FAILS(ginCommRank(bad[i], &out), ginErrorInvalidArgument,
			     "ginCommRank: ", "was it destroyed?");
		EXPECT_FAILS(ginMemAlloc(bad[i], 64, &at), ginErrorInvalidArgument,
			     "was it destroyed?");
		EXPECT_FAILS(ginCommAbort(bad[i]), ginErrorInvalidArgument, "was it destroyed?");
	}
	EXPECT_EQUAL(out, POISON_INT);
	EXPECT(at == POISON);
	expectWorks(other);
	closeComm(other);
}

static void withoutOutput(ginComm_t comm)
{
	EXPECT_FAILS(ginCommRank(comm, NULL), ginErrorInvalidArgument, "ginCommRank: rank ",
		     "rank is NULL");
	EXPECT_FAILS(ginCommSize(comm, NULL), ginErrorInvalidArgument, "nRanks is NULL");
	EXPECT_FAILS(ginCommDevice(comm, NULL), ginErrorInvalidArgument, "device is NULL");
	EXPECT_FAILS(ginCommGetAsyncError(comm, NULL), ginErrorInvalidArgument, "error is NULL");
	EXPECT_FAILS(ginGetVersion(NULL), ginErrorInvalidArgument,
		     "ginGetVersion: version is NULL");
}

static void badPeers(ginComm_t comm)
{
	static const int peers[] = {-1, 3, INT_MIN, INT_MAX};
	ginPeerInfo_t info, poison;

	memset(&info, 0x5a, sizeof(info));
	info.size = sizeof(info);
	poison = info;
	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
		EXPECT_FAILS(ginCommQueryPeer(comm, peers[i], &info), ginErrorInvalidArgument,
			     "ginCommQueryPeer: rank ", "peer is ", "must be 0 to 2");
	EXPECT(!memcmp(&info, &poison, sizeof(info)));
}

/* A call writes only as much as the caller has room for. */
static void badInfo(ginComm_t comm)
{
	static const size_t sizes[] = {0, 8, 4097, SIZE_MAX};
	ginPeerInfo_t info, poison;

	EXPECT_FAILS(ginCommQueryPeer(comm, 0, NULL), ginErrorInvalidArgument, "info is NULL",
		     "GIN_PEER_INFO_INIT");
	memset(&info, 0x5a, sizeof(info));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		info.size = sizes[i];
		poison = info;
		EXPECT_FAILS(ginCommQueryPeer(comm, 0, &info), ginErrorInvalidArgument,
			     "info is NULL or its size is wrong");
		EXPECT(!memcmp(&info, &poison, sizeof(info)));
	}
	info.size = offsetof(ginPeerInfo_t, sameProcess);
	EXPECT_SUCCESS(ginCommQueryPeer(comm, 0, &info));
	EXPECT_EQUAL(info.size, offsetof(ginPeerInfo_t, sameProcess));
	EXPECT_EQUAL(info.route, ginRouteDirect);
	EXPECT_EQUAL(info.sameHost, 1);
	EXPECT_EQUAL(info.sameProcess, POISON_INT);
	EXPECT_EQUAL(info.why[sizeof(info.why) - 1], 0x5a);
}

static int badQueries(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int device = POISON_INT;

	withoutComm();
	withoutOutput(comm);
	badPeers(comm);
	badInfo(comm);
	EXPECT_SUCCESS(ginCommDevice(comm, &device));
	EXPECT_EQUAL(device, GIN_DEVICE_NONE);
	EXPECT_EQUAL(rankOf(comm), config->rank);
	EXPECT_EQUAL(sizeOf(comm), 3);
	expectWorks(comm);
	return closeComm(comm);
}

static void *freshThread(void *arg)
{
	EXPECT_TEXT(ginGetLastError(), "");
	return arg;
}

/* The sentence is the thread's own, and stays until its next failure. */
static void lastError(void)
{
	pthread_t thread;
	int version = 0;

	EXPECT_TEXT(ginGetLastError(), "");
	EXPECT_FAILS(ginGetVersion(NULL), ginErrorInvalidArgument, "version is NULL");
	EXPECT(!pthread_create(&thread, NULL, freshThread, NULL));
	pthread_join(thread, NULL);
	EXPECT_SUCCESS(ginGetVersion(&version));
	EXPECT_EQUAL(version, GIN_VERSION);
	EXPECT_HAS(ginGetLastError(), "version is NULL");
}

static void errorStrings(void)
{
	for (int a = -1; a <= ginErrorAbi + 1; a++) {
		const char *text = ginGetErrorString((ginResult_t)a);
		EXPECT(text && *text);
		EXPECT_EQUAL(!strcmp(text, "unknown result"), a < 0 || a > ginErrorAbi);
		for (int b = 0; b < a && a <= ginErrorAbi; b++)
			EXPECT(strcmp(text, ginGetErrorString((ginResult_t)b)));
	}
}

/* After an abort every call says so, on both ranks; the ranks can leave and start again. */
static int abortAndBeginAgain(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginWindow_t window = {POISON};
	ginResult_t error = ginSuccess, due = config->rank == 1 ? ginErrorAborted : ginErrorPeer;
	ginDevComm dc;

	expectWorks(comm);
	if (config->rank == 1)
		EXPECT_SUCCESS(ginCommAbort(comm));
	EXPECT_FAILS(ginWindowRegister(comm, NULL, 0, 0, &window), due, "rank 1 ", "ginCommAbort");
	EXPECT_FAILS(ginDevCommCreate(comm, &want, &dc), due, "rank 1 ", "ginCommAbort");
	EXPECT(window.table == POISON);
	EXPECT_SUCCESS(ginCommGetAsyncError(comm, &error));
	EXPECT_EQUAL(error, due);
	closeComm(comm);
	comm = openComm(config);
	expectWorks(comm);
	return closeComm(comm);
}

static int twoAtOnce(const ginConfig_t *config)
{
	ginComm_t a = openComm(config), b = openComm(config);

	expectWorks(a);
	expectWorks(b);
	closeComm(a);
	expectWorks(b);
	a = openComm(config);
	expectWorks(b);
	expectWorks(a);
	closeComm(b);
	expectWorks(a);
	return closeComm(a);
}

/* The end of the communicator deregisters all windows. */
static int leftBehind(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	int *page = newPage(comm), files;
	ginWindow_t window[3];
	ginDevComm dc[2];

	files = countFiles();
	for (int i = 0; i < 3; i++)
		EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &window[i]));
	for (int i = 0; i < 2; i++)
		EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc[i]));
	closeComm(comm);
	comm = openComm(config);
	EXPECT_SUCCESS(ginMemFree(comm, page)); /* in no window any more */
	EXPECT_EQUAL(countFiles(), files - 1);
	return closeComm(comm);
}

static int comeAndGo(const ginConfig_t *config)
{
	int files = countFiles();

	for (int i = 0; i < 3; i++) {
		ginComm_t comm = openComm(config);
		expectWorks(comm);
		closeComm(comm);
		if (!ranksTest.asThreads)
			EXPECT_EQUAL(countFiles(), files);
	}
	return 0;
}

/* No file descriptor stays open, and no file is made. */
static void nothingIsLeft(void)
{
	char directory[] = "/tmp/gin-test-XXXXXX";

	EXPECT(mkdtemp(directory) != NULL);
	setenv("TMPDIR", directory, 1);
	int files = countFiles();
	ranksTestRun();
	EXPECT_EQUAL(countFiles(), files);
	EXPECT_EQUAL(countEntries(directory), 0);
	EXPECT(!rmdir(directory));
}

static void leavesNothing(const char *name, int n, int asThreads,
			  int (*run)(const ginConfig_t *config))
{
	ranksTest.n = n;
	ranksTest.asThreads = asThreads;
	ranksTest.run = run;
	expectChild(name, nothingIsLeft);
}

/* A test that was itself started by a launcher. */
static void forgetLauncher(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",	      "WORLD_SIZE",
					    "SLURM_STEP_NUM_TASKS", "PMIX_NAMESPACE", "TMPDIR"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

int main(void)
{
	prepareTests();
	forgetLauncher();
	expectChild("bad sizes of the config", badSizes);
	expectChild("bad configs", badConfigs);
	expectChild("bad ranks", badRanks);
	expectChild("ranks without allgather", ranksWithoutAllgather);
	expectChild("alone in a job", aloneInJob);
	expectChild("bad allgathers", badAllgathers);
	expectChild("launchers without a way", launchers);
	expectChild("GIN_BOOTSTRAP=self under a launcher", launchersAndSelf);
	expectChild("bad GIN_BOOTSTRAP", badBootstrap);
	expectChild("bad GIN_SOCKET_IFNAME", badInterface);
	expectChild("GIN_SOCKET_IFNAME=lo", loopbackInterface);
	runForks("bad GIN_SOCKET_IFNAME of one rank", 3, badInterfaceOfOne);
	runForks("bad device of one rank", 3, badDeviceOfOne);
	runForks("bad queries", 3, badQueries);
	expectChild("a communicator that was destroyed", destroyed);
#ifdef __SANITIZE_ADDRESS__
	printf("left out: the communicator of a parent: a thread of the parent may hold a lock of "
	       "AddressSanitizer's allocator\n");
	(void)forked;
#else
	forked();
#endif
	expectChild("ginGetLastError", lastError);
	expectChild("ginGetErrorString", errorStrings);
	runForks("abort, and begin again", 3, abortAndBeginAgain);
	runThreads("abort, and begin again", 3, abortAndBeginAgain);
	runForks("two communicators at once", 3, twoAtOnce);
	runThreads("two communicators at once", 3, twoAtOnce);
	runForks("left behind", 2, leftBehind);
	leavesNothing("nothing is left of threads", 4, 1, comeAndGo);
	leavesNothing("nothing is left of processes", 3, 0, comeAndGo);
	runForks("without TMPDIR", 3, withoutDirectory);
	runForks("strangers send descriptors", 2, strangers);
	return expectFailures != 0;
}
