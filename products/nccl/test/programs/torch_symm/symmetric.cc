// SPDX-License-Identifier: BSD-3-Clause
// symmetric.cc - symmetric tensors on windows of libgin-nccl, and names of PyTorch's operators
#include "stand_in.h"

#include <torch/extension.h>

#include <map>
#include <vector>

namespace
{

struct Tensors {
	ncclComm_t comm = nullptr;
	std::map<const void *, c10d::symmetric_memory::NCCLSymmetricMemory> windows;
	std::map<std::string, ncclDevComm> device;
} tensors;

void need(ncclResult_t result, const char *what)
{
	TORCH_CHECK(result == ncclSuccess, what, ": ", ncclGetLastError(tensors.comm));
}

pybind11::bytes uniqueId()
{
	ncclUniqueId id;

	need(ncclGetUniqueId(&id), "ncclGetUniqueId");
	return pybind11::bytes(id.internal, sizeof(id.internal));
}

void openGroup(const std::string &bytes, int rank, int nRanks)
{
	ncclUniqueId id;

	TORCH_CHECK(bytes.size() == sizeof(id.internal), "the id has another size");
	memcpy(id.internal, bytes.data(), sizeof(id.internal));
	need(ncclCommInitRank(&tensors.comm, nRanks, id, rank), "ncclCommInitRank");
}

// A symmetric tensor. Collective. It is the program's until closeGroup().
at::Tensor emptySymmetric(std::vector<int64_t> sizes, const at::Tensor &like)
{
	size_t bytes = like.element_size();
	void *at;

	for (int64_t size : sizes)
		bytes *= size;
	bytes = (bytes + 4095) / 4096 * 4096;
	need(ncclMemAlloc(&at, bytes), "ncclMemAlloc");
	auto &memory = tensors.windows[at];
	need(ncclCommWindowRegister(tensors.comm, at, bytes, &memory.window,
				    NCCL_WIN_COLL_SYMMETRIC),
	     "ncclCommWindowRegister");
	int nRanks;
	need(ncclCommCount(tensors.comm, &nRanks), "ncclCommCount");
	memory.direct = ncclTeamLsa(tensors.comm).nRanks == nRanks;
	return at::from_blob(at, sizes, like.options());
}

void closeGroup()
{
	for (auto &[key, made] : tensors.device)
		need(ncclDevCommDestroy(tensors.comm, &made), "ncclDevCommDestroy");
	for (auto &[at, memory] : tensors.windows) {
		need(ncclCommWindowDeregister(tensors.comm, memory.window),
		     "ncclCommWindowDeregister");
		need(ncclMemFree(const_cast<void *>(at)), "ncclMemFree");
	}
	need(ncclCommDestroy(tensors.comm), "ncclCommDestroy");
	tensors = Tensors();
}

} // namespace

namespace c10d::symmetric_memory
{

std::shared_ptr<NCCLSymmetricMemory> rendezvous(const at::Tensor &tensor, const std::string &)
{
	auto found = tensors.windows.find(tensor.storage().data());

	return found == tensors.windows.end()
		       ? nullptr
		       : std::make_shared<NCCLSymmetricMemory>(found->second);
}

NCCLDevCommManager &NCCLDevCommManager::get(const c10::Device &)
{
	static NCCLDevCommManager manager;

	return manager;
}

ncclComm_t NCCLDevCommManager::get_comm(const std::string &)
{
	return tensors.comm;
}

NCCLDevCommManager::Found NCCLDevCommManager::get_devcomm(const std::string &,
							  const std::string &key)
{
	auto found = tensors.device.find(key);

	return found == tensors.device.end() ? Found() : Found(found->second);
}

NCCLDevCommManager::Found NCCLDevCommManager::register_devcomm(const std::string &,
							       const ncclDevComm &made,
							       const std::string &key)
{
	return tensors.device[key] = made;
}

void *get_or_create_nccl_devcomm(const c10::Device &, const std::string &, const std::string &key,
				 int lsaBarriers, bool multimem)
{
	auto found = tensors.device.find(key);

	if (found != tensors.device.end())
		return &found->second;
	ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	wanted.lsaBarrierCount = lsaBarriers;
	wanted.lsaMultimem = multimem;
	ncclDevComm made;
	need(ncclDevCommCreate(tensors.comm, &wanted, &made), "ncclDevCommCreate");
	return &(tensors.device[key] = made);
}

} // namespace c10d::symmetric_memory

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
	using namespace c10d::nccl_extension;
	[[maybe_unused]] typedef std::optional<std::vector<int64_t>> Numbers;

	m.def("unique_id", uniqueId);
	m.def("open", openGroup);
	m.def("empty", emptySymmetric);
	m.def("close", closeGroup);
	m.def("all_to_all_permute",
	      [](const at::Tensor &input, at::Tensor out, int64_t scatterDim, int64_t gatherDim) {
		      nccl_all_to_all_permute(input, out, scatterDim, gatherDim, "");
	      });
#if OPERATORS > 1 /* of ranks.py */
	m.def("all_to_all_vdev",
	      [](at::Tensor input, at::Tensor out, at::Tensor splits, at::Tensor outSplits) {
		      nccl_all_to_all_vdev(input, out, splits, outSplits, "");
	      });
	m.def("reduce_scatter_offset", [](const at::Tensor &input, std::vector<at::Tensor> out,
					  int64_t dim, Numbers offsets, Numbers ranks) {
		std::optional<at::IntArrayRef> offsetsRef, ranksRef;
		if (offsets)
			offsetsRef = *offsets;
		if (ranks)
			ranksRef = *ranks;
		nccl_reduce_scatter_offset(input, out, "", dim, offsetsRef, ranksRef, "sum");
	});
#endif
}
