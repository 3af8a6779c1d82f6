// SPDX-License-Identifier: BSD-3-Clause
// limits - what copy engines and a TCP connection of this host do by themselves
//
// The bounds of puts from GPU memory to GPU memory over TCP, see backends/proxy/network/bounce.h.
// Prints lines "NAME VALUE": microseconds, best of many, and GB/s, best of several.
//   out_us, in_us             8 bytes from the GPU to pinned memory or back, until a CPU sees them
//   out_64K ..., in_64K ...   GB/s of copies of this size in one stream
//   socket_us                 8 bytes and an answer of 8 bytes over loopback TCP, half of it
//   socket_64K ...            GB/s of writes of this size over loopback TCP
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		CUresult result = call;                                                            \
		if (result) {                                                                      \
			fprintf(stderr, "%s: %d\n", #call, result);                                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const size_t sizes[] = {64 << 10, 256 << 10, 1 << 20};
static const char *const sizeNames[] = {"64K", "256K", "1M"};
static const size_t volume = 256 << 20;

static double now()
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static volatile uint64_t *done;
static CUstream stream;
static CUdeviceptr gpu;
static char *host;

static void copyOne(bool out, size_t at, size_t bytes)
{
	if (out)
		CHECK(cuMemcpyDtoHAsync(host + at, gpu + at, bytes, stream));
	else
		CHECK(cuMemcpyHtoDAsync(gpu + at, host + at, bytes, stream));
}

static double copyLatency(bool out)
{
	double best = 1e9;

	for (uint64_t i = 1; i <= 2000; i++) {
		double start = now();
		copyOne(out, 0, 8);
		CHECK(cuStreamWriteValue64(stream, (CUdeviceptr)done, i, 0));
		while (*done != i)
			;
		if (now() - start < best)
			best = now() - start;
	}
	*done = 0;
	return best;
}

static double copyRate(bool out, size_t bytes)
{
	double best = 0;

	for (uint64_t round = 1; round <= 5; round++) {
		double start = now();
		for (size_t at = 0; at < volume; at += bytes) {
			copyOne(out, at % (16 << 20), bytes);
			CHECK(cuStreamWriteValue64(stream, (CUdeviceptr)(done + 8), at, 0));
		}
		CHECK(cuStreamWriteValue64(stream, (CUdeviceptr)done, round, 0));
		while (*done != round)
			;
		double rate = volume / (now() - start) * 1e-3;
		best = rate > best ? rate : best;
	}
	*done = 0;
	return best;
}

static void measureCopies()
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc(&gpu, 16 << 20));
	CHECK(cuMemHostAlloc((void **)&host, 16 << 20, 0));
	CHECK(cuMemHostAlloc((void **)&done, 128, 0));
	for (int out = 1; out >= 0; out--) {
		const char *name = out ? "out" : "in";
		printf("%s_us %.2f\n", name, copyLatency(out));
		for (int i = 0; i < 3; i++)
			printf("%s_%s %.2f\n", name, sizeNames[i], copyRate(out, sizes[i]));
	}
}

static void readAll(int fd, char *at, size_t bytes)
{
	while (bytes) {
		ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
		if (got == 0)
			exit(0);
		if (got > 0)
			at += got, bytes -= got;
	}
}

static void writeAll(int fd, const char *at, size_t bytes)
{
	while (bytes) {
		ssize_t sent = send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent > 0)
			at += sent, bytes -= sent;
	}
}

// Answers every message of a size with 8 bytes; the first 8 bytes are the size.
static void answer(int fd)
{
	char *buffer = (char *)calloc(1, 1 << 20);

	for (;;) {
		readAll(fd, buffer, 8);
		size_t bytes = *(uint64_t *)buffer;
		if (bytes)
			readAll(fd, buffer, bytes);
		writeAll(fd, buffer, 8);
	}
}

static int connectPair()
{
	struct sockaddr_in address = {};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		exit(1);
	if (fork() == 0) {
		int fd = accept(listener, NULL, NULL);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		answer(fd);
	}
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)&address, length))
		exit(1);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static double socketLatency(int fd)
{
	uint64_t zero = 0;
	double best = 1e9;
	char back[8];

	for (int i = 0; i < 5000; i++) {
		double start = now();
		writeAll(fd, (char *)&zero, 8);
		readAll(fd, back, 8);
		if (now() - start < best)
			best = now() - start;
	}
	return best / 2;
}

static double socketRate(int fd, size_t bytes)
{
	char *buffer = (char *)calloc(1, bytes), back[8];
	uint64_t size = bytes;
	double best = 0;

	for (int round = 0; round < 5; round++) {
		size_t under = 0;
		double start = now();
		for (size_t at = 0; at < volume; at += bytes) {
			writeAll(fd, (char *)&size, 8);
			writeAll(fd, buffer, bytes);
			if (++under == 8)
				readAll(fd, back, 8), under--;
		}
		while (under--)
			readAll(fd, back, 8);
		double rate = volume / (now() - start) * 1e-3;
		best = rate > best ? rate : best;
	}
	free(buffer);
	return best;
}

int main()
{
	int fd = connectPair();

	printf("socket_us %.2f\n", socketLatency(fd));
	for (int i = 0; i < 3; i++)
		printf("socket_%s %.2f\n", sizeNames[i], socketRate(fd, sizes[i]));
	close(fd);
	wait(NULL);
	measureCopies();
	return 0;
}
