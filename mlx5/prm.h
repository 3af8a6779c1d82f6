/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prm.h - the commands of an mlx5 device and the positions of their fields
 *
 * A command is a mailbox of big-endian 32-bit words; its answer is another mailbox. A field is
 * defined by its first bit and its number of bits. Bits are counted from the most significant bit
 * of the first word, of the command or of a context inside the command. fieldAt() converts a field
 * of a context to a field of the command.
 *
 * For the code that makes queues, and for the software device.
 */
#ifndef GIN_MLX5_PRM_H
#define GIN_MLX5_PRM_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* A macro, because enumerators need constant expressions. */
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

/* Distance of the field's last bit from the end of its word. */
static inline uint32_t fieldShift(uint32_t field)
{
	return 31 - (fieldBit(field) + fieldWidth(field) - 1) % 32;
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

/* A field of 64 bits is two words; any other field is within one word. */
static inline uint64_t fieldGet(const void *mailbox, uint32_t field)
{
	uint32_t index = fieldBit(field) / 32;

	if (fieldWidth(field) == 64)
		return (uint64_t)wordGet(mailbox, index) << 32 | wordGet(mailbox, index + 1);
	return wordGet(mailbox, index) >> fieldShift(field) & fieldMask(field);
}

/* Bits of `value` beyond the field's width are dropped. */
static inline void fieldSet(void *mailbox, uint32_t field, uint64_t value)
{
	uint32_t index = fieldBit(field) / 32;
	uint32_t mask = fieldMask(field) << fieldShift(field);

	if (fieldWidth(field) == 64) {
		wordSet(mailbox, index, (uint32_t)(value >> 32));
		wordSet(mailbox, index + 1, (uint32_t)value);
		return;
	}
	wordSet(mailbox, index,
		(wordGet(mailbox, index) & ~mask) | ((uint32_t)value << fieldShift(field) & mask));
}

/* `field` of a context that begins at bit `base`. */
static inline uint32_t fieldAt(uint32_t base, uint32_t field)
{
	return field + (base << 8);
}

/* The bytes that begin at bit `bit`, such as those of a GID. */
static inline uint8_t *fieldBytes(void *mailbox, uint32_t bit)
{
	return (uint8_t *)mailbox + bit / 8;
}

enum commandOpcode {
	COMMAND_QUERY_HCA_CAP = 0x100,
	COMMAND_CREATE_MKEY = 0x200,
	COMMAND_DESTROY_MKEY = 0x202,
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
	COMMAND_ALLOC_PD = 0x800,
	COMMAND_DEALLOC_PD = 0x801,
	COMMAND_ALLOC_UAR = 0x802,
	COMMAND_DEALLOC_UAR = 0x803,
	COMMAND_CREATE_UMEM = 0xa08,
	COMMAND_DESTROY_UMEM = 0xa0a,
};

/* In words: commandStatusText(). */
enum commandStatus {
	STATUS_OK = 0x00,
	STATUS_INTERNAL = 0x01,
	STATUS_BAD_OP = 0x02,
	STATUS_BAD_PARAM = 0x03,
	STATUS_BAD_SYS_STATE = 0x04,
	STATUS_BAD_RES = 0x05,
	STATUS_RES_BUSY = 0x06,
	STATUS_LIM_ERR = 0x08,
	STATUS_BAD_RES_STATE = 0x09,
	STATUS_IX_ERR = 0x0a,
	STATUS_NO_RES = 0x0f,
	STATUS_BAD_QP_STATE = 0x10,
	STATUS_BAD_PKT = 0x30,
	STATUS_BAD_SIZE_OUTS_CQES = 0x40,
	STATUS_BAD_INP_LEN = 0x50,
	STATUS_BAD_OUTP_LEN = 0x51,
};

/* Fields of every command. The kernel fills in the uid; QUERY_HCA_CAP and QUERY_CQ have none. */
enum {
	IN_OPCODE = FIELD(0x0, 16),
	IN_UID = FIELD(0x10, 16),
	IN_OP_MOD = FIELD(0x30, 16),
	IN_NUMBER = FIELD(0x48, 24), /* of the object that is changed, queried or destroyed */
	OUT_STATUS = FIELD(0x0, 8),
	OUT_SYNDROME = FIELD(0x20, 32),
	OUT_NUMBER = FIELD(0x48, 24), /* of the object that was created */
};

/* Bytes of mailboxes. Mailboxes that are not listed have 16. */
enum {
	COMMAND_BYTES = 16,
	QUERY_CAP_OUT_BYTES = 4112,
	CREATE_CQ_IN_BYTES = 272,
	CREATE_QP_IN_BYTES = 272,
	MODIFY_QP_IN_BYTES = 272, /* RST2INIT and the other transitions */
	QUERY_QP_OUT_BYTES = 272,
	QUERY_ROCE_OUT_BYTES = 48,
	CREATE_MKEY_IN_BYTES = 272,
};

/* CREATE_CQ */
enum {
	CREATE_CQ_CQC = 0x80,
	CREATE_CQ_UMEM_OFFSET = FIELD(0x280, 64),
	CREATE_CQ_UMEM_ID = FIELD(0x2c0, 32),
	CREATE_CQ_UMEM_VALID = FIELD(0x2e0, 1),
	QUERY_CQ_OUT_CQC = 0x80,
};

/* A completion queue. */
enum {
	CQC_STATUS = FIELD(0x0, 4),
	CQC_DBR_UMEM_VALID = FIELD(0x6, 1),
	CQC_CQE_SZ = FIELD(0x8, 3), /* 0: 64 bytes */
	CQC_CC = FIELD(0xb, 1),	    /* collapsed: every CQE is written to the first entry */
	CQC_OI = FIELD(0xe, 1),	    /* ignore overrun */
	CQC_CQE_COMP_EN = FIELD(0x11, 1),
	CQC_ST = FIELD(0x14, 4),
	CQC_DBR_UMEM_ID = FIELD(0x20, 32),
	CQC_PAGE_OFFSET = FIELD(0x54, 6),
	CQC_TIMESTAMP_FORMAT = FIELD(0x5e, 2),
	CQC_LOG_CQ_SIZE = FIELD(0x63, 5),
	CQC_UAR_PAGE = FIELD(0x68, 24),
	CQC_C_EQN = FIELD(0xa0, 32), /* older devices use the last 8 bits */
	CQC_LOG_PAGE_SIZE = FIELD(0xc3, 5),
	CQC_CONSUMER_COUNTER = FIELD(0x148, 24),
	CQC_PRODUCER_COUNTER = FIELD(0x168, 24),
	CQC_DBR_ADDR = FIELD(0x1c0, 64), /* with a umem: offset in it */
};

/* CREATE_QP, the transitions and QUERY_QP's answer have the queue pair context at one offset. */
enum {
	QP_IN_QPN = IN_NUMBER,
	QP_IN_OPT_PARAM_MASK = FIELD(0x80, 32), /* enum optParam */
	QP_IN_ECE = FIELD(0xa0, 32),
	QP_IN_QPC = 0xc0,
	QP_OUT_QPC = 0xc0,
	CREATE_QP_UMEM_OFFSET = FIELD(0x800, 64),
	CREATE_QP_UMEM_ID = FIELD(0x840, 32),
	CREATE_QP_UMEM_VALID = FIELD(0x860, 1),
};

/* A queue pair. */
enum {
	QPC_STATE = FIELD(0x0, 4),
	QPC_LAG_TX_PORT_AFFINITY = FIELD(0x4, 4),
	QPC_ST = FIELD(0x8, 8), /* enum qpcService */
	QPC_ISOLATE_VL_TC = FIELD(0x12, 1),
	QPC_PM_STATE = FIELD(0x13, 2),
	QPC_PD = FIELD(0x28, 24),
	QPC_MTU = FIELD(0x40, 3), /* as enum ibv_mtu: 1 for 256 to 5 for 4096 */
	QPC_LOG_MSG_MAX = FIELD(0x43, 5),
	QPC_LOG_RQ_SIZE = FIELD(0x49, 4),
	QPC_LOG_RQ_STRIDE = FIELD(0x4d, 3),
	QPC_NO_SQ = FIELD(0x50, 1),
	QPC_LOG_SQ_SIZE = FIELD(0x51, 4), /* in WQEBBs */
	QPC_TS_FORMAT = FIELD(0x58, 2),
	QPC_DATA_IN_ORDER = FIELD(0x5a, 1),
	QPC_RLKY = FIELD(0x5b, 1), /* the reserved lkey may be used */
	QPC_COUNTER_SET_ID = FIELD(0x60, 8),
	QPC_UAR_PAGE = FIELD(0x68, 24),
	QPC_SEND_DBR_MODE = FIELD(0x80, 2), /* 0: the doorbell record is valid */
	QPC_USER_INDEX = FIELD(0x88, 24),
	QPC_LOG_PAGE_SIZE = FIELD(0xa3, 5),
	QPC_REMOTE_QPN = FIELD(0xa8, 24),
	QPC_PRIMARY_PATH = 0xc0,
	QPC_SECONDARY_PATH = 0x220,
	QPC_LOG_ACK_REQ_FREQ = FIELD(0x380, 4),
	QPC_LOG_SRA_MAX = FIELD(0x388, 3), /* reads and atomics in flight, as requester */
	QPC_RETRY_COUNT = FIELD(0x38d, 3),
	QPC_RNR_RETRY = FIELD(0x390, 3),
	QPC_FRE = FIELD(0x394, 1),
	QPC_NEXT_SEND_PSN = FIELD(0x3c8, 24),
	QPC_CQN_SND = FIELD(0x3e8, 24),
	QPC_LOG_RRA_MAX = FIELD(0x488, 3), /* reads and atomics in flight, as responder */
	QPC_ATOMIC_MODE = FIELD(0x48c, 4), /* enum qpcAtomicMode */
	QPC_RRE = FIELD(0x490, 1),
	QPC_RWE = FIELD(0x491, 1),
	QPC_RAE = FIELD(0x492, 1),
	QPC_PAGE_OFFSET = FIELD(0x494, 6),
	QPC_CD_SLAVE_RECEIVE = FIELD(0x49d, 1),
	QPC_CD_SLAVE_SEND = FIELD(0x49e, 1),
	QPC_CD_MASTER = FIELD(0x49f, 1), /* may post WAIT */
	QPC_MIN_RNR_NAK = FIELD(0x4a3, 5),
	QPC_NEXT_RCV_PSN = FIELD(0x4a8, 24),
	QPC_CQN_RCV = FIELD(0x4e8, 24),
	QPC_DBR_ADDR = FIELD(0x500, 64), /* with a umem: offset in it */
	QPC_Q_KEY = FIELD(0x540, 32),
	QPC_RQ_TYPE = FIELD(0x565, 3), /* enum qpcRqType */
	QPC_SRQN = FIELD(0x568, 24),
	QPC_HW_SQ_COUNTER = FIELD(0x5a0, 16),
	QPC_SW_SQ_COUNTER = FIELD(0x5b0, 16),
	QPC_CS_REQ = FIELD(0x630, 8),
	QPC_CS_RES = FIELD(0x638, 8),
	QPC_DBR_UMEM_VALID = FIELD(0x683, 1),
	QPC_DBR_UMEM_ID = FIELD(0x720, 32),
};

enum qpcService { QPC_SERVICE_RC = 0x0, QPC_SERVICE_UC = 0x1, QPC_SERVICE_UD = 0x2 };
enum { QPC_PM_MIGRATED = 0x3 };
enum qpcRqType { QPC_RQ_REGULAR = 0x0, QPC_RQ_SHARED = 0x1, QPC_RQ_NONE = 0x3 };

/* Masked atomics need QPC_ATOMIC_UP_TO_64B. */
enum qpcAtomicMode {
	QPC_ATOMIC_IB_SPEC = 0x1,
	QPC_ATOMIC_ONLY_8B = 0x2,
	QPC_ATOMIC_UP_TO_8B = 0x3,
	QPC_ATOMIC_UP_TO_64B = 0x6,
};

enum qpcTsFormat { QPC_TS_FREE_RUNNING = 0x0, QPC_TS_DEFAULT = 0x1, QPC_TS_REAL_TIME = 0x2 };

/* The path to the peer. VLAN and source MAC come from the GID of ADS_SRC_ADDR_INDEX. */
enum {
	ADS_FL = FIELD(0x0, 1),
	ADS_FREE_AR = FIELD(0x1, 1),
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
	ADS_RGID = 0x80, /* 16 bytes */
	ADS_ECN = FIELD(0x108, 2),
	ADS_DSCP = FIELD(0x10a, 6),
	ADS_UDP_SPORT = FIELD(0x110, 16),
	ADS_ETH_PRIO = FIELD(0x121, 3),
	ADS_SL = FIELD(0x124, 4),
	ADS_VHCA_PORT_NUM = FIELD(0x128, 8),
	ADS_RMAC_47_32 = FIELD(0x130, 16),
	ADS_RMAC_31_0 = FIELD(0x140, 32),
};

/* Fields that a transition changes only if their bit is set in the mask. */
enum optParam {
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

/* QUERY_HCA_CAP: op_mod is capabilityGroup << 1 | 1 for current values, | 0 for maximum values. */
enum { QUERY_CAP_OUT = 0x80 };

enum capabilityGroup {
	CAP_GENERAL = 0x00,
	CAP_ATOMIC = 0x03,
	CAP_ROCE = 0x04,
	CAP_GENERAL_2 = 0x20,
};

enum {
	CAP_HCA_CAP_2 = FIELD(0x20, 1),
	CAP_QP_DATA_IN_ORDER = FIELD(0x62, 1),
	CAP_LOG_MAX_QP_SZ = FIELD(0x88, 8),
	CAP_LOG_MAX_QP = FIELD(0x9b, 5),
	CAP_LOG_MAX_CQ_SZ = FIELD(0xc8, 8),
	CAP_LOG_MAX_CQ = FIELD(0xdb, 5),
	CAP_RELAXED_ORDERING_WRITE = FIELD(0xe8, 1),
	CAP_RELAXED_ORDERING_READ = FIELD(0xe9, 1),
	CAP_LOG_MAX_MKEY = FIELD(0xea, 6),
	CAP_GID_TABLE_SIZE = FIELD(0x170, 16),
	CAP_PORT_TYPE = FIELD(0x1b6, 2), /* 0: InfiniBand, 1: Ethernet */
	CAP_NUM_PORTS = FIELD(0x1b8, 8),
	CAP_LOG_MAX_MSG = FIELD(0x1c3, 5),
	CAP_CQE_VERSION = FIELD(0x1fc, 4),
	CAP_ROCE_SUPPORTED = FIELD(0x21d, 1),
	CAP_ATOMIC_SUPPORTED = FIELD(0x21e, 1),
	CAP_CQ_OI = FIELD(0x220, 1),
	CAP_CD = FIELD(0x22c, 1), /* WAIT */
	CAP_RC = FIELD(0x23f, 1),
	CAP_UAR_4K = FIELD(0x240, 1),
	CAP_LOG_PG_SZ = FIELD(0x258, 8),
	CAP_BF = FIELD(0x260, 1),
	CAP_LOG_BF_REG_SIZE = FIELD(0x26b, 5),
	CAP_MAX_WQE_SZ_SQ = FIELD(0x290, 16),
	CAP_MAX_WQE_SZ_RQ = FIELD(0x2b0, 16),
	CAP_SQ_TS_FORMAT = FIELD(0x440, 2), /* also of queue pairs; 0: ts_format must be 0 */
	CAP_RQ_TS_FORMAT = FIELD(0x442, 2),
	CAP_LOG_UAR_PAGE_SZ = FIELD(0x490, 16),
	CAP_NUM_OF_UARS_PER_PAGE = FIELD(0x520, 32),
};

enum { CAP_2_SEND_DBR_MODE_NO_DBR_EXT = FIELD(0x2e1, 1) };

enum {
	ATOMIC_8B_ENDIANNESS_MODE = FIELD(0x40, 2), /* 1: old values have the host's byte order */
	ATOMIC_8B_ENDIANNESS_HOST = FIELD(0x46, 1), /* mode 1 is supported; the kernel sets it */
	ATOMIC_OPERATIONS = FIELD(0x90, 16),	    /* enum atomicOperation */
	ATOMIC_SIZE_QP = FIELD(0xb0, 16),	    /* bit mask: 4 for 4 bytes, 8 for 8 bytes */
	ATOMIC_SIZE_DC = FIELD(0xd0, 16),
};

enum atomicOperation {
	ATOMIC_COMPARE_SWAP = 1 << 0,
	ATOMIC_FETCH_ADD = 1 << 1,
	ATOMIC_MASKED_COMPARE_SWAP = 1 << 2,
	ATOMIC_MASKED_FETCH_ADD = 1 << 3,
};

enum {
	ROCE_QP_TS_FORMAT = FIELD(0x1e, 2),
	ROCE_VERSION = FIELD(0x98, 8),
	ROCE_MAX_SRC_UDP_PORT = FIELD(0xc0, 16),
	ROCE_MIN_SRC_UDP_PORT = FIELD(0xd0, 16),
	ROCE_ADDRESS_TABLE_SIZE = FIELD(0xf0, 16),
};

/* QUERY_ROCE_ADDRESS, and the RoCE address in its answer: an entry of the GID table. */
enum {
	QUERY_ROCE_INDEX = FIELD(0x40, 16),
	QUERY_ROCE_PORT = FIELD(0x5c, 4),
	QUERY_ROCE_OUT = 0x80,
	ROCE_ADDR_GID = 0x0, /* 16 bytes */
	ROCE_ADDR_VLAN_VALID = FIELD(0x83, 1),
	ROCE_ADDR_VLAN_ID = FIELD(0x84, 12),
	ROCE_ADDR_MAC_47_32 = FIELD(0x90, 16),
	ROCE_ADDR_MAC_31_0 = FIELD(0xa0, 32),
	ROCE_ADDR_L3_TYPE = FIELD(0xd4, 4),
	ROCE_ADDR_VERSION = FIELD(0xd8, 8), /* 0: v1, 1: v1.5, 2: v2 */
};

/* CREATE_MKEY: the key is OUT_NUMBER << 8 | MKC_MKEY_7_0. */
enum {
	CREATE_MKEY_PG_ACCESS = FIELD(0x60, 1),
	CREATE_MKEY_UMEM_VALID = FIELD(0x61, 1),
	CREATE_MKEY_MKC = 0x80,
	CREATE_MKEY_TRANSLATIONS =
		FIELD(0x300, 32), /* count of 16-byte entries, in the command or in the umem */
};

/* A memory key. */
enum {
	MKC_FREE = FIELD(0x1, 1),
	MKC_ACCESS_MODE_4_2 = FIELD(0x3, 3),
	MKC_RELAXED_ORDERING_WRITE = FIELD(0xd, 1),
	MKC_UMR_EN = FIELD(0x10, 1),
	MKC_ATOMIC = FIELD(0x11, 1),
	MKC_REMOTE_WRITE = FIELD(0x12, 1),
	MKC_REMOTE_READ = FIELD(0x13, 1),
	MKC_LOCAL_WRITE = FIELD(0x14, 1),
	MKC_LOCAL_READ = FIELD(0x15, 1),
	MKC_ACCESS_MODE_1_0 = FIELD(0x16, 2), /* 0: one piece, 1: pages */
	MKC_QPN = FIELD(0x20, 24),	      /* 0xffffff: any */
	MKC_MKEY_7_0 = FIELD(0x38, 8),
	MKC_LENGTH64 = FIELD(0x60, 1), /* all memory */
	MKC_PD = FIELD(0x68, 24),
	MKC_START_ADDR = FIELD(0x80, 64),
	MKC_LEN = FIELD(0xc0, 64),
	MKC_TRANSLATIONS = FIELD(0x1a0, 32),
	MKC_RELAXED_ORDERING_READ = FIELD(0x1d9, 1),
	MKC_LOG_PAGE_SIZE = FIELD(0x1db, 5),
};

#endif
