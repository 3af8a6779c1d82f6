/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stand_in.h - what PyTorch's operators take from its NCCL backend of symmetric memory
 *
 * PyTorch's backend makes windows of the communicator of torch's process group, which is NCCL's.
 * Here a group is a communicator of libgin-nccl, and a tensor is symmetric if its storage is a
 * window of symmetric.cc. All headers of torch/csrc/distributed/c10d/symm_mem that operators
 * include lead here. libtorch has classes of these names: hidden symbols keep them apart.
 */
#ifndef GIN_TEST_TORCH_SYMM_H
#define GIN_TEST_TORCH_SYMM_H

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <nccl.h>
#include <nccl_device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#ifndef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER /* before NCCL 2.29: zeros */
#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
	{                                                                                          \
	}
#endif

#define NCCL_HAS_SYMMEM_SUPPORT
#define NCCL_HAS_SYMMEM_DEVICE_SUPPORT
#define NCCL_DEVICE_HAS_REDUCE_COPY

#define CONVERT_CASE(kind, type, ...)                                                              \
	case kind: {                                                                               \
		using scalar_t = type;                                                             \
		return __VA_ARGS__();                                                              \
	}
#define AT_DISPATCH_NV_FLOATS(kind, name, ...)                                                     \
	AT_DISPATCH_SWITCH(kind, name,                                                             \
			   CONVERT_CASE(at::kBFloat16, __nv_bfloat16, __VA_ARGS__)                 \
				   CONVERT_CASE(at::kHalf, __half, __VA_ARGS__)                    \
					   CONVERT_CASE(at::kFloat, float, __VA_ARGS__))

#ifndef C10D_NCCL_CHECK
#define C10D_NCCL_CHECK(call, said)                                                                \
	do {                                                                                       \
		ncclResult_t result_ = (call);                                                     \
		TORCH_CHECK(result_ == ncclSuccess, said, ": ", ncclGetErrorString(result_));      \
	} while (0)
#endif

#pragma GCC visibility push(hidden)

namespace c10d::symmetric_memory
{

/* The window that is a tensor's storage. */
class NCCLSymmetricMemory
{
public:
	ncclWindow_t window = nullptr;
	bool direct = false; /* every rank may load and store it */

	ncclWindow_t get_window() const { return window; }
	size_t get_offset() const { return 0; }
	size_t get_window_offset() const { return 0; }
	bool has_multicast_support() const { return false; }
	bool world_within_direct_access() const { return direct; }
};

/* NULL if the tensor's storage is no window. */
std::shared_ptr<NCCLSymmetricMemory> rendezvous(const at::Tensor &tensor, const std::string &group);

/* The device communicators of the one communicator, by key */
class NCCLDevCommManager
{
public:
	typedef std::optional<std::reference_wrapper<ncclDevComm>> Found;

	static NCCLDevCommManager &get(const c10::Device &device);
	ncclComm_t get_comm(const std::string &group);
	Found get_devcomm(const std::string &group, const std::string &key);
	Found register_devcomm(const std::string &group, const ncclDevComm &made,
			       const std::string &key);
};

void *get_or_create_nccl_devcomm(const c10::Device &device, const std::string &group,
				 const std::string &key, int lsaBarriers, bool multimem);

} // namespace c10d::symmetric_memory

#pragma GCC visibility pop

namespace c10d::nccl_extension
{

void nccl_all_to_all_permute(const at::Tensor &input, at::Tensor &out, int64_t scatterDim,
			     int64_t gatherDim, const std::string &group);
void nccl_all_to_all_vdev(at::Tensor &input, at::Tensor &out, at::Tensor &splits,
			  at::Tensor &outSplits, const std::string &group);
void nccl_reduce_scatter_offset(const at::Tensor &input, at::TensorList out,
				const std::string &group, int64_t dim,
				std::optional<at::IntArrayRef> offsets,
				std::optional<at::IntArrayRef> ranks, const std::string &op);

} // namespace c10d::nccl_extension

#endif
