/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5.h - what an mlx5 NIC reads and writes: work queue elements, completions, doorbells
 *
 * Encoders make a WQE in registers, as 16-byte segments; ginMlx5Store() puts each into the queue by
 * one store. Which lane makes which WQE, what orders the stores and who rings is the caller's. A
 * WQE is one WQEBB of 64 bytes, but for the two whose type says that they are two.
 *
 * Everything is big-endian in memory. What is the same in many WQEs is taken as it lies there, so
 * that it is turned once: "queue" from ginMlx5Queue(), "key" from ginMlx5Key(). All else is taken
 * as numbers.
 *
 * C11 and C++11, nvcc and NVRTC; little-endian machines, as all with CUDA are.
 */
#ifndef GIN_MLX5_H
#define GIN_MLX5_H

#include "../abi.h"

#if defined(__CUDACC_RTC__)
#define GIN_MLX5_FN static __device__ __forceinline__
#elif defined(__CUDACC__)
#define GIN_MLX5_FN static __host__ __device__ __forceinline__
#else
#define GIN_MLX5_FN static inline
#endif

enum {
	GIN_MLX5_WQEBB_BYTES = 64,
	GIN_MLX5_SEGMENT_BYTES = 16,
	GIN_MLX5_INLINE_BYTES = 28,	  /* most that a write of one WQEBB carries in itself */
	GIN_MLX5_MESSAGE_BYTES = 1 << 30, /* most that one WQE moves */
	GIN_MLX5_MAX_SEGMENTS = 63	  /* of one WQE */
};

enum ginMlx5Opcode {
	ginMlx5OpNop = 0x00,
	ginMlx5OpWrite = 0x08,
	ginMlx5OpWriteImmediate = 0x09,
	ginMlx5OpRead = 0x10,
	ginMlx5OpCompareSwap = 0x11,
	ginMlx5OpFetchAdd = 0x12,
	ginMlx5OpMaskedCompareSwap = 0x14,
	ginMlx5OpMaskedFetchAdd = 0x15,
	ginMlx5OpDump = 0x23 /* reads local bytes and drops them */
};

/* op_mod of the masked atomics: how wide the remote word is. */
enum ginMlx5AtomicWidth { ginMlx5Atomic4 = 0x08, ginMlx5Atomic8 = 0x09 };

/* fm_ce_se of the control segment: one fence, one completion mode, or none of each. */
enum ginMlx5Flags {
	ginMlx5Solicited = 1 << 1,
	ginMlx5CompletionOnFirstError = 1 << 2,
	ginMlx5Signaled = 2 << 2, /* a CQE in any case; without it on errors only */
	ginMlx5SignaledEvent = 3 << 2,
	ginMlx5FenceInitiatorSmall = 1 << 5,
	ginMlx5Fence = 2 << 5,
	ginMlx5FenceStrong = 3 << 5,
	ginMlx5FenceAndSmall = 4 << 5 /* IBV_SEND_FENCE: after earlier reads and atomics */
};

/* A CQE's opcode. */
enum ginMlx5Completion {
	ginMlx5CqeRequest = 0,
	ginMlx5CqeReceivedImmediate = 1,
	ginMlx5CqeReceived = 2,
	ginMlx5CqeReceivedSendImmediate = 3,
	ginMlx5CqeReceivedSendInvalidate = 4,
	ginMlx5CqeResize = 5,
	ginMlx5CqeSignatureError = 12,
	ginMlx5CqeRequestError = 13,
	ginMlx5CqeResponseError = 14,
	ginMlx5CqeInvalid = 15 /* nothing was written yet */
};

/* Why a WQE failed. */
enum ginMlx5Syndrome {
	ginMlx5LocalLength = 0x01,
	ginMlx5LocalQueueOperation = 0x02,
	ginMlx5LocalProtection = 0x04,
	ginMlx5Flushed = 0x05, /* an earlier one failed */
	ginMlx5MemoryWindowBind = 0x06,
	ginMlx5BadResponse = 0x10,
	ginMlx5LocalAccess = 0x11,
	ginMlx5RemoteInvalidRequest = 0x12,
	ginMlx5RemoteAccess = 0x13,
	ginMlx5RemoteOperation = 0x14,
	ginMlx5TransportRetries = 0x15,
	ginMlx5ReceiverNotReadyRetries = 0x16,
	ginMlx5RemoteAborted = 0x22
};

