// SPDX-License-Identifier: BSD-3-Clause
// nvshmem_perf - the measurements of gin_perf, by NVSHMEM's device calls
//
// Loops, comparison of bytes, output and options are those of gin_perf, see gin_perf(1). Each
// process is a PE with a GPU. NVSHMEM_PERF_ID names a file by which the processes find each other;
// it must not exist at the start. Without the variable, nvshmem_init() is used.
#include <nvshmem.h>
#include <nvshmemx.h>

#include "tools/gin_perf/bodies.cuh"
#include "tools/gin_perf/session.cuh"

#define HAS_TMA (NVSHMEM_VENDOR_MAJOR_VERSION * 100 + NVSHMEM_VENDOR_MINOR_VERSION >= 308)

// The calls are for kernels; the host needs the type only.
struct NvshmemEndpoint {
	char *memory;
	uint64_t *signals; // [contexts][ids]
	uint32_t contexts, ids;

	// NVSHMEM has no messages that carry their flags.
	GIN_FN int packets(int) const { return 0; }
	template <class... Args> GIN_FN int sendPacket(Args...) const { return -1; }
	template <class... Args> GIN_FN int receivePacket(Args...) const { return -1; }

#if GIN_ON_GPU
	GIN_FN void clearSignals() const
	{
		for (uint32_t i = 0; i < contexts * ids; i++)
			signals[i] = 0;
	}

	// NVSHMEM takes the scratch memory of all coops of the block at once. Without a policy in
	// NVSHMEM_TMA_POLICY it does not use it.
	template <class Coop> GIN_FN void start(Coop coop, Scratch scratch) const
	{
#if HAS_TMA
		uint32_t before = ginThreadIndex() / coop.size() * scratch.bytes;
		if (scratch.bytes)
			nvshmemx_give_smem(scratch.at - before,
					   ginBlockSize() / coop.size() * scratch.bytes);
#endif
		(void)coop, (void)scratch;
	}

	GIN_FN void stop() const
	{
#if HAS_TMA
		__syncthreads(); // other coops of the block still use the memory
		nvshmemx_release_smem();
#endif
	}

	GIN_FN int put(GinThread, uint32_t, int peer, uint64_t to, uint64_t from, uint64_t bytes,
		       Scratch) const
	{
		nvshmem_putmem_nbi(memory + to, memory + from, bytes, peer);
		return 0;
	}

	GIN_FN int put(GinWarp, uint32_t, int peer, uint64_t to, uint64_t from, uint64_t bytes,
		       Scratch) const
	{
		nvshmemx_putmem_nbi_warp(memory + to, memory + from, bytes, peer);
		return 0;
	}

	GIN_FN int put(GinCta, uint32_t, int peer, uint64_t to, uint64_t from, uint64_t bytes,
		       Scratch) const
	{
		nvshmemx_putmem_nbi_block(memory + to, memory + from, bytes, peer);
		return 0;
	}

	GIN_FN int putSignal(GinThread, uint32_t context, int peer, uint64_t to, uint64_t from,
			     uint64_t bytes, uint32_t id, Scratch) const
	{
		nvshmem_putmem_signal_nbi(memory + to, memory + from, bytes, word(context, id), 1,
					  NVSHMEM_SIGNAL_ADD, peer);
		return 0;
	}

	GIN_FN int putSignal(GinWarp, uint32_t context, int peer, uint64_t to, uint64_t from,
			     uint64_t bytes, uint32_t id, Scratch) const
	{
		nvshmemx_putmem_signal_nbi_warp(memory + to, memory + from, bytes,
						word(context, id), 1, NVSHMEM_SIGNAL_ADD, peer);
		return 0;
	}

	GIN_FN int putSignal(GinCta, uint32_t context, int peer, uint64_t to, uint64_t from,
			     uint64_t bytes, uint32_t id, Scratch) const
	{
		nvshmemx_putmem_signal_nbi_block(memory + to, memory + from, bytes,
						 word(context, id), 1, NVSHMEM_SIGNAL_ADD, peer);
		return 0;
	}

	template <class Coop>
	GIN_FN int putValue(Coop coop, uint32_t, int peer, uint64_t to, uint64_t value) const
	{
		if (coop.thread_rank() == 0)
			nvshmem_uint64_p(reinterpret_cast<uint64_t *>(memory + to), value, peer);
		return 0;
	}

