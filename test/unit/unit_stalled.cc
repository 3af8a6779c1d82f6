// SPDX-License-Identifier: BSD-3-Clause
// unit_stalled - the log names, once, the rank to which posts do not complete while a kernel
// flushes; ginDump() has it, too. The network loses all messages; or, with GIN_BACKEND=gdaki,
// mlx5/dev is slow.
// NEEDS: libgin-weak.so
#include <thread>

#include <gin_device.cuh>

#include "expect.h"
#include "ranks.h"

enum { RANKS = 2, PUTS = 30, BYTES = 64 };

static const char *logPath;
static bool isSlow;

struct Args {
	ginDevComm dc;
	ginWindow_t window;
	ginResult_t result;
};

static void putAndFlush(void *arg)
{
	Args &args = *static_cast<Args *>(arg);
	Gin gin(args.dc, 0);

	args.result = ginSuccess;
	for (int i = 0; i < PUTS && args.result == ginSuccess; i++)
		args.result = gin.put(1, args.window, 0, args.window, 0, BYTES, GinSignalInc{0});
	if (args.result == ginSuccess)
		args.result = gin.flush();
}

// Returns how many lines of the file have the words.
static int countLines(FILE *in, const char *words)
{
	char next[2048];
	int count = 0;

	rewind(in);
	while (fgets(next, sizeof(next), in))
		count += strstr(next, words) != nullptr;
	return count;
}

static void expectTold()
{
	static const char told[] = " posts of device communicator 1 to rank 1 (host ";
	FILE *log = fopen(logPath, "r"), *dump = tmpfile();

	EXPECT(log && dump);
	for (int tries = 0; tries < 600 && !countLines(log, told); tries++)
		usleep(100000);
	if (!isSlow)
		usleep(1500000); // for a second line
	// A slow device completes a put now and then: for the next second the dump has no line.
	for (int tries = 0; tries < 600 && !countLines(dump, told); tries++) {
		usleep(tries ? 100000 : 0);
		EXPECT(!ftruncate(fileno(dump), 0) && !lseek(fileno(dump), 0, SEEK_SET));
		EXPECT_SUCCESS(ginDump(fileno(dump)));
	}
	const int lines = countLines(log, told);
	EXPECT(isSlow ? lines > 0 : lines == 1); // a slow device completes some
	EXPECT_EQUAL(countLines(log, "gin WARN for "), lines);
	EXPECT_EQUAL(countLines(log, "), which lives, have not completed: flushes, "), lines);
	EXPECT_EQUAL(countLines(dump, told), 1);
	EXPECT_EQUAL(countLines(dump, "wait "), 1);
	EXPECT_EQUAL(countLines(dump, "wait 1 "), 1);
	fclose(log);
	fclose(dump);
}

static void flushAndAbort(ginComm_t comm, Args &args)
{
	std::thread kernel([&] { EXPECT_SUCCESS(ginHostLaunch(1, 1, putAndFlush, &args)); });

	expectTold();
	EXPECT_SUCCESS(ginCommAbort(comm)); // ends the flush
	kernel.join();
	EXPECT_EQUAL(args.result, ginErrorAborted);
}

static int run(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginComm_t comm;
	void *memory;
	Args args = {};

	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &args.dc));
	EXPECT_SUCCESS(ginMemAlloc(comm, BYTES, &memory));
	EXPECT_SUCCESS(ginWindowRegister(comm, memory, BYTES, 0, &args.window));
	if (!config->rank)
		flushAndAbort(comm, args);
	else
		EXPECT_RESULT(ginCommAllgather(comm, nullptr, nullptr, 0), ginErrorPeer);
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

int main()
{
	char path[] = "/tmp/unit_stalled.XXXXXX";
	int fd = mkstemp(path);

	EXPECT(fd >= 0);
	logPath = path;
	isSlow = getenv("GIN_BACKEND") && !strcmp(getenv("GIN_BACKEND"), "gdaki");
	setenv("GIN_WAIT_WARN", "1", 1);
	setenv("GIN_LOG", "warn", 1);
	setenv("GIN_LOG_FILE", path, 1);
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 0);
	setenv("GIN_TRANSPORT", isSlow ? "" : "weak", 1);
	setenv("WEAK_LOSE", "1", 1);
	const int *result = ranksStart(RANKS, 1, run);
	unlink(path);
	close(fd);
	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(result[r], 0);
	return 0;
}
