// SPDX-License-Identifier: BSD-3-Clause
// unit_attach - gin_info --attach names the waits of running processes, signals, and a ring of
// waits, and what they have posted; the processes go on. Without a ring it names the rank for which
// the others wait. ginDump() tells a process of itself. A process that hardly reads does not hold
// up ginCommDestroy().
/* NEEDS: tools/gin_info */
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

#include <gin_device.cuh>

#include "expect.h"
#include "ranks.h"

enum { RANKS = 3, STEPS = 2, BYTES = 24, OTHERS = 4 };

// What rank 0 has read, for all ranks: a file, because the ranks are processes.
static int *pidOf, *seen; // shared

struct Args {
	ginDevComm dc;
	ginWindow_t window;
	bool ring;
	uint64_t least;
	ginResult_t result;
};

// Rank r waits for a signal of rank r + 1; the last rank, if there is no ring, for nobody.
static void wait(void *arg)
{
	Args &args = *static_cast<Args *>(arg);
	Gin gin(args.dc, 0);
	ginOptions options;

	options.from = {(args.dc.rank + 1) % RANKS, 1, 1};
	args.result = ginSuccess;
	if (args.ring || args.dc.rank + 1 < RANKS)
		args.result = gin.waitSignal(1, args.least, {}, options);
}

static void send(void *arg)
{
	Args &args = *static_cast<Args *>(arg);

	args.result = Gin(args.dc, 0)
			      .put((args.dc.rank + RANKS - 1) % RANKS, args.window, 0, args.window,
				   BYTES, BYTES, GinSignalInc{1});
}

static char path[600]; // of gin_info

static void findTool()
{
	char own[512];
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);

	EXPECT(length > 0);
	own[length] = '\0';
	*strrchr(own, '/') = '\0';
	snprintf(path, sizeof(path), "%s/../tools/gin_info", own);
	if (!access(path, X_OK))
		return;
	printf("there is no gin_info: hwloc is missing, or make has not built the tools\n");
	exit(77);
}

static std::string gin_info(int pid, const char *options = "")
{
	char command[700], part[512];
	std::string text;

	snprintf(command, sizeof(command), "%s --attach %d %s 2>&1", path, pid, options);
	FILE *tool = popen(command, "r");
	EXPECT(tool != nullptr);
	while (fgets(part, sizeof(part), tool))
		text += part;
	pclose(tool);
	return text;
}

// Answers as a rank of another process: gin_info has to compare the process that it asks.
static std::thread impostor()
{
	sockaddr_un name = {AF_UNIX, {}};
	const int length =
		snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "gin.%d.9999", pidOf[1]);
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const socklen_t bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) +
				static_cast<socklen_t>(length);

	EXPECT(!bind(fd, reinterpret_cast<sockaddr *>(&name), bytes) && !listen(fd, 4));
	return std::thread([fd] {
		const char text[] = "libgin 1 ab 0 1 1 impostor\n";
		for (int peer; (peer = accept(fd, nullptr, nullptr)) >= 0; close(peer))
			if (send(peer, text, sizeof(text) - 1, MSG_NOSIGNAL) < 0)
				continue;
	});
}

// Asks until the words are there: kernels may begin later, or answer later than gin_info waits.
static std::string awaitWords(const char *words, const char *options = "")
{
	std::string text;

	for (int tries = 0; tries < 60; tries++) {
		text = gin_info(pidOf[1], options);
		if (text.find(words) != std::string::npos)
			return text;
	}
	EXPECT_HAS(text.c_str(), words);
	return text;
}

