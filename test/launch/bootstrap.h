/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap.h - shared code of the bootstrap tests: data that identifies its communicator, ports,
 * and calls that fail
 */
#ifndef GIN_TEST_BOOTSTRAP_H
#define GIN_TEST_BOOTSTRAP_H

#include "harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <initializer_list>

enum : uint32_t { EXCHANGE_BYTES = 1003 };

inline unsigned char exchangedByte(uint32_t tag, int from, int to, size_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + tag * 0x10001u +
		     static_cast<uint32_t>(from) * 0x101u + static_cast<uint32_t>(to) * 0x1003u;
	return static_cast<unsigned char>(x >> 32 ^ x >> 11);
}

/* Bytes and a signal to every rank, own included. */
struct PutToAll {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		for (uint32_t i = 0; i < dc.nRanks && result == ginSuccess; i++) {
			uint32_t peer = (dc.rank + i) % dc.nRanks;
			result = gin.put(static_cast<int>(peer), inbox,
					 static_cast<size_t>(dc.rank) * EXCHANGE_BYTES, outbox,
					 static_cast<size_t>(peer) * EXCHANGE_BYTES, EXCHANGE_BYTES,
					 GinSignalInc{0});
		}
		if (result == ginSuccess)
			result = gin.waitSignal(0, dc.nRanks);
		results[0] = result;
	}
};

/* Collective: all to all, every byte checked. `tag` is the communicator's. */
inline void exchange(Rank &r, uint32_t tag)
{
	size_t bytes = static_cast<size_t>(r.nRanks) * EXCHANGE_BYTES;
	Buffer inbox(r, bytes), outbox(r, bytes);
	std::vector<unsigned char> out(bytes), due(bytes);
	Results results(r, 1);
	ginResult_t error = ginErrorCuda;

	for (size_t i = 0; i < bytes; i++) {
		int peer = static_cast<int>(i / EXCHANGE_BYTES);
		out[i] = exchangedByte(tag, r.rank, peer, i % EXCHANGE_BYTES);
		due[i] = exchangedByte(tag, peer, r.rank, i % EXCHANGE_BYTES);
	}
	outbox.write(out);
	inbox.poison();
	Device device(r, 1, 1); /* collective: all have filled theirs */
	launch(r, 1, 1, PutToAll{device.dc, inbox.window, outbox.window, results.words});
	EXPECT(results.all(ginSuccess));
	EXPECT(inbox.read() == due);
	CHECK(ginCommGetAsyncError(r.comm, &error));
	EXPECT(error == ginSuccess);
}

/* Counts that all processes of the test share. */
inline int *newCount()
{
	void *at = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	EXPECT(at != MAP_FAILED);
	return static_cast<int *>(at);
}

inline void add(int *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL);
}

inline void awaitCount(const int *count, int least)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least)
		usleep(1000);
}

#define EXPECT_FAILS(call, result, ...) requireFails(call, result, {__VA_ARGS__}, #call)

/* With words that ginGetLastError() must have, in any order. */
inline void requireFails(ginResult_t seen, ginResult_t due,
			 std::initializer_list<const char *> words, const char *what,
			 const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	if (seen != due)
		fprintf(stderr, "%s, expected %s\n", ginGetErrorString(seen),
			ginGetErrorString(due));
	check(seen == due, what, file, line);
	for (const char *word : words) {
		if (!strstr(ginGetLastError(), word))
			fprintf(stderr, "expected \"%s\"\n", word);
		check(strstr(ginGetLastError(), word) != nullptr, what, file, line);
	}
}

/* A loopback socket on the port, or -1. */
inline int bindPort(int family, uint16_t port)
{
	sockaddr_in v4 = {};
	sockaddr_in6 v6 = {};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	v4.sin_family = AF_INET;
	v4.sin_port = htons(port);
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	v6.sin6_family = AF_INET6;
	v6.sin6_port = htons(port);
	v6.sin6_addr = in6addr_loopback;
	const void *at = family == AF_INET ? static_cast<void *>(&v4) : static_cast<void *>(&v6);
	socklen_t length = family == AF_INET ? sizeof(v4) : sizeof(v6);
	if (fd >= 0 && bind(fd, static_cast<const sockaddr *>(at), length)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* For a child that its parent kills: it must not outlive a parent that fails. */
inline void pauseForTest()
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(100);
	pause();
}

inline uint16_t freePort()
{
	static unsigned next;

	if (!next)
		next = 20000 + static_cast<unsigned>(getpid()) * 64 % 10000;
	for (;;) {
		uint16_t port = static_cast<uint16_t>(next++);
		int fd = bindPort(AF_INET, port);
		if (fd < 0)
			continue;
		close(fd);
		return port;
	}
}

#endif
