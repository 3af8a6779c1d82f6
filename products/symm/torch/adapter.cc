/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter.cc - libgin-symm.so as backend "GIN" of torch.distributed._symmetric_memory
 *
 * Compiled for each minor version of PyTorch, whose classes it derives from. It registers when it
 * is loaded: "GIN" for tensors of GPUs, "GIN_CPU" for tensors of the CPU.
 */
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>
#include <torch/headeronly/version.h>
#include <torch/library.h>

#include <gin_symm.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 10, "PyTorch 2.10 or newer");

/* Of Python's stable ABI; the interpreter has loaded PyTorch, and with it this library. */
extern "C" {
int PyGILState_Check();
void *PyEval_SaveThread();
void PyEval_RestoreThread(void *state);
int PyGILState_Ensure();
void PyGILState_Release(int state);
int PyErr_CheckSignals();
void PyErr_Clear();
void PyErr_SetInterrupt();
}

namespace symm = c10d::symmetric_memory;

namespace
{

/* Gives the interpreter's lock back, if the thread has it, while a call waits. */
struct WithoutPython {
	void *state = PyGILState_Check() ? PyEval_SaveThread() : nullptr;

	WithoutPython() = default;
	WithoutPython(const WithoutPython &) = delete;
	~WithoutPython()
	{
		if (state)
			PyEval_RestoreThread(state);
	}
};

/* ginPoll_t: lets Python run signal handlers. Ctrl-C ends the call, and comes again after it. */
int interrupted(void *)
{
	const int state = PyGILState_Ensure();
	const int raised = PyErr_CheckSignals();
	if (raised) {
		PyErr_Clear();
		PyErr_SetInterrupt();
	}
	PyGILState_Release(state);
	return raised;
}

/*
 * One string for TORCH_CHECK(), which passes several through a stream: with a compiler that links
 * its own copy of libstdc++, a number in a stream crashes in a process that has another copy.
 */
std::string sentence(const std::string &words)
{
	return "libgin: " + words;
}

void check(ginResult_t result)
{
	if (result == ginSuccess)
		return;
	TORCH_CHECK_WITH(DistBackendError, false, sentence(ginSymmGetLastError()));
}

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/* An allgather by the store of a process group: a key for each rank and step. */
struct Meeting {
	StorePtr store;
	std::string prefix;
	int rank, nRanks, step = 0;
	std::string failure;