/* 16 bytes as they lie in memory: one store of a GPU. */
struct __attribute__((aligned(16))) ginMlx5Segment {
	uint32_t word[4];
};

struct ginMlx5Wqebb {
	struct ginMlx5Segment segment[4];
};

struct ginMlx5TwoWqebbs {
	struct ginMlx5Wqebb wqebb[2];
};

/* Which WQE of which queue. */
struct ginMlx5Slot {
	uint32_t queue; /* ginMlx5Queue(number) */
	uint32_t index; /* its first WQEBB, counted from the queue's start; 16 bits go to the NIC */
	uint32_t flags; /* enum ginMlx5Flags */
};

/* Memory here or at the peer. */
struct ginMlx5Memory {
	uint64_t address;
	uint32_t key; /* ginMlx5Key(number) */
};

/* A CQE as it lies in memory. A collapsed CQ is one, and `state` is all that a poll must load. */
struct ginMlx5Cqe {
	uint32_t reserved0[8];
	uint32_t userIndex; /* as the queue was made with */
	uint32_t immediate;
	uint32_t reserved40;
	uint32_t byteCount;
	uint32_t timestampHigh;
	uint32_t timestampLow; /* of an error: ginMlx5CqeSyndrome() and its like */
	uint32_t opcodeQueue;  /* of the WQE */
	uint32_t state;	       /* ginMlx5CqeCounter() and its like */
};

/* In memory that the queue was made with; the NIC reads it when it has lost a doorbell. */
struct ginMlx5DoorbellRecord {
	uint32_t receive;
	uint32_t send; /* ginMlx5RecordWord() */
};

GIN_MLX5_FN uint32_t ginMlx5Swap(uint32_t value)
{
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
	return __byte_perm(value, 0, 0x0123);
#else
	return __builtin_bswap32(value);
#endif
}

/* A queue's number, 24 bits, for ginMlx5Slot.queue. */
GIN_MLX5_FN uint32_t ginMlx5Queue(uint32_t number)
{
	return ginMlx5Swap(number << 8);
}

/* A memory key, lkey or rkey, for ginMlx5Memory.key. */
GIN_MLX5_FN uint32_t ginMlx5Key(uint32_t number)
{
	return ginMlx5Swap(number);
}

/* The first word of a control segment: op_mod, 16 bits of the index, opcode. */
GIN_MLX5_FN uint32_t ginMlx5OpcodeWord(uint32_t index, uint32_t opcode, uint32_t opMod)
{
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
	/* From byte 0 on: op_mod, the index's bytes 1 and 0, opcode; one instruction. */
	return __byte_perm(index, opMod << 8 | opcode, 0x4015);
#else
	return __builtin_bswap32(opMod << 24 | (index & 0xffff) << 8 | opcode);
#endif
}

/* For one store of 8 bytes to the queue's doorbell register: all WQEBBs before `next` are there. */
GIN_MLX5_FN uint64_t ginMlx5Doorbell(uint32_t queue, uint32_t next)
{
	return (uint64_t)queue << 32 | ginMlx5OpcodeWord(next, 0, 0);
}

/* The same for ginMlx5DoorbellRecord.send, to be stored before. */
GIN_MLX5_FN uint32_t ginMlx5RecordWord(uint32_t next)
{
	return ginMlx5Swap(next & 0xffff);
}

/* `immediate` as it shall lie in memory. */
GIN_MLX5_FN struct ginMlx5Segment ginMlx5Control(struct ginMlx5Slot slot, uint32_t opcode,
						 uint32_t opMod, uint32_t segments,
						 uint32_t immediate)
{
	struct ginMlx5Segment control = {{ginMlx5OpcodeWord(slot.index, opcode, opMod),
					  slot.queue | segments << 24, slot.flags << 24,
					  immediate}};

	return control;
}

/* Two numbers of 8 bytes: a remote address's or an atomic's. */
GIN_MLX5_FN struct ginMlx5Segment ginMlx5Pair(uint64_t first, uint64_t second)
{
	struct ginMlx5Segment pair = {
		{ginMlx5Swap((uint32_t)(first >> 32)), ginMlx5Swap((uint32_t)first),
		 ginMlx5Swap((uint32_t)(second >> 32)), ginMlx5Swap((uint32_t)second)}};

	return pair;
}

GIN_MLX5_FN struct ginMlx5Segment ginMlx5Remote(struct ginMlx5Memory memory)
{
	struct ginMlx5Segment remote = {{ginMlx5Swap((uint32_t)(memory.address >> 32)),
					 ginMlx5Swap((uint32_t)memory.address), memory.key, 0}};

	return remote;
}

