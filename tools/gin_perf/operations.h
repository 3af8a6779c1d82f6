// SPDX-License-Identifier: BSD-3-Clause
// operations.h - the operations that gin_perf measures
#ifndef GIN_PERF_OPERATIONS_H
#define GIN_PERF_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gin_device.cuh>

enum OperationKind {
	opPutLat,
	opSignalLat,
	opPacketLat,
	opPutFlush,
	opGetLat,
	opBarrier,
	opAllToAll,
	opPutBw,
	opGetBw,
	opPutRate,
	opValueRate
};

struct Operation {
	const char *name;
	OperationKind kind;
	bool stream;	     // all iterations are timed together, not each one
	size_t lastSize;     // default of -e; 0: the operation has no data
	uint32_t iterations; // default of -n
	ginCoopKind coop;    // default of --coop
	const char *what;
};

static const Operation operations[] = {
	{"put_lat", opPutLat, false, 4 << 20, 1000, ginCoopWarp,
	 "put and signal, ping-pong: half of a round trip"},
	{"signal_lat", opSignalLat, false, 0, 1000, ginCoopThread,
	 "signal only, ping-pong: half of a round trip"},
	{"packet_lat", opPacketLat, false, GIN_PACKETS_MOST, 1000, ginCoopWarp,
	 "messages of GinPackets, ping-pong: half of a round trip"},
	{"put_flush", opPutFlush, false, 4 << 20, 1000, ginCoopWarp,
	 "put and flush: from call to return"},
	{"get_lat", opGetLat, false, 4 << 20, 1000, ginCoopWarp,
	 "get and flush: from call to return"},
	{"barrier", opBarrier, false, 0, 1000, ginCoopCta, "barrier of all ranks"},
	{"alltoall", opAllToAll, false, 64 << 10, 200, ginCoopCta,
	 "a block to and from each rank: from first put to last wait"},
	{"put_bw", opPutBw, true, 4 << 20, 20, ginCoopCta,
	 "puts, each message split over all coops"},
	{"get_bw", opGetBw, true, 4 << 20, 20, ginCoopCta,
	 "gets, each message split over all coops"},
	{"put_rate", opPutRate, true, 64, 200, ginCoopThread,
	 "small puts, each coop sends its own messages"},
	{"value_rate", opValueRate, true, 8, 200, ginCoopThread,
	 "putValue, each coop sends its own messages"},
};

static inline const Operation *operationNamed(const char *name, size_t length)
{
	for (const Operation &operation : operations)
		if (strlen(operation.name) == length && !strncmp(operation.name, name, length))
			return &operation;
	return nullptr;
}

static inline const char *coopName(ginCoopKind kind)
{
	static const char *const names[] = {"thread", "warp", "cta"};
	return names[kind];
}

#endif