// Ranks 0 and 1 wait; each rank has put once.
static void watchMetrics()
{
	const std::string text = awaitWords(",rank=\"1\"} 1\n", "--prometheus"); // its wait
	const char *posts = ",devcomm=\"1\",peer=\"0\",route=\"proxy\"} ";
	size_t at = text.find("gin_posted_total{comm=\"");

	EXPECT(at != std::string::npos);
	const std::string comm = text.substr(at + strlen("gin_posted_total"), 24);
	const std::string rank1 = comm + ",rank=\"1\"", rank2 = comm + ",rank=\"2\"";
	EXPECT_HAS(text.c_str(), "# TYPE gin_posted_total counter\n");
	EXPECT_HAS(text.c_str(), ("gin_completed_total" + rank1 + posts + "1\n").c_str());
	EXPECT_HAS(text.c_str(), ("gin_put_bytes_total" + rank1 + posts + "24\n").c_str());
	EXPECT_HAS(text.c_str(), ("gin_get_bytes_total" + rank1 + posts + "0\n").c_str());
	EXPECT_HAS(text.c_str(), ("gin_waits" + rank1 + "} 1\n").c_str());
	EXPECT_HAS(text.c_str(), ("gin_waits" + rank2 + "} 0\n").c_str());
	EXPECT_HAS(text.c_str(), ("gin_lost_ranks" + rank1 + "} 0\n").c_str());
}

static void watch(int step)
{
	if (step == 0) {
		impostor().detach();
		std::string text =
			awaitWords("a ring of waits: rank 0 waits for rank 1 waits for rank "
				   "2 waits for rank 0\n");
		EXPECT_HAS(text.c_str(), " s: waitSignal in context 0 of device communicator 1, "
					 "signal 1: expected at least 1, saw 0; rank 2 (host ");
		size_t at = 0;
		for (const char *words :
		     {"rank 0 of 3, process ", "rank 1 of 3, process ", "rank 2 of 3, process "}) {
			at = text.find(words, at);
			EXPECT(at != std::string::npos);
		}
		EXPECT(text.find("have answered") == std::string::npos);
		EXPECT(text.find("impostor") == std::string::npos);
		EXPECT_HAS(text.c_str(), "1 contexts, 2 signals, 4 counters, 4 barriers\n");
	} else {
		std::string text = awaitWords("rank 1 waits for rank 2, which waits for no rank");
		EXPECT_HAS(text.c_str(), "  signal 1 of context 0: 1\n");
		EXPECT(text.find("ring") == std::string::npos);
		EXPECT_HAS(text.c_str(), "  to rank 0 by proxy: 1 posted, 1 completed, 0 failed, "
					 "24 bytes put, 0 got\n");
		watchMetrics();
	}
}

// Asks until this process's kernel waits.
static void dumpOwn()
{
	char text[4096];

	for (int tries = 0;; tries++) {
		const int fd = memfd_create("dump", 0);
		EXPECT_SUCCESS(ginDump(fd));
		const ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
		close(fd);
		EXPECT(length > 0 && tries < 60);
		text[length] = '\0';
		if (strstr(text, "\nwait "))
			break;
	}
	EXPECT_HAS(text, "\ndevice communicator 1: 1 contexts, 2 signals, ");
	EXPECT_HAS(text, "\nwait 1 ");
	EXPECT_EQUAL(ginDump(-1), ginErrorInvalidArgument);
	EXPECT_HAS(ginGetLastError(), "ginDump: fd is -1: must be an open descriptor");
	EXPECT_HAS(text, "signal 1: expected at least 1, saw 0; rank 1 (host ");
}

// A child of rank 0 watches: a process that does not communicate.
static void step(const ginConfig_t *config, const ginDevComm &dc, ginWindow_t window, int number)
{
	Args waits = {dc, window, number == 0, number + 1u, ginErrorInvalidUsage}, sends = waits;
	pid_t child = config->rank ? 0 : fork();

	if (!config->rank && !child) {
		watch(number);
		__atomic_store_n(seen, number + 1, __ATOMIC_RELEASE);
		_exit(0);
	}
	pthread_t thread;
	EXPECT(!pthread_create(
		&thread, nullptr,
		[](void *arg) -> void * {
			EXPECT_SUCCESS(ginHostLaunch(1, 1, wait, arg));
			return nullptr;
		},
		&waits));
	if (!config->rank && !number)
		dumpOwn();
	for (int tries = 0; __atomic_load_n(seen, __ATOMIC_ACQUIRE) <= number; tries++) {
		EXPECT(tries < 6000);
		if (!config->rank && waitpid(child, nullptr, WNOHANG) == child)
			EXPECT(__atomic_load_n(seen, __ATOMIC_ACQUIRE) > number);
		usleep(10000);
	}
	EXPECT_SUCCESS(ginHostLaunch(1, 1, send, &sends));
	EXPECT_SUCCESS(sends.result);
	pthread_join(thread, nullptr);
	EXPECT_SUCCESS(waits.result);
}

