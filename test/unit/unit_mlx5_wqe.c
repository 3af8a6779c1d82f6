/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_mlx5_wqe.c - gin/core/mlx5.h: each WQE, doorbell and completion against bytes written down
 * here
 *
 * The compiler compares layouts and numbers with <infiniband/mlx5dv.h>, where there is one.
 * mlx5_verbs.c compares the bytes with libmlx5's.
 */
#include "hex.h"
#include "mlx5_encoders.h"

#if defined(__has_include)
#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>
#define HAS_MLX5DV
#endif
#endif

#ifdef HAS_MLX5DV

#define SAME(own, theirs) _Static_assert((int)(own) == (int)(theirs), #own " is not " #theirs)
#define SAME_PLACE(own, ownMember, theirs, theirMember)                                            \
	_Static_assert(offsetof(struct own, ownMember) == offsetof(struct theirs, theirMember),    \
		       #own "." #ownMember " is elsewhere than " #theirs "." #theirMember)

SAME(GIN_MLX5_WQEBB_BYTES, MLX5_SEND_WQE_BB);
SAME(GIN_MLX5_SEGMENT_BYTES, sizeof(struct mlx5_wqe_ctrl_seg));
SAME(GIN_MLX5_SEGMENT_BYTES, sizeof(struct mlx5_wqe_raddr_seg));
SAME(GIN_MLX5_SEGMENT_BYTES, sizeof(struct mlx5_wqe_data_seg));
SAME(GIN_MLX5_SEGMENT_BYTES, sizeof(struct mlx5_wqe_atomic_seg));
SAME(offsetof(struct mlx5_wqe_ctrl_seg, opmod_idx_opcode), 0);
SAME(offsetof(struct mlx5_wqe_ctrl_seg, qpn_ds), 4);
SAME(offsetof(struct mlx5_wqe_ctrl_seg, signature), 8);
SAME(offsetof(struct mlx5_wqe_ctrl_seg, fm_ce_se), 11);
SAME(offsetof(struct mlx5_wqe_ctrl_seg, imm), 12);
SAME(offsetof(struct mlx5_wqe_raddr_seg, raddr), 0);
SAME(offsetof(struct mlx5_wqe_raddr_seg, rkey), 8);
SAME(offsetof(struct mlx5_wqe_data_seg, byte_count), 0);
SAME(offsetof(struct mlx5_wqe_data_seg, lkey), 4);
SAME(offsetof(struct mlx5_wqe_data_seg, addr), 8);
SAME(offsetof(struct mlx5_wqe_atomic_seg, swap_add), 0);
SAME(offsetof(struct mlx5_wqe_atomic_seg, compare), 8);
SAME(1u << 31, MLX5_INLINE_SEG);

SAME(ginMlx5OpNop, MLX5_OPCODE_NOP);
SAME(ginMlx5OpWrite, MLX5_OPCODE_RDMA_WRITE);
SAME(ginMlx5OpWriteImmediate, MLX5_OPCODE_RDMA_WRITE_IMM);
SAME(ginMlx5OpRead, MLX5_OPCODE_RDMA_READ);
SAME(ginMlx5OpCompareSwap, MLX5_OPCODE_ATOMIC_CS);
SAME(ginMlx5OpFetchAdd, MLX5_OPCODE_ATOMIC_FA);
SAME(ginMlx5OpMaskedCompareSwap, MLX5_OPCODE_ATOMIC_MASKED_CS);
SAME(ginMlx5OpMaskedFetchAdd, MLX5_OPCODE_ATOMIC_MASKED_FA);

SAME(ginMlx5Solicited, MLX5_WQE_CTRL_SOLICITED);
SAME(ginMlx5Signaled, MLX5_WQE_CTRL_CQ_UPDATE);
SAME(ginMlx5FenceInitiatorSmall, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
SAME(ginMlx5FenceAndSmall, MLX5_WQE_CTRL_FENCE);

SAME(sizeof(struct ginMlx5Cqe), sizeof(struct mlx5_cqe64));
SAME(sizeof(struct ginMlx5Cqe), sizeof(struct mlx5_err_cqe));
SAME_PLACE(ginMlx5Cqe, userIndex, mlx5_cqe64, srqn_uidx);
SAME_PLACE(ginMlx5Cqe, immediate, mlx5_cqe64, imm_inval_pkey);
SAME_PLACE(ginMlx5Cqe, byteCount, mlx5_cqe64, byte_cnt);
SAME_PLACE(ginMlx5Cqe, timestampHigh, mlx5_cqe64, timestamp);
SAME_PLACE(ginMlx5Cqe, opcodeQueue, mlx5_cqe64, sop_drop_qpn);
SAME_PLACE(ginMlx5Cqe, state, mlx5_cqe64, wqe_counter);
SAME_PLACE(ginMlx5Cqe, opcodeQueue, mlx5_err_cqe, s_wqe_opcode_qpn);
SAME(offsetof(struct mlx5_cqe64, op_own), offsetof(struct ginMlx5Cqe, state) + 3);
SAME(offsetof(struct mlx5_err_cqe, vendor_err_synd), offsetof(struct ginMlx5Cqe, timestampLow) + 2);
SAME(offsetof(struct mlx5_err_cqe, syndrome), offsetof(struct ginMlx5Cqe, timestampLow) + 3);

SAME(ginMlx5CqeRequest, MLX5_CQE_REQ);
SAME(ginMlx5CqeReceivedImmediate, MLX5_CQE_RESP_WR_IMM);
SAME(ginMlx5CqeReceived, MLX5_CQE_RESP_SEND);
SAME(ginMlx5CqeReceivedSendImmediate, MLX5_CQE_RESP_SEND_IMM);
SAME(ginMlx5CqeReceivedSendInvalidate, MLX5_CQE_RESP_SEND_INV);
SAME(ginMlx5CqeResize, MLX5_CQE_RESIZE_CQ);
SAME(ginMlx5CqeSignatureError, MLX5_CQE_SIG_ERR);
SAME(ginMlx5CqeRequestError, MLX5_CQE_REQ_ERR);
SAME(ginMlx5CqeResponseError, MLX5_CQE_RESP_ERR);
SAME(ginMlx5CqeInvalid, MLX5_CQE_INVALID);

SAME(ginMlx5LocalLength, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
SAME(ginMlx5LocalQueueOperation, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
SAME(ginMlx5LocalProtection, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
SAME(ginMlx5Flushed, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
SAME(ginMlx5MemoryWindowBind, MLX5_CQE_SYNDROME_MW_BIND_ERR);
SAME(ginMlx5BadResponse, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
SAME(ginMlx5LocalAccess, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
SAME(ginMlx5RemoteInvalidRequest, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
SAME(ginMlx5RemoteAccess, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
SAME(ginMlx5RemoteOperation, MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
SAME(ginMlx5TransportRetries, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
SAME(ginMlx5ReceiverNotReadyRetries, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
SAME(ginMlx5RemoteAborted, MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);

SAME(offsetof(struct ginMlx5DoorbellRecord, receive) / 4, MLX5_RCV_DBR);
SAME(offsetof(struct ginMlx5DoorbellRecord, send) / 4, MLX5_SND_DBR);

#endif

_Static_assert(sizeof(struct ginMlx5Segment) == 16 && _Alignof(struct ginMlx5Segment) == 16,
	       "one store");
_Static_assert(sizeof(struct ginMlx5Wqebb) == 64 && sizeof(struct ginMlx5TwoWqebbs) == 128,
	       "whole");

#define REMOTE "0123456789abcdef 55667788 00000000"
#define LOCAL(bytes) bytes "99aabbcc fedcba9876543210"

/* Bits of the index above 16 must not appear. */
static struct ginMlx5Slot slot(uint32_t flags)
{
	return (struct ginMlx5Slot){ginMlx5Queue(0x123456), 0x5abcd, flags};
}

static struct ginMlx5Memory remote(void)
{
	return (struct ginMlx5Memory){0x0123456789abcdef, ginMlx5Key(0x55667788)};
}

static struct ginMlx5Memory local(void)
{
	return (struct ginMlx5Memory){0xfedcba9876543210, ginMlx5Key(0x99aabbcc)};
}

static void one(struct ginMlx5Wqebb wqe, const char *hex, const char *name)
{
	hexExpect(&wqe, sizeof(wqe), hex, name);
}

static void two(struct ginMlx5TwoWqebbs wqe, const char *hex, const char *name)
{
	hexExpect(&wqe, sizeof(wqe), hex, name);
}

static void transfers(void)
{
	one(ginMlx5Nop(slot(ginMlx5Signaled)), "00abcd00 12345601 00000008 00000000", "NOP");
	one(ginMlx5Dump(slot(ginMlx5Signaled), local(), 1),
	    "00abcd23 12345602 00000008 00000000" LOCAL("00000001"), "DUMP");
	one(ginMlx5Write(slot(0), remote(), local(), 0x12345),
	    "00abcd08 12345603 00000000 00000000" REMOTE LOCAL("00012345"), "RDMA_WRITE");
	one(ginMlx5Write(slot(0), remote(), local(), GIN_MLX5_MESSAGE_BYTES),
	    "00abcd08 12345603 00000000 00000000" REMOTE LOCAL("40000000"), "RDMA_WRITE, 1 GiB");
	one(ginMlx5WriteImmediate(slot(ginMlx5Solicited), remote(), local(), 64, 0x44332211),
	    "00abcd09 12345603 00000002 11223344" REMOTE LOCAL("00000040"), "RDMA_WRITE_IMM");
	one(ginMlx5Read(slot(ginMlx5FenceAndSmall | ginMlx5Signaled), remote(), local(), 256),
	    "00abcd10 12345603 00000088 00000000" REMOTE LOCAL("00000100"), "RDMA_READ");
}

static void inlineWrites(void)
{
	static const char bytes[33] = "abcdefghijklmnopqrstuvwxyz012345";
	uint32_t value[8];

	memcpy(value, bytes, sizeof(value));
	one(ginMlx5WriteInline4(slot(0), remote(), value[0]),
	    "00abcd08 12345603 00000000 00000000" REMOTE "80000004 61626364", "inline, 4 bytes");
	one(ginMlx5WriteInline8(slot(0), remote(), (uint64_t)value[1] << 32 | value[0]),
	    "00abcd08 12345603 00000000 00000000" REMOTE "80000008 6162636465666768",
	    "inline, 8 bytes");
	one(ginMlx5WriteInline(slot(0), remote(), value, 12),
	    "00abcd08 12345603 00000000 00000000" REMOTE "8000000c 6162636465666768696a6b6c",
	    "inline, 12 bytes");
	one(ginMlx5WriteInline(slot(0), remote(), value, 13),
	    "00abcd08 12345604 00000000 00000000" REMOTE "8000000d 6162636465666768696a6b6c"
	    "6d6e6f70",
	    "inline, 13 bytes and the rest of their word");
	one(ginMlx5WriteInline(slot(ginMlx5Signaled), remote(), value, 28),
	    "00abcd08 12345604 00000008 00000000" REMOTE
	    "8000001c 6162636465666768696a6b6c 6d6e6f707172737475767778797a3031",
	    "inline, 28 bytes");
	two(ginMlx5WriteInline32(slot(ginMlx5Signaled), remote(), value),
	    "00abcd08 12345605 00000008 00000000" REMOTE
	    "80000020 6162636465666768696a6b6c 6d6e6f707172737475767778797a3031 32333435",
	    "inline, 32 bytes");
}

static void atomics(void)
{
	one(ginMlx5FetchAdd(slot(ginMlx5Signaled), remote(), local(), 0x1122334455667788),
	    "00abcd12 12345604 00000008 00000000" REMOTE
	    "1122334455667788 0000000000000000" LOCAL("00000008"),
	    "ATOMIC_FA");
	one(ginMlx5CompareSwap(slot(0), remote(), local(), 0xc0c1c2c3c4c5c6c7, 0xd0d1d2d3d4d5d6d7),
	    "00abcd11 12345604 00000000 00000000" REMOTE
	    "d0d1d2d3d4d5d6d7 c0c1c2c3c4c5c6c7" LOCAL("00000008"),
	    "ATOMIC_CS");
	one(ginMlx5MaskedFetchAdd4(slot(0), remote(), local(), 0xa0a1a2a3, 0xb0b1b2b3),
	    "08abcd15 12345604 00000000 00000000" REMOTE
	    "a0a1a2a3 b0b1b2b3 0000000000000000" LOCAL("00000004"),
	    "ATOMIC_MASKED_FA, 4 bytes");
	one(ginMlx5MaskedFetchAdd8(slot(0), remote(), local(), 0xa0a1a2a3a4a5a6a7,
				   0xb0b1b2b3b4b5b6b7),
	    "09abcd15 12345604 00000000 00000000" REMOTE
	    "a0a1a2a3a4a5a6a7 b0b1b2b3b4b5b6b7" LOCAL("00000008"),
	    "ATOMIC_MASKED_FA, 8 bytes");
	one(ginMlx5MaskedCompareSwap4(slot(0), remote(), local(),
				      (struct ginMlx5Swap4){.compare = 0xc0c1c2c3,
							    .compareMask = 0xcacbcccd,
							    .swap = 0xd0d1d2d3,
							    .swapMask = 0xdadbdcdd}),
	    "08abcd14 12345604 00000000 00000000" REMOTE
	    "d0d1d2d3 c0c1c2c3 dadbdcdd cacbcccd" LOCAL("00000004"),
	    "ATOMIC_MASKED_CS, 4 bytes");
	two(ginMlx5MaskedCompareSwap8(slot(0), remote(), local(),
				      (struct ginMlx5Swap8){.compare = 0xc0c1c2c3c4c5c6c7,
							    .compareMask = 0xc8c9cacbcccdcecf,
							    .swap = 0xd0d1d2d3d4d5d6d7,
							    .swapMask = 0xd8d9dadbdcdddedf}),
	    "09abcd14 12345605 00000000 00000000" REMOTE "d0d1d2d3d4d5d6d7 c0c1c2c3c4c5c6c7"
	    "d8d9dadbdcdddedf c8c9cacbcccdcecf" LOCAL("00000008"),
	    "ATOMIC_MASKED_CS, 8 bytes");
}

static void stores(void)
{
	struct ginMlx5Wqebb wqe = ginMlx5FetchAdd(slot(0), remote(), local(), 0x1122334455667788);
	struct ginMlx5Wqebb byOne, byFour;

	ginMlx5StoreWqebb(&byOne, wqe);
	EXPECT(!memcmp(&byOne, &wqe, sizeof(wqe)));
	for (uint32_t lane = 0; lane < 4; lane++)
		ginMlx5Store(&byFour.segment[lane], ginMlx5SegmentOf(wqe, lane));
	EXPECT(!memcmp(&byFour, &wqe, sizeof(wqe)));
	printf("ok: stored by one thread and by four\n");
}

static void doorbells(void)
{
	uint64_t doorbell = ginMlx5Doorbell(ginMlx5Queue(0x123456), 0x5abcd);
	struct ginMlx5DoorbellRecord record = {.send = ginMlx5RecordWord(0x5abcd)};

	hexExpect(&doorbell, sizeof(doorbell), "00abcd00 12345600", "doorbell");
	hexExpect(&record, sizeof(record), "00000000 0000abcd", "doorbell record");
}

static void completions(void)
{
	struct ginMlx5Cqe cqe = {0};

	hexRead("a1a2a3a4", (uint8_t *)&cqe.timestampLow, 4);
	hexRead("08123456", (uint8_t *)&cqe.opcodeQueue, 4);
	hexRead("abcd55dd", (uint8_t *)&cqe.state, 4);
	EXPECT_EQUAL(ginMlx5CqeHardwareSyndrome(cqe.timestampLow), 0xa1);
	EXPECT_EQUAL(ginMlx5CqeVendorSyndrome(cqe.timestampLow), 0xa3);
	EXPECT_EQUAL(ginMlx5CqeSyndrome(cqe.timestampLow), 0xa4);
	EXPECT_EQUAL(ginMlx5CqeWqeOpcode(cqe.opcodeQueue), ginMlx5OpWrite);
	EXPECT_EQUAL(ginMlx5CqeQueueNumber(cqe.opcodeQueue), 0x123456);
	EXPECT_EQUAL(ginMlx5CqeCounter(cqe.state), 0xabcd);
	EXPECT_EQUAL(ginMlx5CqeOpcode(cqe.state), ginMlx5CqeRequestError);
	EXPECT_EQUAL(ginMlx5CqeFormat(cqe.state), 3);
	EXPECT_EQUAL(ginMlx5CqeOwner(cqe.state), 1);
	cqe.state = ginMlx5CqeEmpty();
	EXPECT_EQUAL(ginMlx5CqeOpcode(cqe.state), ginMlx5CqeInvalid);
	EXPECT_EQUAL(ginMlx5CqeOwner(cqe.state), 1);
	hexExpect(&cqe.state, 4, "000000f1", "a CQE before it is written");
}

int main(void)
{
	transfers();
	inlineWrites();
	atomics();
	stores();
	doorbells();
	completions();
	return 0;
}
