/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fields.h - bit fields of the commands that the device takes
 *
 * A mailbox is big-endian 32-bit words. A field is where it begins, counted from the first word's
 * most significant bit, and how many bits it has.
 */
#ifndef MLX5DEV_FIELDS_H
#define MLX5DEV_FIELDS_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Usable as a constant, which a function is not. */
#define FIELD(bit, width) ((bit) << 8 | (width))

static inline uint32_t fieldBit(uint32_t field)
{
	return field >> 8;
}

static inline uint32_t fieldWidth(uint32_t field)
{
	return field & 0xff;
}

static inline uint32_t fieldMask(uint32_t field)
{
	return fieldWidth(field) >= 32 ? ~0u : (1u << fieldWidth(field)) - 1;
}

static inline uint32_t fieldShift(uint32_t field)
{
	return 32 - fieldBit(field) % 32 - (fieldWidth(field) > 32 ? 32 : fieldWidth(field));
}

static inline uint32_t wordGet(const void *mailbox, uint32_t index)
{
	uint32_t word;

	memcpy(&word, (const char *)mailbox + 4 * index, sizeof(word));
	return be32toh(word);
}

static inline void wordSet(void *mailbox, uint32_t index, uint32_t value)
{
	value = htobe32(value);
	memcpy((char *)mailbox + 4 * index, &value, sizeof(value));
}

/* A field of 64 bits begins with a word; another one lies in one word. */
static inline uint64_t fieldGet(const void *mailbox, uint32_t field)
{
	uint32_t index = fieldBit(field) / 32;

	if (fieldWidth(field) == 64)
		return (uint64_t)wordGet(mailbox, index) << 32 | wordGet(mailbox, index + 1);
	return wordGet(mailbox, index) >> fieldShift(field) & fieldMask(field);
}

static inline void fieldSet(void *mailbox, uint32_t field, uint64_t value)
{
	uint32_t index = fieldBit(field) / 32;
	uint32_t mask = fieldMask(field) << fieldShift(field);

	if (fieldWidth(field) == 64) {
		wordSet(mailbox, index, value >> 32);
		wordSet(mailbox, index + 1, value);
		return;
	}
	wordSet(mailbox, index,
		(wordGet(mailbox, index) & ~mask) | ((uint32_t)value << fieldShift(field) & mask));
}

/* `field` of a structure that begins at bit `base` of the mailbox. */
static inline uint32_t fieldAt(uint32_t base, uint32_t field)
{
	return field + (base << 8);
}

enum command_opcode {
	COMMAND_QUERY_HCA_CAP = 0x100,
	COMMAND_CREATE_MKEY = 0x200,
	COMMAND_CREATE_CQ = 0x400,
	COMMAND_DESTROY_CQ = 0x401,
	COMMAND_QUERY_CQ = 0x402,
	COMMAND_CREATE_QP = 0x500,
	COMMAND_DESTROY_QP = 0x501,
	COMMAND_RST2INIT_QP = 0x502,
	COMMAND_INIT2RTR_QP = 0x503,
	COMMAND_RTR2RTS_QP = 0x504,
	COMMAND_RTS2RTS_QP = 0x505,
	COMMAND_2ERR_QP = 0x507,
	COMMAND_2RST_QP = 0x50a,
	COMMAND_QUERY_QP = 0x50b,
	COMMAND_INIT2INIT_QP = 0x50e,
	COMMAND_QUERY_ROCE_ADDRESS = 0x760,
};

enum command_status {
	STATUS_OK = 0x00,
	STATUS_INTERNAL = 0x01,
	STATUS_BAD_OP = 0x02,
	STATUS_BAD_PARAM = 0x03,
	STATUS_BAD_RES = 0x05,
	STATUS_LIM_ERR = 0x08,
	STATUS_BAD_RES_STATE = 0x09,
	STATUS_IX_ERR = 0x0a,
	STATUS_NO_RES = 0x0f,
	STATUS_BAD_QP_STATE = 0x10,
	STATUS_BAD_INP_LEN = 0x50,
	STATUS_BAD_OUTP_LEN = 0x51,
};

/* Of every command. */
enum {
	IN_OPCODE = FIELD(0x0, 16),
	IN_UID = FIELD(0x10, 16),
	IN_OP_MOD = FIELD(0x30, 16),
	OUT_STATUS = FIELD(0x0, 8),
	OUT_SYNDROME = FIELD(0x20, 32),
	OUT_NUMBER = FIELD(0x48, 24), /* of what was made */
};

/* CREATE_CQ */
enum {
	CREATE_CQ_CQC = 0x80,
	CREATE_CQ_UMEM_OFFSET = FIELD(0x280, 64),
	CREATE_CQ_UMEM_ID = FIELD(0x2c0, 32),
	CREATE_CQ_UMEM_VALID = FIELD(0x2e0, 1),
};