	template <class Coop>
	GIN_FN int putValue(Coop coop, uint32_t, int peer, uint64_t to, uint32_t value) const
	{
		if (coop.thread_rank() == 0)
			nvshmem_uint32_p(reinterpret_cast<uint32_t *>(memory + to), value, peer);
		return 0;
	}

	GIN_FN int get(GinThread, uint32_t, int peer, uint64_t from, uint64_t to, uint64_t bytes,
		       Scratch) const
	{
		nvshmem_getmem_nbi(memory + to, memory + from, bytes, peer);
		return 0;
	}

	GIN_FN int get(GinWarp, uint32_t, int peer, uint64_t from, uint64_t to, uint64_t bytes,
		       Scratch) const
	{
		nvshmemx_getmem_nbi_warp(memory + to, memory + from, bytes, peer);
		return 0;
	}

	GIN_FN int get(GinCta, uint32_t, int peer, uint64_t from, uint64_t to, uint64_t bytes,
		       Scratch) const
	{
		nvshmemx_getmem_nbi_block(memory + to, memory + from, bytes, peer);
		return 0;
	}

	template <class Coop> GIN_FN int flush(Coop coop, uint32_t) const
	{
		coop.sync();
		if (coop.thread_rank() == 0)
			nvshmem_quiet();
		coop.sync();
		return 0;
	}

	// A signal operation orders nothing; with a fence before it, it acts as a strong signal.
	template <class Coop>
	GIN_FN int signal(Coop coop, uint32_t context, int peer, uint32_t id) const
	{
		coop.sync();
		if (coop.thread_rank() == 0)
			nvshmem_fence();
		return weakSignal(coop, context, peer, id);
	}

	template <class Coop>
	GIN_FN int weakSignal(Coop coop, uint32_t context, int peer, uint32_t id) const
	{
		if (coop.thread_rank() == 0)
			nvshmemx_signal_op(word(context, id), 1, NVSHMEM_SIGNAL_ADD, peer);
		coop.sync();
		return 0;
	}

	template <class Coop>
	GIN_FN int waitSignal(Coop coop, uint32_t context, uint32_t id, uint64_t least) const
	{
		if (coop.thread_rank() == 0)
			nvshmem_signal_wait_until(word(context, id), NVSHMEM_CMP_GE, least);
		coop.sync();
		return 0;
	}

	GIN_FN int barrier(GinThread) const
	{
		nvshmem_barrier_all();
		return 0;
	}

	GIN_FN int barrier(GinWarp) const
	{
		nvshmemx_barrier_all_warp();
		return 0;
	}

	GIN_FN int barrier(GinCta) const
	{
		nvshmemx_barrier_all_block();
		return 0;
	}

private:
	GIN_FN uint64_t *word(uint32_t context, uint32_t id) const
	{
		return signals + context * ids + id;
	}
#else
	void clearSignals() const
	{
	}
	template <class... Args> void start(Args...) const
	{
	}
	void stop() const
	{
	}
	template <class... Args> int put(Args...) const
	{
		return -1;
	}
	template <class... Args> int putSignal(Args...) const
	{
		return -1;
	}
	template <class... Args> int putValue(Args...) const
	{
		return -1;
	}
	template <class... Args> int get(Args...) const
	{
		return -1;
	}
	template <class... Args> int flush(Args...) const
	{
		return -1;
	}
	template <class... Args> int signal(Args...) const
	{
		return -1;
	}
	template <class... Args> int weakSignal(Args...) const
	{
		return -1;
	}
	template <class... Args> int waitSignal(Args...) const
	{
		return -1;
	}
	template <class... Args> int barrier(Args...) const
	{
		return -1;
	}
#endif
};

// The number in the first of these variables that is set.
static int launcherSays(const char *const *names, int otherwise)
{
	for (; *names; names++)
		if (getenv(*names))
			return atoi(getenv(*names));
	return otherwise;
}