	std::string key(int of) const
	{
		return prefix + "/" + std::to_string(step) + "/" + std::to_string(of);
	}
	bool has(int of) { return store->check({key(of)}); }
	std::string missing()
	{
		std::string ranks;
		for (int r = 0; r < nRanks; r++)
			if (!has(r))
				ranks += (ranks.empty() ? "rank " : ", ") + std::to_string(r);
		return ranks;
	}
	/* Looks again and again: a wait of the store would see no Ctrl-C, and logs its timeouts. */
	bool wait(int of, std::chrono::steady_clock::time_point end)
	{
		for (int ms = 1; !has(of); ms = std::min(2 * ms, 64)) {
			if (interrupted(nullptr)) {
				failure = "interrupted";
				return false;
			}
			if (std::chrono::steady_clock::now() >= end) {
				failure = "rendezvous: " + missing() +
					  " did not come to the group's first rendezvous";
				return false;
			}
			std::this_thread::sleep_for(std::chrono::milliseconds(ms));
		}
		return true;
	}
	bool run(const void *in, void *out, size_t bytes)
	{
		const auto *own = static_cast<const uint8_t *>(in);
		const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(timeout());
		store->set(key(rank), std::vector<uint8_t>(own, own + bytes));
		for (int r = 0; r < nRanks; r++) {
			if (!wait(r, end))
				return false;
			const auto part = store->get(key(r));
			if (part.size() != bytes) {
				failure = "rendezvous: rank " + std::to_string(r) +
					  " has another version of libgin";
				return false;
			}
			memcpy(static_cast<char *>(out) + static_cast<size_t>(r) * bytes,
			       part.data(), bytes);
		}
		step++;
		return true;
	}
	static int timeout()
	{
		const char *text = getenv("GIN_TIMEOUT"); /* ginCommInit() has checked it */
		return text && atoi(text) > 0 ? atoi(text) : 600;
	}
};

/* ginAllgather_t. No exception passes through C. */
int gather(void *arg, const void *in, void *out, size_t bytes)
{
	auto *meeting = static_cast<Meeting *>(arg);
	try {
		return meeting->run(in, out, bytes) ? 0 : -1;
	} catch (const std::exception &error) {
		meeting->failure = error.what();
		return -1;
	}
}

struct Group {
	c10::weak_intrusive_ptr<c10d::Store>
		store; /* names of groups are used again, stores are not */
	ginSymmGroup_t group;
};

/*
 * Groups by their store, one for GPUs and one for the CPU. Leaked: nothing is destroyed when the
 * process ends.
 */
struct Groups {
	std::mutex lock; /* also while a group is made: its ranks make groups in one order */
	std::map<std::pair<c10d::Store *, bool>, Group> known;
	std::map<c10d::Store *, int> made;
};

Groups &groups()
{
	static auto *all = new Groups;
	return *all;
}

struct Ranks {
	int rank, size;
	StorePtr store;
};

Ranks ranksOf(const std::string &name)
{
	c10::intrusive_ptr<c10d::ProcessGroup> group;
	try {
		group = c10d::resolve_process_group(name);
	} catch (const c10::Error &) { /* a group that set_group_info() has made */
	}
	if (group && group->getStore())
		return {group->getRank(), group->getSize(), group->getStore()};
	auto &info = symm::get_group_info(name);
	return {info.rank, info.world_size, info.store};
}

ginSymmGroup_t newGroup(const Ranks &of, int device, int number)
{
	Meeting meeting{of.store, "gin_symm/" + std::to_string(number), of.rank, of.size, 0, ""};
	ginSymmConfig_t config = {device, of.rank, of.size, gather, interrupted, &meeting};
	ginSymmGroup_t group = nullptr;
	const ginResult_t result = ginSymmOpen(&config, &group);
	if (result != ginSuccess && !meeting.failure.empty())
		TORCH_CHECK_WITH(DistBackendError, false,
				 sentence("rank " + std::to_string(of.rank) + " of " +
					  std::to_string(of.size) + ": " + meeting.failure));
	check(result);
	return group;
}

/*
 * The group of a name, for the kind of `device`; made if `makes`, else NULL. Without the
 * interpreter's lock.
 */
ginSymmGroup_t groupOf(const std::string &name, int device, bool makes)
{
	const Ranks of = ranksOf(name);
	auto &all = groups();
	std::lock_guard<std::mutex> guard(all.lock);
	const auto key = std::make_pair(of.store.get(), device == GIN_DEVICE_NONE);
	auto found = all.known.find(key);
	if (found != all.known.end() && found->second.store.expired()) {
		all.known.erase(found); /* a new store at the address of an old one */
		all.made.erase(of.store.get());
		found = all.known.end();
	}
	if (found != all.known.end())
		return found->second.group;
	if (!makes)
		return nullptr;
	const ginSymmGroup_t group = newGroup(of, device, all.made[of.store.get()]++);
	all.known.emplace(key, Group{c10::weak_intrusive_ptr<c10d::Store>(of.store), group});
	return group;
}

/* The current stream of a GPU, by PyTorch's stable C interface. False: it has none. */
bool findStream(int device, void **stream)
{
	using Get = int(int32_t, void **);
	static Get *get = [] {
		void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
		void *address =
			library ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr;
		return reinterpret_cast<Get *>(address);
	}();
	return get && !get(device, stream);
}

/* NULL for the CPU. */
void *currentStream(int device)
{
	void *stream = nullptr;
	if (device == GIN_DEVICE_NONE)
		return nullptr;
	TORCH_CHECK(findStream(device, &stream), "libgin: this PyTorch has no CUDA streams");
	return stream;
}

/* For ginSymmUseStreams(), through which no exception passes. */
void *streamOrNone(int device)
{
	void *stream = nullptr;
	return findStream(device, &stream) ? stream : nullptr;
}

class Handle : public symm::SymmetricMemory
{
	ginSymmPeers_t peers;
	ginSymmInfo_t info;
	size_t offset;

