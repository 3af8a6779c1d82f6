/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/host/options.h"

enum { OP_MOD_CURRENT = 1, ROCE_V2 = 2, L3_IPV4 = 0, L3_IPV6 = 1 };

/* Of atomics: compare-and-swap, fetch-and-add, and both with masks; of 4 and 8 bytes. */
enum { PLAIN_OPERATIONS = 0x3, ALL_OPERATIONS = 0xf, SIZE_8 = 0x8, SIZES_4_AND_8 = 0xc };

static void set(struct command *command, uint32_t field, uint64_t value)
{
	fieldSet(command->out, fieldAt(QUERY_CAP_OUT, field), value);
}

static void general(struct command *command)
{
	set(command, CAP_HCA_CAP_2, 1);
	set(command, CAP_LOG_MAX_QP_SZ, 15);
	set(command, CAP_LOG_MAX_QP, 18);
	set(command, CAP_LOG_MAX_CQ_SZ, 22);
	set(command, CAP_LOG_MAX_CQ, 24);
	set(command, CAP_LOG_MAX_MKEY, 24);
	set(command, CAP_RELAXED_ORDERING_WRITE, options.relaxed);
	set(command, CAP_RELAXED_ORDERING_READ, options.relaxed);
	set(command, CAP_GID_TABLE_SIZE, 8);
	set(command, CAP_PORT_TYPE, options.roce);
	set(command, CAP_NUM_PORTS, 1);
	set(command, CAP_LOG_MAX_MSG, 30);
	set(command, CAP_CQE_VERSION, 1);
	set(command, CAP_ROCE_SUPPORTED, options.roce);
	set(command, CAP_ATOMIC_SUPPORTED, options.atomics);
	set(command, CAP_CQ_OI, 1);
	set(command, CAP_RC, 1);
	set(command, CAP_UAR_4K, 1);
	set(command, CAP_LOG_PG_SZ, 12);
	set(command, CAP_BF, 1);
	set(command, CAP_LOG_BF_REG_SIZE, 9);
	set(command, CAP_MAX_WQE_SZ_SQ, WQE_MAX);
	set(command, CAP_MAX_WQE_SZ_RQ, 512);
	/* Real-time and free-running, as from ConnectX-6 Dx on. */
	set(command, CAP_SQ_TS_FORMAT, options.generation > 6 ? 2 : 0);
	set(command, CAP_RQ_TS_FORMAT, options.generation > 6 ? 2 : 0);
}

static void atomics(struct command *command)
{
	if (!options.atomics)
		return;
	set(command, ATOMIC_8B_ENDIANNESS_HOST, 1);
	set(command, ATOMIC_8B_ENDIANNESS_MODE, 1);
	set(command, ATOMIC_OPERATIONS, options.masked ? ALL_OPERATIONS : PLAIN_OPERATIONS);
	set(command, ATOMIC_SIZE_QP, options.narrow ? SIZES_4_AND_8 : SIZE_8);
}

static void roce(struct command *command)
{
	if (!options.roce)
		return;
	set(command, ROCE_QP_TS_FORMAT, options.generation > 6 ? 2 : 0);
	set(command, ROCE_VERSION, ROCE_V2);
	set(command, ROCE_MIN_SRC_UDP_PORT, 0xc000);
	set(command, ROCE_MAX_SRC_UDP_PORT, 0xffff);
	set(command, ROCE_ADDRESS_TABLE_SIZE, 8);
}

bool commandQueryHcaCap(struct command *command)
{
	uint32_t mod = (uint32_t)fieldGet(command->in, IN_OP_MOD);

	if (!commandOnly(command, NULL, 0))
		return false;
	switch (mod >> 1) {
	case CAP_GENERAL:
		general(command);
		return true;
	case CAP_ATOMIC:
		atomics(command);
		return true;
	case CAP_ROCE:
		roce(command);
		return true;
	default:
		return true; /* of other kinds it has nothing */
	}
}

bool commandQueryRoceAddress(struct command *command)
{
	static const uint32_t fields[] = {QUERY_ROCE_INDEX, QUERY_ROCE_PORT};
	const struct known known = {0, fields, 2};
	uint32_t index = (uint32_t)fieldGet(command->in, QUERY_ROCE_INDEX);
	uint8_t gid[16], mac[6];

	if (!commandOnly(command, &known, 1))
		return false;
	if (!options.roce)
		return commandRefuse(command, STATUS_BAD_OP, REFUSED_OPCODE,
				     "the port is InfiniBand");
	if (index >= 8)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE,
				     "there is no such index");
	if (!fabricGid(command->device->index, index, gid))
		return true; /* an empty entry */
	fabricMac(command->device->index, mac);
	memcpy(command->out + QUERY_ROCE_OUT / 8, gid, sizeof(gid));
	fieldSet(command->out, fieldAt(QUERY_ROCE_OUT, ROCE_ADDR_MAC_47_32),
		 (uint64_t)mac[0] << 8 | mac[1]);
	fieldSet(command->out, fieldAt(QUERY_ROCE_OUT, ROCE_ADDR_MAC_31_0),
		 (uint64_t)mac[2] << 24 | mac[3] << 16 | mac[4] << 8 | mac[5]);
	fieldSet(command->out, fieldAt(QUERY_ROCE_OUT, ROCE_ADDR_L3_TYPE),
		 index < 2 ? L3_IPV6 : L3_IPV4);
	fieldSet(command->out, fieldAt(QUERY_ROCE_OUT, ROCE_ADDR_VERSION), index % 2 ? ROCE_V2 : 0);
	return true;
}