// Passes the id by a file. The file is renamed when it is complete, so that no PE reads a part.
static void shareId(int rank, const std::string &path, nvshmemx_uniqueid_t *id)
{
	std::string part = path + ".part";
	if (rank == 0) {
		if (nvshmemx_get_uniqueid(id))
			die(rank, "nvshmemx_get_uniqueid");
		FILE *file = fopen(part.c_str(), "w");
		if (!file || fwrite(id, sizeof(*id), 1, file) != 1 || fclose(file) ||
		    rename(part.c_str(), path.c_str()))
			die(rank, "%s: %s", path.c_str(), strerror(errno));
		return;
	}
	for (int tries = 0; tries < 3000; tries++) {
		FILE *file = fopen(path.c_str(), "r");
		size_t read = file ? fread(id, sizeof(*id), 1, file) : 0;
		if (file)
			fclose(file);
		if (read == 1)
			return;
		usleep(10000);
	}
	die(rank, "rank 0 has not written %s", path.c_str());
}

struct NvshmemJob : Machine {
	typedef NvshmemEndpoint Endpoint;
	int nRanks = 0, device = 0;
	char *memory = nullptr;
	uint64_t *signals = nullptr;
	uint32_t contexts = 0, ids = 0;

	NvshmemJob()
	{
		static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
						    "SLURM_PROCID", "RANK", nullptr};
		static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
						    "SLURM_STEP_NUM_TASKS", "WORLD_SIZE", nullptr};
		static const char *const locals[] = {"OMPI_COMM_WORLD_LOCAL_RANK",
						     "MPI_LOCALRANKID", "SLURM_LOCALID",
						     "LOCAL_RANK", nullptr};
		int count = 0;
		rank = launcherSays(ranks, 0);
		nRanks = launcherSays(sizes, 1);
		CUDA(rank, cudaGetDeviceCount(&count));
		device = launcherSays(locals, rank) % count;
		useDevice(device);
		init();
		rank = nvshmem_my_pe();
		nRanks = nvshmem_n_pes();
	}

	~NvshmemJob()
	{
		nvshmem_free(signals);
		nvshmem_free(memory);
		nvshmem_finalize();
	}

	NvshmemJob(const NvshmemJob &) = delete;
	NvshmemJob &operator=(const NvshmemJob &) = delete;

	void prepare(size_t bytes, uint32_t contexts_, uint32_t signals_, uint32_t)
	{
		contexts = contexts_;
		ids = signals_;
		memory = static_cast<char *>(nvshmem_malloc(bytes));
		signals =
			static_cast<uint64_t *>(nvshmem_malloc(sizeof(uint64_t) * contexts * ids));
		if (!memory || !signals)
			die(rank, "nvshmem_malloc(%zu): try NVSHMEM_SYMMETRIC_SIZE", bytes);
	}

	Endpoint endpoint() const { return {memory, signals, contexts, ids}; }

	void meet() const { nvshmem_barrier_all(); }

	void failed(int status) const { die(rank, "a device call failed: %d", status); }

	Description describe() const
	{
		Description text;
		char host[64] = "";
		cudaDeviceProp properties;
		gethostname(host, sizeof(host) - 1);
		CUDA(rank, cudaGetDeviceProperties(&properties, device));
		text.library = "NVSHMEM " + std::to_string(NVSHMEM_VENDOR_MAJOR_VERSION) + "." +
			       std::to_string(NVSHMEM_VENDOR_MINOR_VERSION) + "." +
			       std::to_string(NVSHMEM_VENDOR_PATCH_VERSION);
		for (int peer = 0; peer < nRanks; peer++) {
			bool mapped = nvshmem_ptr(memory, peer) != nullptr;
			text.peers.push_back({mapped ? host : "?", properties.name,
					      mapped ? "direct" : "network",
					      mapped ? "nvshmem_ptr" : "no nvshmem_ptr"});
		}
		return text;
	}

private:
	void init() const
	{
		const char *path = getenv("NVSHMEM_PERF_ID");
		if (!path) {
			nvshmem_init();
			return;
		}
		nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
		nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
		shareId(rank, path, &id);
		nvshmemx_set_attr_uniqueid_args(rank, nRanks, &id, &attributes);
		nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes);
	}
};

int main(int argc, char **argv)
{
	Options options;
	parseOptions(options, argc, argv);
	if (options.ranks || options.host)
		usageError("each rank is a process with a GPU");
	std::vector<Options> all = allOptions(options);
	NvshmemJob job;
	return runSession(job, all, options, "nvshmem_perf");
}