	std::vector<void *> list(void *const *of) const
	{
		return std::vector<void *>(of, of + info.nRanks);
	}
	/* For uses that would take the address of a rank that has none. */
	template <class Type> Type whole(Type all, const char *name) const
	{
		check(ginSymmNeedDirect(peers, name));
		return all;
	}

public:
	Handle(ginSymmPeers_t of, size_t at) : peers(of), offset(at) { ginSymmQuery(peers, &info); }
	~Handle() override { ginSymmRelease(peers); }
	const ginSymmInfo_t &about() const { return info; }
	std::vector<void *> get_buffer_ptrs() override { return list(info.buffers); }
	/* PyTorch checks an address of get_buffer_ptrs(), and none of this. */
	std::vector<void *> get_signal_pad_ptrs() override
	{
		return whole(list(info.pads), "signal_pad_ptrs");
	}
	void **get_buffer_ptrs_dev() override { return whole(info.buffersDev, "buffer_ptrs_dev"); }
	void **get_signal_pad_ptrs_dev() override
	{
		return whole(info.padsDev, "signal_pad_ptrs_dev");
	}
	size_t get_buffer_size() override { return info.bytes; }
	size_t get_offset() override { return offset; }
	bool has_multicast_support() override { return false; }
	void *get_multicast_ptr() override { return nullptr; }
	int get_rank() override { return info.rank; }
	int get_world_size() override { return info.nRanks; }
	c10::Device get_device() override
	{
		if (info.device == GIN_DEVICE_NONE)
			return c10::Device(c10::DeviceType::CPU);
		return c10::Device(c10::DeviceType::CUDA,
				   static_cast<c10::DeviceIndex>(info.device));
	}
	bool world_within_direct_access() override { return info.isDirect; }
	void put(int rank, size_t at, const at::Tensor &source)
	{
		WithoutPython released;
		check(ginSymmPut(peers, rank, at, source.const_data_ptr(), source.nbytes(), 0,
				 currentStream(info.device)));
	}
	void barrier(int channel, size_t timeout_ms) override
	{
		WithoutPython released;
		check(ginSymmBarrier(peers, channel, timeout_ms, currentStream(info.device)));
	}
	void put_signal(int dst_rank, int channel, size_t timeout_ms) override
	{
		WithoutPython released;
		check(ginSymmPutSignal(peers, dst_rank, channel, timeout_ms,
				       currentStream(info.device)));
	}
	void wait_signal(int src_rank, int channel, size_t timeout_ms) override
	{
		WithoutPython released;
		check(ginSymmWaitSignal(peers, src_rank, channel, timeout_ms,
					currentStream(info.device)));
	}
};

/* Names of groups that tensors were made with. */
std::mutex namesLock;
std::map<void *, std::string> names;

std::string nameFor(void *base, const std::optional<std::string> &given)
{
	if (given && !given->empty())
		return *given;
	std::lock_guard<std::mutex> guard(namesLock);
	const auto found = names.find(base);
	TORCH_CHECK(found != names.end(),
		    "libgin: rendezvous() needs a group, with this tensor or at its allocation");
	return found->second;
}

class Allocator : public symm::SymmetricMemoryAllocator
{
	c10::DeviceType type;