static int run(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	void *memory;
	ginConfig_t own = *config;
	ginWindow_t window;
	ginComm_t comm;
	ginDevComm dc;

	own.device = GIN_DEVICE_NONE;
	EXPECT_SUCCESS(ginCommInit(&own, &comm));
	EXPECT_SUCCESS(ginMemAlloc(comm, 2 * BYTES, &memory));
	EXPECT_SUCCESS(ginWindowRegister(comm, memory, 2 * BYTES, 0, &window));
	pidOf[config->rank] = getpid();
	want.signals = 2;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	for (int number = 0; number < STEPS; number++) {
		step(config, dc, window, number);
		EXPECT_SUCCESS(ginCommAllgather(comm, nullptr, nullptr, 0));
	}
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, memory));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

enum { LONG = 400, SIGNALS = 64 }; // a text of 800 KiB: a socket keeps a part of it

// Raises all signals, each of which is a line of the text.
static void raise(void *arg)
{
	Args &args = *static_cast<Args *>(arg);

	for (uint32_t i = 0; i < SIGNALS; i++)
		args.result = Gin(args.dc, 0).signal(0, GinSignalInc{i});
}

static int attachAs(const char *name)
{
	struct sockaddr_un to = {};
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	to.sun_family = AF_UNIX;
	memcpy(to.sun_path + 1, name, strlen(name));
	const auto bytes =
		static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + strlen(name));
	EXPECT(fd >= 0 && !connect(fd, reinterpret_cast<sockaddr *>(&to), bytes));
	return fd;
}

static std::string readPart(int fd)
{
	char part[4096];
	const ssize_t got = read(fd, part, sizeof(part));

	return std::string(part, got > 0 ? static_cast<size_t>(got) : 0);
}

// Takes a little often enough that no send() of the answer runs into its time limit.
static std::string readSlowly(int fd, const bool *ended)
{
	std::string text;

	while (!__atomic_load_n(ended, __ATOMIC_ACQUIRE)) {
		text += readPart(fd);
		usleep(250000);
	}
	for (std::string part = readPart(fd); !part.empty(); part = readPart(fd))
		text += part;
	return text;
}

// The text names the device communicators from the newest to the oldest.
static int destroyUnread(const ginConfig_t *)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginConfig_t alone = GIN_CONFIG_INIT;
	std::string name = "gin." + std::to_string(getpid()) + ".1", text;
	ginComm_t comm;
	bool ended = false;

	alone.device = GIN_DEVICE_NONE;
	EXPECT_SUCCESS(ginCommInit(&alone, &comm));
	want.signals = SIGNALS;
	for (int i = 0; i < LONG; i++) {
		Args args = {{}, {}, false, 0, ginErrorInvalidUsage};
		EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &args.dc));
		EXPECT_SUCCESS(ginHostLaunch(1, 1, raise, &args));
		EXPECT_SUCCESS(args.result);
	}
	const int fd = attachAs(name.c_str());
	text = readPart(fd); // the answer has begun
	std::thread reader([&] { text += readSlowly(fd, &ended); });
	EXPECT_SUCCESS(ginCommDestroy(comm));
	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	reader.join();
	close(fd);
	printf("%zu bytes of the text were sent\n", text.size());
	EXPECT_HAS(text.c_str(), "libgin 1 ");
	EXPECT(text.find("device communicator 1:") == std::string::npos);
	return 0;
}

// The socket of a number that a communicator of this process would have.
struct Address {
	struct sockaddr_un at = {};
	socklen_t bytes;