enum {
	CQC_STATUS = FIELD(0x0, 4),
	CQC_DBR_UMEM_VALID = FIELD(0x6, 1),
	CQC_CQE_SZ = FIELD(0x8, 3),
	CQC_CC = FIELD(0xb, 1),
	CQC_OI = FIELD(0xe, 1),
	CQC_DBR_UMEM_ID = FIELD(0x20, 32),
	CQC_PAGE_OFFSET = FIELD(0x54, 6),
	CQC_TIMESTAMP_FORMAT = FIELD(0x5e, 2),
	CQC_LOG_CQ_SIZE = FIELD(0x63, 5),
	CQC_UAR_PAGE = FIELD(0x68, 24),
	CQC_C_EQN = FIELD(0xa0, 32), /* the wide field of newer devices; the old one is its end */
	CQC_LOG_PAGE_SIZE = FIELD(0xc3, 5),
	CQC_CONSUMER_COUNTER = FIELD(0x148, 24),
	CQC_PRODUCER_COUNTER = FIELD(0x168, 24),
	CQC_DBR_ADDR = FIELD(0x1c0, 64),
};

/* CREATE_QP and what changes one: all have the context at the same place */
enum {
	QP_IN_QPN = FIELD(0x48, 24),
	QP_IN_OPT_PARAM_MASK = FIELD(0x80, 32),
	QP_IN_QPC = 0xc0,
	QP_OUT_QPC = 0xc0,
	CREATE_QP_UMEM_OFFSET = FIELD(0x800, 64),
	CREATE_QP_UMEM_ID = FIELD(0x840, 32),
	CREATE_QP_UMEM_VALID = FIELD(0x860, 1),
};

enum {
	QPC_STATE = FIELD(0x0, 4),
	QPC_ST = FIELD(0x8, 8),
	QPC_PM_STATE = FIELD(0x13, 2),
	QPC_PD = FIELD(0x28, 24),
	QPC_MTU = FIELD(0x40, 3),
	QPC_LOG_MSG_MAX = FIELD(0x43, 5),
	QPC_LOG_RQ_SIZE = FIELD(0x49, 4),
	QPC_LOG_RQ_STRIDE = FIELD(0x4d, 3),
	QPC_NO_SQ = FIELD(0x50, 1),
	QPC_LOG_SQ_SIZE = FIELD(0x51, 4),
	QPC_TS_FORMAT = FIELD(0x58, 2),
	QPC_COUNTER_SET_ID = FIELD(0x60, 8),
	QPC_UAR_PAGE = FIELD(0x68, 24),
	QPC_USER_INDEX = FIELD(0x88, 24),
	QPC_LOG_PAGE_SIZE = FIELD(0xa3, 5),
	QPC_REMOTE_QPN = FIELD(0xa8, 24),
	QPC_PRIMARY_PATH = 0xc0,
	QPC_LOG_ACK_REQ_FREQ = FIELD(0x380, 4),
	QPC_LOG_SRA_MAX = FIELD(0x388, 3),
	QPC_RETRY_COUNT = FIELD(0x38d, 3),
	QPC_RNR_RETRY = FIELD(0x390, 3),
	QPC_NEXT_SEND_PSN = FIELD(0x3c8, 24),
	QPC_CQN_SND = FIELD(0x3e8, 24),
	QPC_LOG_RRA_MAX = FIELD(0x488, 3),
	QPC_ATOMIC_MODE = FIELD(0x48c, 4),
	QPC_RRE = FIELD(0x490, 1),
	QPC_RWE = FIELD(0x491, 1),
	QPC_RAE = FIELD(0x492, 1),
	QPC_PAGE_OFFSET = FIELD(0x494, 6),
	QPC_CD_MASTER = FIELD(0x49f, 1),
	QPC_MIN_RNR_NAK = FIELD(0x4a3, 5),
	QPC_NEXT_RCV_PSN = FIELD(0x4a8, 24),
	QPC_CQN_RCV = FIELD(0x4e8, 24),
	QPC_DBR_ADDR = FIELD(0x500, 64),
	QPC_RQ_TYPE = FIELD(0x565, 3),
	QPC_HW_SQ_COUNTER = FIELD(0x5a0, 16),
	QPC_SW_SQ_COUNTER = FIELD(0x5b0, 16),
	QPC_DBR_UMEM_VALID = FIELD(0x683, 1),
	QPC_DBR_UMEM_ID = FIELD(0x720, 32),
};

/* The path to the peer. */
enum {
	ADS_PKEY_INDEX = FIELD(0x10, 16),
	ADS_GRH = FIELD(0x28, 1),
	ADS_MLID = FIELD(0x29, 7),
	ADS_RLID = FIELD(0x30, 16),
	ADS_ACK_TIMEOUT = FIELD(0x40, 5),
	ADS_SRC_ADDR_INDEX = FIELD(0x48, 8),
	ADS_STAT_RATE = FIELD(0x54, 4),
	ADS_HOP_LIMIT = FIELD(0x58, 8),
	ADS_TCLASS = FIELD(0x64, 8),
	ADS_FLOW_LABEL = FIELD(0x6c, 20),
	ADS_RGID = 0x80,
	ADS_DSCP = FIELD(0x10a, 6),
	ADS_UDP_SPORT = FIELD(0x110, 16),
	ADS_ETH_PRIO = FIELD(0x121, 3),
	ADS_SL = FIELD(0x124, 4),
	ADS_VHCA_PORT_NUM = FIELD(0x128, 8),
	ADS_RMAC_47_32 = FIELD(0x130, 16),
	ADS_RMAC_31_0 = FIELD(0x140, 32),
};