GIN_MLX5_FN struct ginMlx5Segment ginMlx5Local(struct ginMlx5Memory memory, uint32_t bytes)
{
	struct ginMlx5Segment local = {{ginMlx5Swap(bytes), memory.key,
					ginMlx5Swap((uint32_t)(memory.address >> 32)),
					ginMlx5Swap((uint32_t)memory.address)}};

	return local;
}

GIN_MLX5_FN struct ginMlx5Segment ginMlx5NoSegment(void)
{
	struct ginMlx5Segment zeros = {{0, 0, 0, 0}};

	return zeros;
}

/*
 * One plain 16-byte store. The NIC sees it when a release and then the doorbell record and the
 * doorbell have followed.
 */
GIN_MLX5_FN void ginMlx5Store(struct ginMlx5Segment *to, struct ginMlx5Segment segment)
{
#if defined(__CUDA_ARCH__) || defined(__CUDACC_RTC__)
	asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(segment.word[0]),
		     "r"(segment.word[1]), "r"(segment.word[2]), "r"(segment.word[3])
		     : "memory");
#else
	*to = segment;
#endif
}

/* By one thread: four stores. */
GIN_MLX5_FN void ginMlx5StoreWqebb(struct ginMlx5Wqebb *to, struct ginMlx5Wqebb wqebb)
{
	ginMlx5Store(&to->segment[0], wqebb.segment[0]);
	ginMlx5Store(&to->segment[1], wqebb.segment[1]);
	ginMlx5Store(&to->segment[2], wqebb.segment[2]);
	ginMlx5Store(&to->segment[3], wqebb.segment[3]);
}

/*
 * Segment `i` of a WQEBB that stays in registers, which an array's index would put into memory: so
 * that four lanes, who have made the same, store one segment each.
 */
GIN_MLX5_FN struct ginMlx5Segment ginMlx5SegmentOf(struct ginMlx5Wqebb wqebb, uint32_t i)
{
	struct ginMlx5Segment segment;

	for (uint32_t k = 0; k < 4; k++) {
		uint32_t low = i & 1 ? wqebb.segment[1].word[k] : wqebb.segment[0].word[k];
		uint32_t high = i & 1 ? wqebb.segment[3].word[k] : wqebb.segment[2].word[k];
		segment.word[k] = i & 2 ? high : low;
	}
	return segment;
}

/* Moves nothing; completes in its turn. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Nop(struct ginMlx5Slot slot)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpNop, 0, 1, 0), ginMlx5NoSegment(),
				    ginMlx5NoSegment(), ginMlx5NoSegment()}};

	return wqe;
}

/* The NIC reads `bytes` of `local`, behind what it has written there, and drops them. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Dump(struct ginMlx5Slot slot, struct ginMlx5Memory local,
					    uint32_t bytes)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpDump, 0, 2, 0),
				    ginMlx5Local(local, bytes), ginMlx5NoSegment(),
				    ginMlx5NoSegment()}};

	return wqe;
}

/* 1 to GIN_MLX5_MESSAGE_BYTES bytes: what moves nothing is a NOP. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Write(struct ginMlx5Slot slot, struct ginMlx5Memory remote,
					     struct ginMlx5Memory local, uint32_t bytes)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpWrite, 0, 3, 0),
				    ginMlx5Remote(remote), ginMlx5Local(local, bytes),
				    ginMlx5NoSegment()}};

	return wqe;
}

/* And takes a receive request of the peer, whose CQE has `immediate` as it is given here. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5WriteImmediate(struct ginMlx5Slot slot,
						      struct ginMlx5Memory remote,
						      struct ginMlx5Memory local, uint32_t bytes,
						      uint32_t immediate)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpWriteImmediate, 0, 3, immediate),
				    ginMlx5Remote(remote), ginMlx5Local(local, bytes),
				    ginMlx5NoSegment()}};

	return wqe;
}

/* 1 to GIN_MLX5_MESSAGE_BYTES bytes from the peer into `local`. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Read(struct ginMlx5Slot slot, struct ginMlx5Memory remote,
					    struct ginMlx5Memory local, uint32_t bytes)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpRead, 0, 3, 0),
				    ginMlx5Remote(remote), ginMlx5Local(local, bytes),
				    ginMlx5NoSegment()}};

	return wqe;
}

/* Segments of a write that carries its bytes: their length stands before them. */
GIN_MLX5_FN uint32_t ginMlx5InlineSegments(uint32_t bytes)
{
	return 2 + (4 + bytes + 15) / 16;
}