	explicit Address(int number)
	{
		const std::string name =
			"gin." + std::to_string(getpid()) + "." + std::to_string(number);
		at.sun_family = AF_UNIX;
		memcpy(at.sun_path + 1, name.c_str(), name.size());
		bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
	}
	const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&at); }
};

// Answers as a communicator of this process, after OTHERS that get no answer. Tests that run beside
// this one may ask, too.
static void answerAs(int number, const char *text)
{
	const Address own(number);
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	EXPECT(!bind(fd, own.get(), own.bytes) && !listen(fd, OTHERS + 4));
	std::thread([=] {
		for (int i = 0; i < OTHERS; i++) /* stays open */
			EXPECT(accept(fd, nullptr, nullptr) >= 0);
		for (;;) {
			const int asker = accept(fd, nullptr, nullptr);
			EXPECT(write(asker, text, strlen(text)) ==
			       static_cast<ssize_t>(strlen(text)));
			close(asker);
		}
	}).detach();
}

// Connections of others to the sockets of two numbers in turn.
static void connectOthers(int a, int b)
{
	for (int i = 0; i < 2 * OTHERS; i++) {
		const Address to(i % 2 ? a : b);
		EXPECT(!connect(socket(AF_UNIX, SOCK_STREAM, 0), to.get(), to.bytes));
	}
}

static int countOf(const std::string &text, const char *words)
{
	int count = 0;

	for (size_t at = 0; (at = text.find(words, at)) != std::string::npos; at++)
		count++;
	return count;
}

// Two ranks wait for ranks that are not there; one has waits of different age, and a route that
// counts no bytes. Each prints once.
static void madeUp()
{
	answerAs(901, "libgin 1 00000000000000ab 0 4 1 h\n"
		      "device communicator 5: 1 contexts, 1 signals, 0 counters, 0 barriers\n"
		      "to rank 1 by gdaki: 5 posted, 4 completed, 1 failed\n"
		      "wait 3 9 one\nwait 3 2 another\n");
	answerAs(902, "libgin 1 00000000000000ab 1 4 1 h\nrank 3 has failed\nwait 2 5 one\n");
	connectOthers(901, 902);
	const std::string graph = gin_info(getpid()), metrics = gin_info(getpid(), "--prometheus");
	for (const char *words :
	     {"    waits for 9 s: one\n", "  rank 3 has failed\n", "2 ranks of 4 have answered",
	      "rank 0 waits for rank 3, which waits for no rank that is known\n",
	      "rank 1 waits for rank 2, which waits for no rank that is known\n"})
		EXPECT_HAS(graph.c_str(), words);
	for (const char *words :
	     {"gin_failed_total{comm=\"00000000000000ab\",rank=\"0\",devcomm=\"5\",peer=\"1\","
	      "route=\"gdaki\"} 1\n",
	      "gin_waits{comm=\"00000000000000ab\",rank=\"0\"} 2\n",
	      "gin_wait_seconds{comm=\"00000000000000ab\",rank=\"0\"} 9\n",
	      "gin_lost_ranks{comm=\"00000000000000ab\",rank=\"1\"} 1\n"})
		EXPECT_HAS(metrics.c_str(), words);
	EXPECT(metrics.find("gin_put_bytes_total{") == std::string::npos);
	EXPECT_EQUAL(countOf(graph, "rank 0 of 4, process "), 1);
	EXPECT_EQUAL(countOf(metrics, "gin_waits{"), 2);
}

int main()
{
	void *shared =
		mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	EXPECT(shared != MAP_FAILED);
	EXPECT_EQUAL(*ranksStart(1, 0, destroyUnread), 0);
	findTool();
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	setenv("GIN_WAIT_WARN", "0", 1); // nobody else asks the kernels
	seen = static_cast<int *>(shared);
	pidOf = seen + 1;
	EXPECT_HAS(gin_info(getpid()).c_str(), "does not answer: it has no communicator");
	madeUp();
	const int *result = ranksStart(RANKS, 0, run);
	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(result[r], 0);
	return 0;
}