	/* -1: the current device. */
	int ordinal(int index) const
	{
		if (type == c10::DeviceType::CPU)
			return GIN_DEVICE_NONE;
		return index >= 0 ? index
				  : c10::impl::getDeviceGuardImpl(type)->getDevice().index();
	}

public:
	explicit Allocator(c10::DeviceType of) : type(of) {}
	/* Not collective. PyTorch may hold the lock of its caching allocator. */
	void *alloc(size_t size, int device_idx,
		    const std::optional<std::string> &group_name) override
	{
		void *base = nullptr;
		check(ginSymmAlloc(ordinal(device_idx), size, &base));
		if (group_name && !group_name->empty()) {
			std::lock_guard<std::mutex> guard(namesLock);
			names[base] = *group_name;
		}
		return base;
	}
	void free(void *ptr) override
	{
		{
			std::lock_guard<std::mutex> guard(namesLock);
			names.erase(ptr);
		}
		ginSymmFree(ptr);
	}
	size_t get_alloc_size(void *ptr) override
	{
		void *base;
		size_t bytes;
		int device;
		ginSymmFind(ptr, &base, &bytes, &device);
		TORCH_CHECK(base && base == ptr,
			    sentence("the memory was not allocated by backend " + name()));
		return bytes;
	}
	c10::intrusive_ptr<symm::SymmetricMemory>
	rendezvous(void *ptr, const std::optional<std::string> &group_name) override
	{
		void *base;
		size_t bytes;
		int device;
		ginSymmPeers_t peers = nullptr;
		ginSymmFind(ptr, &base, &bytes, &device);
		if (!base)
			return nullptr;
		const std::string name = nameFor(base, group_name);
		WithoutPython released;
		check(ginSymmRendezvous(groupOf(name, device, true), base,
					symm::get_signal_pad_size(), &peers));
		const auto offset =
			static_cast<size_t>(static_cast<char *>(ptr) - static_cast<char *>(base));
		return c10::make_intrusive<Handle>(peers, offset);
	}
	bool has_multicast_support(int) override { return false; }
	/* PyTorch 2.12 and newer declare it. */
	virtual bool has_allocation(void *ptr)
	{
		void *base;
		size_t bytes;
		int device;
		ginSymmFind(ptr, &base, &bytes, &device);
		return base && base == ptr;
	}
	c10::DeviceType supported_device_type() override { return type; }
	std::string name() override { return type == c10::DeviceType::CPU ? "GIN_CPU" : "GIN"; }
};

int ordinalOf(const c10::Device &device)
{
	return device.is_cpu() ? GIN_DEVICE_NONE : device.index();
}

ginSymmGroup_t existing(const std::string &name, const c10::Device &device)
{
	const ginSymmGroup_t group = groupOf(name, ordinalOf(device), false);
	TORCH_CHECK(group,
		    sentence("group " + name + " has no symmetric memory on " + device.str()));
	return group;
}

/* For libgin.torch_symm: each ginComm_t of a group, after this rank's device of it. */
std::vector<int64_t> communicators(std::string name, c10::Device device)
{
	const ginSymmGroup_t group = existing(name, device);
	std::vector<int64_t> all;
	ginComm_t comm;
	int ordinal;

	check(ginSymmComm(group, 0, &ordinal, &comm)); /* a closed group has none */
	for (int i = 0; ginSymmComm(group, i, &ordinal, &comm) == ginSuccess; i++)
		all.insert(all.end(), {ordinal, reinterpret_cast<int64_t>(comm)});
	return all;
}

void checkGroup(std::string name, c10::Device device)
{
	check(ginSymmCheck(existing(name, device)));
}

/* Collective. */
void closeGroup(std::string name, c10::Device device)
{
	WithoutPython released;
	const ginSymmGroup_t group = existing(name, device);
	{
		std::lock_guard<std::mutex> guard(groups().lock);
		groups().known.erase({ranksOf(name).store.get(), device.is_cpu()});
	}
	check(ginSymmClose(group));
}

c10::intrusive_ptr<Handle> handleOf(const at::Tensor &tensor, const std::string &name)
{
	auto handle = c10::dynamic_intrusive_pointer_cast<Handle>(symm::rendezvous(tensor, name));
	TORCH_CHECK(handle, "libgin: the tensor is not of backend GIN");
	return handle;
}

/* From the start of the tensor's block, and window. */
int64_t offsetOf(const Handle &handle, const at::Tensor &tensor)
{
	const auto *base = static_cast<const char *>(handle.about().buffers[handle.about().rank]);
	return static_cast<const char *>(tensor.const_data_ptr()) - base;
}

/* The window of a symmetric tensor, the tensor's offset in it, and the window's ginComm_t. */
std::tuple<int64_t, int64_t, int64_t> window(const at::Tensor &tensor, std::string name)
{
	const auto handle = handleOf(tensor, name);
	const ginSymmInfo_t &of = handle->about();
	return {reinterpret_cast<int64_t>(of.window.table), offsetOf(*handle, tensor),
		reinterpret_cast<int64_t>(of.comm)};
}

/* `source` into the tensor of a peer without an address here, from element `first`. */
void put(const at::Tensor &symmetric, const at::Tensor &source, int64_t peer, int64_t first,
	 std::string name)
{
	const auto handle = handleOf(symmetric, name);
	TORCH_CHECK(source.is_contiguous() && source.scalar_type() == symmetric.scalar_type(),
		    sentence("put: rank " + std::to_string(peer) +
			     " has no direct route to this rank, so the source is to be contiguous "
			     "and of the symmetric tensor's type"));
	const int64_t at = offsetOf(*handle, symmetric) + first * symmetric.element_size();
	handle->put(static_cast<int>(peer), static_cast<size_t>(at), source);
}

} // namespace

TORCH_LIBRARY(gin_symm_host, m)
{
	ginSymmUseStreams(streamOrNone);
	m.def("communicators(str group, Device device) -> int[]", communicators);
	m.def("check(str group, Device device) -> ()", checkGroup);
	m.def("close(str group, Device device) -> ()", closeGroup);
	m.def("window(Tensor tensor, str group) -> (int, int, int)", window);
	m.def("put(Tensor symmetric, Tensor source, int peer, int first, str group) -> ()", put);
	symm::register_availability("GIN", c10::make_intrusive<Allocator>(c10::DeviceType::CUDA));
	symm::register_availability("GIN_CPU",
				    c10::make_intrusive<Allocator>(c10::DeviceType::CPU));
}
