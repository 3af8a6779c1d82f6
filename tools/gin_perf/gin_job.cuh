// SPDX-License-Identifier: BSD-3-Clause
// gin_job.cuh - the Endpoint and the Job of libgin: device calls, and a rank's communicator
#ifndef GIN_PERF_GIN_JOB_CUH
#define GIN_PERF_GIN_JOB_CUH

#include <gin.h>
#include <gin_device.cuh>

#include <string>

#include "bodies.cuh"
#include "job.h"

struct GinEndpoint {
	ginDevComm dc;
	ginWindow_t window;
	char *memory; // of the window, at this rank
	ginPacketBox box;

	GIN_FN void clearSignals() const
	{
		for (uint32_t c = 0; c < dc.contexts; c++)
			for (uint32_t id = 0; id < dc.signals; id++)
				Gin(dc, c).resetSignal(id);
	}

	template <class Coop> GIN_FN void start(Coop, Scratch) const {}
	GIN_FN void stop() const {}

	template <class Coop> GIN_FN int put(Coop coop, uint32_t context, int peer, uint64_t to,
					     uint64_t from, uint64_t bytes, Scratch scratch) const
	{
		return Gin(dc, context)
			.put(peer, window, to, window, from, bytes, GinNone{}, GinNone{}, coop,
			     with(scratch));
	}

	template <class Coop> GIN_FN int putSignal(Coop coop, uint32_t context, int peer,
						   uint64_t to, uint64_t from, uint64_t bytes,
						   uint32_t id, Scratch scratch) const
	{
		return Gin(dc, context)
			.put(peer, window, to, window, from, bytes, GinSignalInc{id}, GinNone{},
			     coop, with(scratch));
	}

	template <class Coop, class Value>
	GIN_FN int putValue(Coop coop, uint32_t context, int peer, uint64_t to, Value value) const
	{
		return Gin(dc, context).putValue(peer, window, to, value, GinNone{}, coop);
	}

	template <class Coop> GIN_FN int get(Coop coop, uint32_t context, int peer, uint64_t from,
					     uint64_t to, uint64_t bytes, Scratch scratch) const
	{
		return Gin(dc, context)
			.get(peer, window, from, window, to, bytes, coop, with(scratch));
	}

	template <class Coop> GIN_FN int flush(Coop coop, uint32_t context) const
	{
		return Gin(dc, context).flush(coop);
	}

	template <class Coop>
	GIN_FN int signal(Coop coop, uint32_t context, int peer, uint32_t id) const
	{
		return Gin(dc, context).signal(peer, GinSignalInc{id}, coop);
	}

	// The caller states that it has released: the signal orders nothing, and needs no fence.
	template <class Coop>
	GIN_FN int weakSignal(Coop coop, uint32_t context, int peer, uint32_t id) const
	{
		ginOptions released;
		released.given = ginScopeSystem;
		return Gin(dc, context).signal(peer, GinWeakSignalInc{id}, coop, released);
	}

	template <class Coop>
	GIN_FN int waitSignal(Coop coop, uint32_t context, uint32_t id, uint64_t least) const
	{
		return Gin(dc, context).waitSignal(id, least, coop);
	}

	GIN_FN GinPackets packets(int peer) const { return GinPackets(dc, 0, box, peer); }

	template <class Coop>
	GIN_FN int sendPacket(GinPackets &by, Coop coop, uint64_t from, uint64_t bytes) const
	{
		return by.send(memory + from, static_cast<uint32_t>(bytes), coop);
	}

	template <class Coop>
	GIN_FN int receivePacket(GinPackets &by, Coop coop, uint64_t to, uint64_t bytes) const
	{
		return by.receive(memory + to, static_cast<uint32_t>(bytes), coop);
	}

	template <class Coop> GIN_FN int barrier(Coop coop) const
	{
		return GinBarrier(dc, ginTeamWorld(dc), 0).sync(coop);
	}

private:
	GIN_FN static ginOptions with(Scratch scratch)
	{
		ginOptions options;
		options.scratch = scratch.at;
		options.scratchBytes = scratch.bytes;
		return options;
	}
};

