/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.cc - the proxy's network next to raw sockets, between two ranks on host threads
 *
 *	ofi [ROUNDS]
 *
 * One row of text for each measurement, from rank 0:
 *
 *	trip8 raw|alone|ofi|ring US...	half a round trip of 8 bytes and a signal, us: raw sockets,
 *					where the receiver applies what a header says; the
 *					provider alone, by the remote data of a write; libgin
 *					over its network; and, as one way, libgin's ring and
 *					proxy alone, to the own rank by shared memory
 *	pause8 ring US...		the row `trip8 ring`, each put after a pause of 2 ms
 *	trip1k raw|alone|ofi US...	half a round trip of 1 KiB and a signal
 *	put64k raw|alone|ofi|asleep GBS...
 *					64 KiB puts in one direction, GB/s; asleep: libgin, and the
 *					threads that wait sleep between looks, because the GPU
 *					threads that they stand for take no CPU
 *
 * Each figure is the median of a batch; a row has ROUNDS batches (9), and the kinds take turns.
 */
#include <gin.h>
#include <gin_device.cuh>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "provider.h"

#define CHECK(call)                                                                                \
	do {                                                                                       \
		if ((call) != ginSuccess) {                                                        \
			fprintf(stderr, "%s: %s\n", #call, ginGetLastError());                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static constexpr size_t windowBytes = 1 << 20, middle = 1024, large = 65536;
static constexpr uint32_t trips = 1000, larges = 400, pauses = 25;

static double nowUs()
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

static void die(const char *what)
{
	fprintf(stderr, "ofi: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double median(std::vector<double> &of)
{
	std::nth_element(of.begin(), of.begin() + static_cast<long>(of.size() / 2), of.end());
	return of[of.size() / 2];
}

/* Raw sockets: a header says where the bytes go and whether a signal is raised after them. */
struct Header {
	uint64_t offset, bytes, signal;
};

struct Raw {
	int fd;
	char *window;
	uint64_t signals; /* that have come */

	void sendAll(struct iovec *v, int count) const
	{
		while (count) {
			ssize_t sent = writev(fd, v, count);
			if (sent < 0 && errno != EAGAIN)
				die("writev");
			for (size_t left = sent < 0 ? 0 : static_cast<size_t>(sent);
			     left && count;) {
				size_t step = std::min(left, v->iov_len);
				v->iov_base = static_cast<char *>(v->iov_base) + step;
				v->iov_len -= step;
				left -= step;
				if (!v->iov_len)
					v++, count--;
			}
			if (sent < 0)
				sched_yield();
		}
	}

	void put(uint64_t offset, const void *from, size_t bytes, uint64_t signal) const
	{
		Header head = {offset, bytes, signal};
		struct iovec v[2] = {{&head, sizeof(head)}, {const_cast<void *>(from), bytes}};
		sendAll(v, bytes ? 2 : 1);
	}

	/* Spins: the fastest that a thread can do. */
	void read(void *to, size_t bytes) const
	{
		while (bytes) {
			ssize_t got = ::read(fd, to, bytes);
			if (got == 0 || (got < 0 && errno != EAGAIN))
				die("read");
			if (got < 0)
				continue;
			to = static_cast<char *>(to) + got;
			bytes -= static_cast<size_t>(got);
		}
	}

	void wait(uint64_t least)
	{
		Header head;
		while (signals < least) {
			read(&head, sizeof(head));
			read(window + head.offset, head.bytes);
			signals += head.signal;
		}
	}
};

struct Pair {
	ginComm_t comm;
	int rank;
	ginDevComm dc;
	ginWindow_t window;
	char *memory;
	Raw raw;
	Provider *alone;
	uint64_t seen; /* signals of libgin */
};

/* A connection between the two ranks by the address of rank 0's host name. */
static int connectRanks(Pair &p)
{
	struct sockaddr_storage all[2] = {}, mine = {};
	socklen_t length = sizeof(struct sockaddr_in6);
	int listener = -1, one = 1;

	if (p.rank == 0) {
		char name[256];
		struct addrinfo hints = {}, *found;
		hints.ai_socktype = SOCK_STREAM;
		if (gethostname(name, sizeof(name)) || getaddrinfo(name, nullptr, &hints, &found))
			die("the own address");
		listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(listener, found->ai_addr, found->ai_addrlen) || listen(listener, 1) ||
		    getsockname(listener, reinterpret_cast<sockaddr *>(&mine), &length))
			die("listen");
		freeaddrinfo(found);
	}
	CHECK(ginCommAllgather(p.comm, &mine, all, sizeof(mine)));
	int fd = p.rank == 0 ? accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)
			     : socket(all[0].ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p.rank && connect(fd, reinterpret_cast<sockaddr *>(&all[0]),
			      all[0].ss_family == AF_INET ? sizeof(struct sockaddr_in)
							  : sizeof(struct sockaddr_in6)))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static double rawTrips(Pair &p, size_t bytes)
{
	std::vector<double> times;
	for (uint32_t i = 0; i < trips; i++) {
		double start = nowUs();
		uint64_t next = p.raw.signals + 1;
		if (p.rank)
			p.raw.wait(next);
		p.raw.put(0, p.memory + middle, bytes, 1);
		if (!p.rank)
			p.raw.wait(next);
		times.push_back((nowUs() - start) / 2);
	}
	return median(times);
}

static double rawLarge(Pair &p)
{
	double start = nowUs();
	for (uint32_t i = 0; i < larges && !p.rank; i++)
		p.raw.put(0, p.memory, large, i + 1 == larges);
	p.raw.wait(p.raw.signals + 1);
	if (p.rank)
		p.raw.put(0, nullptr, 0, 1);
	return static_cast<double>(large) * larges / (nowUs() - start) / 1e3;
}

static double aloneTrips(Pair &p, size_t bytes)
{
	std::vector<double> times;
	for (uint32_t i = 0; i < trips; i++) {
		double start = nowUs();
		uint64_t next = p.alone->signals + 1;
		if (p.rank)
			p.alone->wait(next);
		p.alone->put(bytes, true);
		if (!p.rank)
			p.alone->wait(next);
		times.push_back((nowUs() - start) / 2);
	}
	p.alone->drain();
	return median(times);
}

static double aloneLarge(Pair &p)
{
	double start = nowUs();
	uint64_t next = p.alone->signals + 1;
	for (uint32_t i = 0; i < larges && !p.rank; i++)
		p.alone->put(large, i + 1 == larges);
	p.alone->wait(next);
	if (p.rank)
		p.alone->put(0, true);
	p.alone->drain();
	return static_cast<double>(large) * larges / (nowUs() - start) / 1e3;
}

static void need(ginResult_t result)
{
	if (result == ginSuccess)
		return;
	fprintf(stderr, "ofi: a device call failed: %s\n", ginGetErrorString(result));
	exit(1);
}

/* On a host thread, which stands in for a GPU thread. */
struct Trips {
	Pair *p;
	size_t bytes;
	std::vector<double> *times;

	void put(Gin &gin, int peer, uint64_t i) const
	{
		if (bytes == sizeof(i))
			need(gin.putValue(peer, p->window, 0, i, GinSignalInc{0}));
		else
			need(gin.put(peer, p->window, 0, p->window, middle, bytes,
				     GinSignalInc{0}));
	}

	void operator()() const
	{
		Gin gin(p->dc, 0);
		int peer = !p->rank;
		for (uint32_t i = 0; i < trips; i++) {
			double start = nowUs();
			p->seen++;
			if (p->rank)
				need(gin.waitSignal(0, p->seen));
			put(gin, peer, i);
			if (!p->rank)
				need(gin.waitSignal(0, p->seen));
			times->push_back((nowUs() - start) / 2);
		}
	}
};

struct Larges {
	Pair *p;
	bool sleeps;
	double *rate;

	void wait(Gin &gin) const
	{
		while (sleeps && gin.readSignal(0) < p->seen)
			usleep(20);
		need(gin.waitSignal(0, p->seen));
	}

	void operator()() const
	{
		Gin gin(p->dc, 0);
		double start = nowUs();
		p->seen++;
		if (p->rank) {
			wait(gin);
			need(gin.signal(0, GinSignalInc{0}));
		} else {
			for (uint32_t i = 0; i + 1 < larges; i++)
				need(gin.put(1, p->window, 0, p->window, 0, large));
			need(gin.put(1, p->window, 0, p->window, 0, large, GinSignalInc{0}));
			wait(gin);
		}
		*rate = static_cast<double>(large) * larges / (nowUs() - start) / 1e3;
	}
};

/* To the own rank: the way of a descriptor through the ring and the proxy, and of a signal back. */
struct Rings {
	Pair *p;
	uint64_t *seen;
	std::vector<double> *times;
	uint32_t count;
	unsigned pauseUs; /* before each put; 0: none */

	void operator()() const
	{
		Gin gin(p->dc, 1);
		for (uint32_t i = 0; i < count; i++) {
			if (pauseUs)
				usleep(pauseUs);
			double start = nowUs();
			need(gin.putValue(p->rank, p->window, 8, uint64_t{i}, GinSignalInc{1}));
			need(gin.waitSignal(1, ++*seen));
			times->push_back(nowUs() - start);
		}
	}
};

template <class Body> static void runHost(void *body)
{
	(*static_cast<Body *>(body))();
}

template <class Body> static void launch(Body body)
{
	CHECK(ginHostLaunch(1, 1, runHost<Body>, &body));
}

static void meet(const Pair &p)
{
	CHECK(ginCommAllgather(p.comm, nullptr, nullptr, 0));
}

static void openPair(Pair &p)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginConfig_t config = GIN_CONFIG_INIT;
	int nRanks = 0;
	void *memory = nullptr;

	config.device = GIN_DEVICE_NONE;
	CHECK(ginCommInit(&config, &p.comm));
	CHECK(ginCommRank(p.comm, &p.rank));
	CHECK(ginCommSize(p.comm, &nRanks));
	if (nRanks != 2) {
		fprintf(stderr, "ofi: two ranks are needed\n");
		exit(2);
	}
	CHECK(ginMemAlloc(p.comm, windowBytes, &memory));
	p.memory = static_cast<char *>(memory);
	memset(p.memory, 1, windowBytes);
	CHECK(ginWindowRegister(p.comm, memory, windowBytes, 0, &p.window));
	want.contexts = want.signals = 2;
	CHECK(ginDevCommCreate(p.comm, &want, &p.dc));
	p.raw = {connectRanks(p), p.memory, 0};
}

static void closePair(Pair &p)
{
	meet(p);
	p.alone->close();
	delete p.alone;
	CHECK(ginDevCommDestroy(p.comm, &p.dc));
	CHECK(ginWindowDeregister(p.comm, p.window));
	CHECK(ginMemFree(p.comm, p.memory));
	CHECK(ginCommDestroy(p.comm));
}

/* The provider that libgin uses, by the address of the raw sockets. */
static void openAlone(Pair &p)
{
	Provider::Address mine, all[2];
	struct sockaddr_storage source;
	socklen_t length = sizeof(source);
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	char name[32] = "", host[64];

	CHECK(ginCommQueryPeer(p.comm, !p.rank, &info));
	if (!p.rank)
		printf("route %s: %s\n", info.backend, info.why);
	const char *at = strstr(info.why, "libfabric ");
	if (!at || sscanf(at, "libfabric %31[^,]", name) != 1 ||
	    getsockname(p.raw.fd, reinterpret_cast<sockaddr *>(&source), &length) ||
	    getnameinfo(reinterpret_cast<sockaddr *>(&source), length, host, sizeof(host), nullptr,
			0, NI_NUMERICHOST)) {
		fprintf(stderr, "ofi: the ranks are not connected by libfabric: %s\n", info.why);
		exit(2);
	}
	p.alone = new Provider;
	mine = p.alone->open(name, host, p.memory, windowBytes);
	CHECK(ginCommAllgather(p.comm, &mine, all, sizeof(mine)));
	p.alone->connect(all[!p.rank]);
}

static void row(const Pair &p, const char *name, const std::vector<double> &values)
{
	if (p.rank)
		return;
	printf("%s", name);
	for (double value : values)
		printf(" %.3f", value);
	printf("\n");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 9;
	std::vector<double> rawTrip[2], aloneTrip[2], ofiTrip[2], ringTrip, rawRate, aloneRate,
		ofiRate, asleepRate, ringPause, times;
	uint64_t ringSeen = 0;
	double rate = 0;
	Pair p = {};

	openPair(p);
	openAlone(p);
	for (int i = 0; i < rounds; i++) {
		meet(p);
		for (size_t k = 0; k < 2; k++) {
			size_t bytes = k ? middle : 8;
			rawTrip[k].push_back(rawTrips(p, bytes));
			meet(p);
			aloneTrip[k].push_back(aloneTrips(p, bytes));
			meet(p);
			launch(Trips{&p, bytes, &times});
			ofiTrip[k].push_back(median(times)), times.clear();
			meet(p);
		}
		if (!p.rank) {
			launch(Rings{&p, &ringSeen, &times, trips, 0});
			ringTrip.push_back(median(times)), times.clear();
			launch(Rings{&p, &ringSeen, &times, pauses, 2000});
			ringPause.push_back(median(times)), times.clear();
		}
		meet(p);
		rawRate.push_back(rawLarge(p));
		meet(p);
		aloneRate.push_back(aloneLarge(p));
		meet(p);
		launch(Larges{&p, false, &rate});
		ofiRate.push_back(rate);
		meet(p);
		launch(Larges{&p, true, &rate});
		asleepRate.push_back(rate);
	}
	row(p, "trip8 raw", rawTrip[0]);
	row(p, "trip8 alone", aloneTrip[0]);
	row(p, "trip8 ofi", ofiTrip[0]);
	row(p, "trip8 ring", ringTrip);
	row(p, "pause8 ring", ringPause);
	row(p, "trip1k raw", rawTrip[1]);
	row(p, "trip1k alone", aloneTrip[1]);
	row(p, "trip1k ofi", ofiTrip[1]);
	row(p, "put64k raw", rawRate);
	row(p, "put64k alone", aloneRate);
	row(p, "put64k ofi", ofiRate);
	row(p, "put64k asleep", asleepRate);
	closePair(p);
	return 0;
}
