/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <string.h>

#include "mlx5/dev/device/event.h"
#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/host/options.h"

enum { PKEYS = 1, VERSION_IB = 0, VERSION_ROCE_V1 = 1, VERSION_ROCE_V2 = 2 };

/* No static doorbell registers: the library allocates pages. */
static const struct mlx5_ib_alloc_ucontext_resp contextAnswer = {
	.qp_tab_size = 1 << 17,
	.bf_reg_size = 512,
	.cache_line_size = 64,
	.max_sq_desc_sz = WQE_MAX,
	.max_rq_desc_sz = 512,
	.max_send_wqebb = 32768,
	.max_recv_wr = 32768,
	.max_srq_recv_wr = 32767,
	.num_ports = 1,
	.response_length = sizeof(contextAnswer),
	.cqe_version = 1,
	.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
	.eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
	.log_uar_size = 12,
	.num_uars_per_page = 1,
	.num_dyn_bfregs = 1024,
};

int uverbsGetContext(const struct call *call)
{
	uint32_t vectors = 8;
	uint64_t support = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;

	attributeOut(call, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors));
	attributeOut(call, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support, sizeof(support));
	attributeOut(call, UVERBS_ATTR_UHW_OUT, &contextAnswer, sizeof(contextAnswer));
	return 0;
}

static struct ib_uverbs_query_port_resp port(const struct call *call)
{
	bool down = call->device->portDown;

	return (struct ib_uverbs_query_port_resp){
		.port_cap_flags = 0x04010000,
		.max_msg_sz = 1 << 30,
		.gid_tbl_len = GIDS,
		.pkey_tbl_len = PKEYS,
		.lid = options.roce ? 0 : fabricLid(call->device->index),
		.sm_lid = options.roce ? 0 : 1,
		.state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = optionsMtu(call->device->index),
		.max_vl_num = 4,
		.active_width = 2,
		.active_speed = options.generation > 6 ? 128 : 64,
		.phys_state = down ? 2 : 5,
		.link_layer = options.roce ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND,
	};
}

int uverbsQueryPort(const struct call *call)
{
	struct ib_uverbs_query_port_resp_ex answer = {.legacy_resp = port(call)};

	if (attributeNumber(call, UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1)
		return EINVAL;
	attributeOut(call, UVERBS_ATTR_QUERY_PORT_RESP, &answer, sizeof(answer));
	return 0;
}

int legacyQueryPort(const struct call *call)
{
	struct ib_uverbs_query_port_resp answer = port(call);

	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer));
	return 0;
}

static bool gidEntry(const struct call *call, uint32_t index, struct ib_uverbs_gid_entry *entry)
{
	*entry = (struct ib_uverbs_gid_entry){
		.gid_index = index,
		.port_num = 1,
		.netdev_ifindex = options.gids[call->device->index][index].interface,
		.gid_type = !options.roce ? VERSION_IB
			    : index % 2	  ? VERSION_ROCE_V2
					  : VERSION_ROCE_V1,
	};
	return fabricGid(call->device->index, index, (uint8_t *)entry->gid);
}

int uverbsQueryGid(const struct call *call)
{
	uint32_t index = (uint32_t)attributeNumber(call, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
	struct ib_uverbs_gid_entry entry;

	if (index >= GIDS)
		return EINVAL;
	if (!gidEntry(call, index, &entry))
		return ENODATA;
	attributeOut(call, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry, sizeof(entry));
	return 0;
}

int uverbsQueryGidTable(const struct call *call)
{
	struct ib_uverbs_gid_entry entries[GIDS];
	uint64_t count = 0;
	size_t bytes = 0;

	attributeRoom(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, &bytes);
	for (uint32_t i = 0; i < GIDS; i++)
		if (count < bytes / sizeof(*entries) && gidEntry(call, i, &entries[count]))
			count++;
	attributeOut(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, entries,
		     count * sizeof(*entries));
	attributeOut(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count, sizeof(count));
	return 0;
}

int uverbsAsyncEvents(const struct call *call)
{
	int fd = eventOpenAsync(call->context, call->device);

	if (fd < 0)
		return EMFILE;
	attributeOutHandle(call, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, (uint32_t)fd);
	return 0;
}

static struct ib_uverbs_query_device_resp attributes(const struct call *call)
{
	uint64_t guid = htobe64(fabricGuid(call->device->index));
	int reads = (int)options.reads[call->device->index];

	return (struct ib_uverbs_query_device_resp){
		.fw_ver = 28ull << 32 | 39ull << 16 | 1002,
		.node_guid = guid,
		.sys_image_guid = guid,
		.max_mr_size = ~0ull,
		.page_size_cap = 0xfffffffffffff000ull,
		.vendor_id = 0x2c9,
		.vendor_part_id = options.generation > 6 ? 4129 : 4123,
		.max_qp = 1 << 17,
		.max_qp_wr = 32768,
		.max_sge = 30,
		.max_sge_rd = 30,
		.max_cq = 1 << 20,
		.max_cqe = (1 << 22) - 1,
		.max_mr = 1 << 20,
		.max_pd = 1 << 20,
		.max_qp_rd_atom = reads,
		.max_res_rd_atom = 1 << 21,
		.max_qp_init_rd_atom = reads,
		.atomic_cap = options.atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE,
		.max_ah = 1 << 30,
		.max_srq = 1 << 16,
		.max_srq_wr = 32767,
		.max_srq_sge = 31,
		.max_pkeys = PKEYS,
		.phys_port_cnt = 1,
		.local_ca_ack_delay = 16,
		.device_cap_flags = 0x21361c36,
	};
}

/* The library asks first whether it may ask in that way. */
int legacyQueryDevice(const struct call *call)
{
	struct ib_uverbs_query_device_resp answer = attributes(call);

	if (!attributeHas(call, UVERBS_ATTR_CORE_OUT))
		return ENOSPC;
	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer));
	return 0;
}

int legacyExQueryDevice(const struct call *call)
{
	struct ib_uverbs_ex_query_device_resp answer = {
		.base = attributes(call),
		.response_length = sizeof(answer),
		.timestamp_mask = ~0ull,
		.hca_core_clock = 1000000,
	};
	struct mlx5_ib_query_device_resp driver = {.response_length = sizeof(driver)};

	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer));
	attributeOut(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return 0;
}