#define CHECK(rank, call)                                                                          \
	do {                                                                                       \
		if ((call) != ginSuccess)                                                          \
			die(rank, "%s: %s", #call, ginGetLastError());                             \
	} while (0)

// A rank: its communicator, window and device communicator.
struct GinJob : Machine {
	typedef GinEndpoint Endpoint;
	int nRanks = 0;
	ginComm_t comm = nullptr;
	ginDevComm dc = {};
	ginWindow_t window = {};
	char *memory = nullptr;
	ginPacketBox box = {};
	void *boxMemory = nullptr;

	GinJob(ginConfig_t config, bool host)
	{
#ifdef __CUDACC__
		if (host)
			config.device = GIN_DEVICE_NONE;
#else
		(void)host;
		config.device = GIN_DEVICE_NONE;
#endif
		int device;
		CHECK(config.rank, ginCommInit(&config, &comm));
		CHECK(config.rank, ginCommRank(comm, &rank));
		CHECK(rank, ginCommSize(comm, &nRanks));
		CHECK(rank, ginCommDevice(comm, &device));
		useDevice(device);
	}

	~GinJob()
	{
		CHECK(rank, ginDevCommDestroy(comm, &dc));
		CHECK(rank, ginWindowDeregister(comm, box.window));
		CHECK(rank, ginMemFree(comm, boxMemory));
		CHECK(rank, ginWindowDeregister(comm, window));
		CHECK(rank, ginMemFree(comm, memory));
		CHECK(rank, ginCommDestroy(comm));
	}

	GinJob(const GinJob &) = delete;
	GinJob &operator=(const GinJob &) = delete;

	void prepare(size_t bytes, uint32_t contexts, uint32_t signals, uint32_t timeout)
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
		void *at;
		want.contexts = contexts;
		want.signals = signals + 2 * static_cast<uint32_t>(nRanks);
		want.timeout = timeout * 1000000000ull;
		CHECK(rank, ginMemAlloc(comm, bytes, &at));
		memory = static_cast<char *>(at);
		CHECK(rank, ginWindowRegister(comm, at, bytes, 0, &window));
		prepareBox(signals);
		CHECK(rank, ginDevCommCreate(comm, &want, &dc));
	}

	// The device communicator is made after it: all ranks have cleared their boxes then.
	void prepareBox(uint32_t signals)
	{
		size_t bytes = ginPacketBoxBytes(static_cast<uint32_t>(nRanks), GIN_PACKETS_MOST);
		CHECK(rank, ginMemAlloc(comm, bytes, &boxMemory));
		copy(boxMemory, std::string(bytes, 0).data(), bytes);
		box = {{}, 0, GIN_PACKETS_MOST, signals};
		CHECK(rank, ginWindowRegister(comm, boxMemory, bytes, 0, &box.window));
	}

	Endpoint endpoint() const
	{
		return {dc, window, memory, box};
	}

	// Waits for all ranks. Uses the control plane, not the calls that are measured.
	void meet() const
	{
		ginWindow_t empty;
		CHECK(rank, ginWindowRegister(comm, nullptr, 0, 0, &empty));
		CHECK(rank, ginWindowDeregister(comm, empty));
	}

	[[noreturn]] void failed(int status) const
	{
		ginErrorRecord_t record;
		ginDevCommGetError(comm, &dc, &record);
		die(rank, "a device call failed: %s: %s",
		    ginGetErrorString(static_cast<ginResult_t>(status)), ginGetLastError());
		abort();
	}

	Description describe() const
	{
		Description text;
		int version;
		CHECK(rank, ginGetVersion(&version));
		text.library = "libgin " + std::to_string(version / 10000) + "." +
			       std::to_string(version / 100 % 100) + "." +
			       std::to_string(version % 100);
		for (int peer = 0; peer < nRanks; peer++) {
			ginPeerInfo_t info = GIN_PEER_INFO_INIT;
			CHECK(rank, ginCommQueryPeer(comm, peer, &info));
			text.peers.push_back({info.host, info.device, info.backend, info.why});
		}
		return text;
	}
};

#endif
