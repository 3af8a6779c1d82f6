/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gdaki_failed.cc - a queue pair fails while kernels only wait for signals: their waits end, calls
 * on the peer fail, and the sentence names the queue pair; other device communicators go on
 *
 * Two ranks, which are threads, on one software device: below mlx5/dev/with-device.
 */
#include "suite.h"

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <string>

/* With that many contexts the monitor does not query the state of all queue pairs at once. */
enum { RANKS = 2, CONTEXTS = 16 };

struct WaitForSignal {
	ginDevComm dc;
	ginOptions options;
	uint64_t *result;

	GIN_FN void operator()() const
	{
		*result = Gin(dc, 0).waitSignal(0, 1, GinThread{}, options);
	}
};

struct SignalRight {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		for (uint32_t c = 0; c < dc.contexts; c++) {
			Gin gin(dc, c);
			ginResult_t result = gin.signal(rightOf(dc), GinSignalInc{1});
			results[c] = result == ginSuccess ? gin.flush() : result;
		}
	}
};

/* A key that the peer does not know. */
struct PutRefused {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		if (!dc.rank)
			gin.put(rightOf(dc), window, 0, window, 64, 8);
		*result = gin.waitSignal(0, 1);
	}
};

static uint64_t waitOn(Rank &r, const ginDevComm &dc, ginOptions options)
{
	Results result(r, 1);
	launch(r, 1, 1, WaitForSignal{dc, options, result.words});
	return result.words[0];
}

static void expectSignals(Rank &r, const ginDevComm &dc, ginResult_t expected)
{
	Results results(r, dc.contexts);
	launch(r, 1, 1, SignalRight{dc, results.words});
	EXPECT(results.all(expected));
}

/* The number of the queue pair of the last context to the right. */
static uint32_t queuePair(const ginDevComm &dc)
{
	return ginMlx5Swap(ginGdakiQueue(dc, dc.contexts - 1, rightOf(dc))->fixed.queue) >> 8;
}

static std::string hex(uint32_t number)
{
	char text[16];
	snprintf(text, sizeof(text), "0x%x", number);
	return text;
}

/* As mlx5/dev/control, for this process. */
static void askDevice(const std::string &word)
{
	struct sockaddr_un address = {};
	char answer[64] = "";
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.%d", getenv("MLX5DEV_DIR"),
		 static_cast<int>(getpid()));
	EXPECT(!connect(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof(address)));
	EXPECT(send(fd, word.data(), word.size(), 0) == static_cast<ssize_t>(word.size()));
	EXPECT(recv(fd, answer, sizeof(answer) - 1, 0) > 0 && !strcmp(answer, "ok"));
	close(fd);
}

static void *breakWhenItWaits(void *arg)
{
	const ginDevComm &dc = *static_cast<const ginDevComm *>(arg);

	while (!ginLocalLoad(&dc.abort->waiting))
		sched_yield();
	askDevice("qperror:" + hex(queuePair(dc)));
	return nullptr;
}

static void expectSentence(Rank &r, const ginDevComm &dc, const std::string &words)
{
	ginErrorRecord_t record;

	CHECK(ginDevCommGetError(r.comm, &dc, &record));
	EXPECT(record.valid && record.result == ginErrorPeer);
	EXPECT(record.call == ginCallWaitSignal && record.peer == rightOf(dc));
	if (!strstr(ginGetLastError(), words.c_str()))
		fprintf(stderr, "not there: %s\n", words.c_str());
	EXPECT(strstr(ginGetLastError(), words.c_str()));
}

static void expectOthersGoOn(Rank &r, Device &failed, Device &other)
{
	ginErrorRecord_t record;
	ginResult_t error = ginSuccess;
	ginOptions self = ginTimeout(20000000);

	self.from = {static_cast<uint32_t>(r.rank), 1, 1};
	EXPECT(waitOn(r, failed.dc, self) == ginErrorTimeout);
	expectSignals(r, other.dc, ginSuccess);
	CHECK(ginDevCommGetError(r.comm, &other.dc, &record));
	EXPECT(!record.valid);
	CHECK(ginCommGetAsyncError(r.comm, &error));
	EXPECT(error == ginSuccess);
}

/*
 * The NIC gives up a queue pair in which nothing is in flight, without a CQE. The wait is in
 * another context.
 */
static void whileItWaits(Rank &r)
{
	Device failed(r, CONTEXTS, 2), other(r, 2, 2);
	pthread_t thread;

	if (!r.rank) {
		EXPECT(!pthread_create(&thread, nullptr, breakWhenItWaits, &failed.dc));
		EXPECT(waitOn(r, failed.dc, ginTimeout(GIN_FOREVER)) == ginErrorPeer);
		pthread_join(thread, nullptr);
		expectSentence(r, failed.dc,
			       "queue pair " + hex(queuePair(failed.dc)) +
				       " of context 15 to rank 1 has failed");
		expectSignals(r, failed.dc, ginErrorPeer);
		expectOthersGoOn(r, failed, other);
	}
	meet(r);
	Device later(r, 1, 2);
	expectSignals(r, later.dc, ginSuccess);
	meet(r);
}

/*
 * The peer's NIC refuses a put: a CQE notifies the rank that put; the peer learns it by the queue
 * pair's state.
 */
static void refused(Rank &r)
{
	Buffer words(r, 128);
	Device device(r, 1, 2);
	Results result(r, 1);
	struct ginWindowPeer *to =
		reinterpret_cast<struct ginWindowPeer *>(words.window.table + 1) +
		rightOf(device.dc);
	const uint32_t key = to->nicKey;

	if (!r.rank)
		to->nicKey = ginMlx5Key(0xdead);
	launch(r, 1, 1, PutRefused{device.dc, words.window, result.words});
	to->nicKey = key;
	EXPECT(result.all(ginErrorPeer));
	expectSentence(r, device.dc, r.rank ? "without a completion" : "remote access error");
	meet(r);
}

/* The last test: masks stay. */
static void masked(Rank &r)
{
	Device device(r, 1, 2);
	pthread_t thread;

	if (!r.rank) {
		EXPECT(!pthread_create(&thread, nullptr, breakWhenItWaits, &device.dc));
		EXPECT(waitOn(r, device.dc, ginTimeout(GIN_FOREVER)) == ginErrorPeer);
		pthread_join(thread, nullptr);
		CHECK(ginCommMask(r.comm, 1));
		EXPECT(waitOn(r, device.dc, ginTimeout(20000000)) == ginErrorTimeout);
	}
	meet(r);
}

static int run(const ginConfig_t *config)
{
	const Test tests[] = {{"a queue pair fails while a kernel waits", whileItWaits},
			      {"a put is refused while both ends wait", refused},
			      {"the peer of a failed queue pair is masked", masked}};
	Rank r;
	rankOpen(r, config);
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	CHECK(ginCommQueryPeer(r.comm, 0, &info));
	if (r.nRanks != RANKS || r.device >= 0 || info.route != ginRouteGdaki ||
	    !getenv("MLX5DEV_DIR"))
		skip("needs two host threads on route gdaki, on the software device");
	runTests(r, "gdaki_failed", tests);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, run);
}