/* What may be changed beside what a transition always sets. */
enum opt_param {
	OPT_PARAM_RRE = 1 << 1,
	OPT_PARAM_RAE = 1 << 2,
	OPT_PARAM_RWE = 1 << 3,
	OPT_PARAM_PKEY_INDEX = 1 << 4,
	OPT_PARAM_Q_KEY = 1 << 5,
	OPT_PARAM_RNR_TIMEOUT = 1 << 6,
	OPT_PARAM_PRIMARY_ADDR_PATH = 1 << 7,
	OPT_PARAM_SRA_MAX = 1 << 8,
	OPT_PARAM_RRA_MAX = 1 << 9,
	OPT_PARAM_PM_STATE = 1 << 10,
	OPT_PARAM_RETRY_COUNT = 1 << 12,
	OPT_PARAM_RNR_RETRY = 1 << 13,
	OPT_PARAM_ACK_TIMEOUT = 1 << 14,
	OPT_PARAM_COUNTER_SET_ID = 1 << 25,
};

enum { QUERY_CAP_OUT = 0x80 };

enum capability_group {
	CAP_GENERAL = 0x00,
	CAP_ATOMIC = 0x03,
	CAP_ROCE = 0x04,
	CAP_GENERAL_2 = 0x20,
};

enum {
	CAP_HCA_CAP_2 = FIELD(0x20, 1),
	CAP_LOG_MAX_QP_SZ = FIELD(0x88, 8),
	CAP_LOG_MAX_QP = FIELD(0x9b, 5),
	CAP_LOG_MAX_CQ_SZ = FIELD(0xc8, 8),
	CAP_LOG_MAX_CQ = FIELD(0xdb, 5),
	CAP_RELAXED_ORDERING_WRITE = FIELD(0xe8, 1),
	CAP_RELAXED_ORDERING_READ = FIELD(0xe9, 1),
	CAP_LOG_MAX_MKEY = FIELD(0xea, 6),
	CAP_GID_TABLE_SIZE = FIELD(0x170, 16),
	CAP_PORT_TYPE = FIELD(0x1b6, 2),
	CAP_NUM_PORTS = FIELD(0x1b8, 8),
	CAP_LOG_MAX_MSG = FIELD(0x1c3, 5),
	CAP_CQE_VERSION = FIELD(0x1fc, 4),
	CAP_ROCE_SUPPORTED = FIELD(0x21d, 1),
	CAP_ATOMIC_SUPPORTED = FIELD(0x21e, 1),
	CAP_CQ_OI = FIELD(0x220, 1),
	CAP_CD = FIELD(0x22c, 1),
	CAP_RC = FIELD(0x23f, 1),
	CAP_UAR_4K = FIELD(0x240, 1),
	CAP_LOG_PG_SZ = FIELD(0x258, 8),
	CAP_BF = FIELD(0x260, 1),
	CAP_LOG_BF_REG_SIZE = FIELD(0x26b, 5),
	CAP_MAX_WQE_SZ_SQ = FIELD(0x290, 16),
	CAP_MAX_WQE_SZ_RQ = FIELD(0x2b0, 16),
	CAP_SQ_TS_FORMAT = FIELD(0x440, 2),
	CAP_RQ_TS_FORMAT = FIELD(0x442, 2),
	CAP_LOG_UAR_PAGE_SZ = FIELD(0x490, 16),
};

enum {
	ATOMIC_8B_ENDIANNESS_MODE = FIELD(0x40, 2),
	ATOMIC_8B_ENDIANNESS_HOST = FIELD(0x46, 1),
	ATOMIC_OPERATIONS = FIELD(0x90, 16),
	ATOMIC_SIZE_QP = FIELD(0xb0, 16),
};

enum {
	ROCE_QP_TS_FORMAT = FIELD(0x1e, 2),
	ROCE_VERSION = FIELD(0x98, 8),
	ROCE_MAX_SRC_UDP_PORT = FIELD(0xc0, 16),
	ROCE_MIN_SRC_UDP_PORT = FIELD(0xd0, 16),
	ROCE_ADDRESS_TABLE_SIZE = FIELD(0xf0, 16),
};

enum {
	QUERY_ROCE_INDEX = FIELD(0x40, 16),
	QUERY_ROCE_PORT = FIELD(0x5c, 4),
	QUERY_ROCE_OUT = 0x80,
	ROCE_ADDR_GID = 0x0,
	ROCE_ADDR_MAC_47_32 = FIELD(0x90, 16),
	ROCE_ADDR_MAC_31_0 = FIELD(0xa0, 32),
	ROCE_ADDR_L3_TYPE = FIELD(0xd4, 4),
	ROCE_ADDR_VERSION = FIELD(0xd8, 8),
};

#endif