GIN_MLX5_FN uint32_t ginMlx5InlineWord(uint32_t bytes)
{
	return ginMlx5Swap(bytes | 1u << 31);
}

/*
 * 1 to GIN_MLX5_INLINE_BYTES bytes of `value`, which is whole words: those that the last one has
 * beyond `bytes` are not sent.
 */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5WriteInline(struct ginMlx5Slot slot,
						   struct ginMlx5Memory remote,
						   const uint32_t *value, uint32_t bytes)
{
	struct ginMlx5Wqebb wqe = {
		{ginMlx5Control(slot, ginMlx5OpWrite, 0, ginMlx5InlineSegments(bytes), 0),
		 ginMlx5Remote(remote), ginMlx5NoSegment(), ginMlx5NoSegment()}};

	wqe.segment[2].word[0] = ginMlx5InlineWord(bytes);
	for (uint32_t i = 0; i < GIN_MLX5_INLINE_BYTES / 4; i++) {
		if (4 * i < bytes)
			wqe.segment[2 + (i + 1) / 4].word[(i + 1) % 4] = value[i];
	}
	return wqe;
}

GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5WriteInline4(struct ginMlx5Slot slot,
						    struct ginMlx5Memory remote, uint32_t value)
{
	return ginMlx5WriteInline(slot, remote, &value, 4);
}

GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5WriteInline8(struct ginMlx5Slot slot,
						    struct ginMlx5Memory remote, uint64_t value)
{
	const uint32_t words[2] = {(uint32_t)value, (uint32_t)(value >> 32)};

	return ginMlx5WriteInline(slot, remote, words, 8);
}

/* 32 bytes, which need a second WQEBB for the last four. */
GIN_MLX5_FN struct ginMlx5TwoWqebbs
ginMlx5WriteInline32(struct ginMlx5Slot slot, struct ginMlx5Memory remote, const uint32_t *value)
{
	struct ginMlx5TwoWqebbs wqe = {{ginMlx5WriteInline(slot, remote, value, 28),
					{{{{value[7], 0, 0, 0}},
					  ginMlx5NoSegment(),
					  ginMlx5NoSegment(),
					  ginMlx5NoSegment()}}}};

	wqe.wqebb[0].segment[0] = ginMlx5Control(slot, ginMlx5OpWrite, 0, 5, 0);
	wqe.wqebb[0].segment[2].word[0] = ginMlx5InlineWord(32);
	return wqe;
}

/* Control, remote address, operands, and where the old value of `width` bytes goes. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Atomic(struct ginMlx5Segment control,
					      struct ginMlx5Memory remote,
					      struct ginMlx5Memory local,
					      struct ginMlx5Segment operands, uint32_t width)
{
	struct ginMlx5Wqebb wqe = {
		{control, ginMlx5Remote(remote), operands, ginMlx5Local(local, width)}};

	return wqe;
}

/* Adds to 8 aligned bytes; their old value goes to `local`, as do those of all atomics. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5FetchAdd(struct ginMlx5Slot slot,
						struct ginMlx5Memory remote,
						struct ginMlx5Memory local, uint64_t add)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpFetchAdd, 0, 4, 0), remote, local,
			     ginMlx5Pair(add, 0), 8);
}

/* Stores `swap` where 8 aligned bytes equal `compare`. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5CompareSwap(struct ginMlx5Slot slot,
						   struct ginMlx5Memory remote,
						   struct ginMlx5Memory local, uint64_t compare,
						   uint64_t swap)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpCompareSwap, 0, 4, 0), remote, local,
			     ginMlx5Pair(swap, compare), 8);
}

/*
 * No carry leaves a bit that `boundary` has; 0: one number of 4 bytes.
 *
 * Devices answer atomics of 4 bytes with the old value in big-endian order, whatever they do with
 * 8: what is in `local` then needs ginMlx5Swap().
 */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5MaskedFetchAdd4(struct ginMlx5Slot slot,
						       struct ginMlx5Memory remote,
						       struct ginMlx5Memory local, uint32_t add,
						       uint32_t boundary)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpMaskedFetchAdd, ginMlx5Atomic4, 4, 0),
			     remote, local, ginMlx5Pair((uint64_t)add << 32 | boundary, 0), 4);
}

GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5MaskedFetchAdd8(struct ginMlx5Slot slot,
						       struct ginMlx5Memory remote,
						       struct ginMlx5Memory local, uint64_t add,
						       uint64_t boundary)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpMaskedFetchAdd, ginMlx5Atomic8, 4, 0),
			     remote, local, ginMlx5Pair(add, boundary), 8);
}

/*
 * Bits of a masked compare and swap: those of `compareMask` are compared, and when they are equal,
 * those of `swapMask` are stored. compareMask 0: a plain swap. The old value comes as a masked
 * add's.
 */
struct ginMlx5Swap4 {
	uint32_t compare, compareMask, swap, swapMask;
};

struct ginMlx5Swap8 {
	uint64_t compare, compareMask, swap, swapMask;
};

GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5MaskedCompareSwap4(struct ginMlx5Slot slot,
							  struct ginMlx5Memory remote,
							  struct ginMlx5Memory local,
							  struct ginMlx5Swap4 bits)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpMaskedCompareSwap, ginMlx5Atomic4, 4, 0),
			     remote, local,
			     ginMlx5Pair((uint64_t)bits.swap << 32 | bits.compare,
					 (uint64_t)bits.swapMask << 32 | bits.compareMask),
			     4);
}

/* The masks push the local segment into a second WQEBB. */
GIN_MLX5_FN struct ginMlx5TwoWqebbs ginMlx5MaskedCompareSwap8(struct ginMlx5Slot slot,
							      struct ginMlx5Memory remote,
							      struct ginMlx5Memory local,
							      struct ginMlx5Swap8 bits)
{
	struct ginMlx5TwoWqebbs wqe = {
		{{{ginMlx5Control(slot, ginMlx5OpMaskedCompareSwap, ginMlx5Atomic8, 5, 0),
		   ginMlx5Remote(remote), ginMlx5Pair(bits.swap, bits.compare),
		   ginMlx5Pair(bits.swapMask, bits.compareMask)}},
		 {{ginMlx5Local(local, 8), ginMlx5NoSegment(), ginMlx5NoSegment(),
		   ginMlx5NoSegment()}}}};

	return wqe;
}

/* Of ginMlx5Cqe.state: the 16 bits of the index of the WQE that is done, and all before it. */
GIN_MLX5_FN uint32_t ginMlx5CqeCounter(uint32_t state)
{
	return ginMlx5Swap(state) >> 16;
}

/* enum ginMlx5Completion */
GIN_MLX5_FN uint32_t ginMlx5CqeOpcode(uint32_t state)
{
	return state >> 28;
}

/* 0 in the first lap of a CQ, 1 in the second, and so on; of no use in a collapsed one. */
GIN_MLX5_FN uint32_t ginMlx5CqeOwner(uint32_t state)
{
	return state >> 24 & 1;
}

/* 0: plain; 1 and 2: data stands in the CQE; 3: several in one. */
GIN_MLX5_FN uint32_t ginMlx5CqeFormat(uint32_t state)
{
	return state >> 26 & 3;
}

/* What a CQE's state is before the NIC writes it: the host sets all so. */
GIN_MLX5_FN uint32_t ginMlx5CqeEmpty(void)
{
	return (ginMlx5CqeInvalid << 4 | 1u) << 24;
}

/* Of ginMlx5Cqe.timestampLow after an error: enum ginMlx5Syndrome. */
GIN_MLX5_FN uint32_t ginMlx5CqeSyndrome(uint32_t error)
{
	return error >> 24;
}

/* The maker's own number beside it, for those who can ask the maker. */
GIN_MLX5_FN uint32_t ginMlx5CqeVendorSyndrome(uint32_t error)
{
	return error >> 16 & 0xff;
}

GIN_MLX5_FN uint32_t ginMlx5CqeHardwareSyndrome(uint32_t error)
{
	return error & 0xff;
}

/* Of ginMlx5Cqe.opcodeQueue. */
GIN_MLX5_FN uint32_t ginMlx5CqeQueueNumber(uint32_t opcodeQueue)
{
	return ginMlx5Swap(opcodeQueue) & 0xffffff;
}

/* enum ginMlx5Opcode of the WQE */
GIN_MLX5_FN uint32_t ginMlx5CqeWqeOpcode(uint32_t opcodeQueue)
{
	return opcodeQueue & 0xff;
}

#endif
