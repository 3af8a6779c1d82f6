/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5.h - what an mlx5 NIC reads and writes: work queue elements, completions, doorbells
 *
 * Called by the other files of this folder, and on the CPU by backends, tools and the software
 * device. Calls nothing. The order of use is: an encoder (ginMlx5Write() and the functions after
 * it) makes a WQE in registers, as segments of 16 bytes; ginMlx5StoreWqebb() stores it into the
 * queue; ginMlx5RecordWord() and ginMlx5Doorbell() make the words that announce it; ginMlx5Cqe...()
 * read the completion. The caller decides which lane makes which WQE, how the stores are ordered,
 * and which thread rings. A WQE is one WQEBB of 64 bytes, or two where an encoder returns struct
 * ginMlx5TwoWqebbs.
 *
 * Everything is big-endian in memory. Values that many WQEs share are taken in that order, so that
 * they are swapped once: "queue" from ginMlx5Queue(), "key" from ginMlx5Key(). All other arguments
 * are plain numbers.
 *
 * C11 and C++11, nvcc and NVRTC; little-endian machines, as all machines with CUDA are.
 */
#ifndef GIN_MLX5_H
#define GIN_MLX5_H

#include "abi.h"

#if defined(__clang__) && defined(__CUDA__) && !defined(__CUDACC__)
#include "clang.cuh"
#define GIN_MLX5_FN static __device__ __forceinline__
#elif defined(__CUDACC_RTC__)
#define GIN_MLX5_FN static __device__ __forceinline__
#elif defined(__CUDACC__)
#define GIN_MLX5_FN static __host__ __device__ __forceinline__
#else
#define GIN_MLX5_FN static inline
#endif

enum {
	GIN_MLX5_WQEBB_BYTES = 64,
	GIN_MLX5_SEGMENT_BYTES = 16,
	GIN_MLX5_INLINE_BYTES = 28,	 /* most that a write of one WQEBB carries in itself */
	GIN_MLX5_MESSAGE_BYTES = 1 << 30 /* most that one WQE moves */
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
	ginMlx5Signaled = 2 << 2, /* always write a CQE; without this flag only after an error */
	ginMlx5SignaledEvent = 3 << 2,
	ginMlx5FenceInitiatorSmall = 1 << 5,
	ginMlx5Fence = 2 << 5,
	ginMlx5FenceStrong = 3 << 5,
	ginMlx5FenceAndSmall = 4 << 5 /* IBV_SEND_FENCE: after earlier reads and atomics */
};

/* The opcode of a CQE. */
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
	ginMlx5CqeInvalid = 15 /* the NIC has written nothing yet */
};

/* Why a WQE failed. */
enum ginMlx5Syndrome {
	ginMlx5LocalLength = 0x01,
	ginMlx5LocalQueueOperation = 0x02,
	ginMlx5LocalProtection = 0x04,
	ginMlx5Flushed = 0x05, /* an earlier WQE failed */
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

/* 16 bytes in the order of memory: one store of a GPU. */
struct __attribute__((aligned(16))) ginMlx5Segment {
	uint32_t word[4];
};

struct ginMlx5Wqebb {
	struct ginMlx5Segment segment[4];
};

struct ginMlx5TwoWqebbs {
	struct ginMlx5Wqebb wqebb[2];
};

/* A WQE of a queue. */
struct ginMlx5Slot {
	uint32_t queue; /* ginMlx5Queue(number) */
	uint32_t index; /* of its first WQEBB, from the start of the queue; the NIC gets 16 bits */
	uint32_t flags; /* enum ginMlx5Flags */
};

/* Memory of this rank or of the peer. */
struct ginMlx5Memory {
	uint64_t address;
	uint32_t key; /* ginMlx5Key(number) */
};

/* A CQE in the order of memory. A collapsed CQ has one, and a poll loads only `state`. */
struct ginMlx5Cqe {
	uint32_t reserved0[8];
	uint32_t userIndex; /* the number given when the queue was made */
	uint32_t immediate;
	uint32_t reserved40;
	uint32_t byteCount;
	uint32_t timestampHigh;
	uint32_t timestampLow; /* after an error: ginMlx5CqeSyndrome() and the two after it */
	uint32_t opcodeQueue;  /* of the WQE */
	uint32_t state;	       /* ginMlx5CqeCounter() and the three after it */
};

/* In memory given to the NIC when the queue was made; the NIC reads it after losing a doorbell. */
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

/*
 * ginMlx5Swap() of a value that is usually a constant, which compilers do not compute through
 * __byte_perm().
 */
GIN_MLX5_FN uint32_t ginMlx5SwapKnown(uint32_t value)
{
	return ((value << 8 | value >> 24) & 0x00ff00ff) |
	       ((value >> 8 | value << 24) & 0xff00ff00);
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
	/* One instruction. Bytes from 0 on: op_mod, bytes 1 and 0 of the index, opcode. */
	return __byte_perm(index, opMod << 8 | opcode, 0x4015);
#else
	return __builtin_bswap32(opMod << 24 | (index & 0xffff) << 8 | opcode);
#endif
}

/*
 * The word for one store of 8 bytes to the queue's doorbell register: all WQEBBs below `next` are
 * written.
 */
GIN_MLX5_FN uint64_t ginMlx5Doorbell(uint32_t queue, uint32_t next)
{
	return (uint64_t)queue << 32 | ginMlx5OpcodeWord(next, 0, 0);
}

/* The word for ginMlx5DoorbellRecord.send, stored before the doorbell. */
GIN_MLX5_FN uint32_t ginMlx5RecordWord(uint32_t next)
{
	return ginMlx5Swap(next & 0xffff);
}

/* A control segment. `immediate` is taken in the order of memory. */
GIN_MLX5_FN struct ginMlx5Segment ginMlx5Control(struct ginMlx5Slot slot, uint32_t opcode,
						 uint32_t opMod, uint32_t segments,
						 uint32_t immediate)
{
	struct ginMlx5Segment control = {{ginMlx5OpcodeWord(slot.index, opcode, opMod),
					  slot.queue | segments << 24, slot.flags << 24,
					  immediate}};

	return control;
}

/* Two numbers of 8 bytes, such as the operands of an atomic. */
GIN_MLX5_FN struct ginMlx5Segment ginMlx5Pair(uint64_t first, uint64_t second)
{
	struct ginMlx5Segment pair = {
		{ginMlx5SwapKnown((uint32_t)(first >> 32)), ginMlx5SwapKnown((uint32_t)first),
		 ginMlx5SwapKnown((uint32_t)(second >> 32)), ginMlx5SwapKnown((uint32_t)second)}};

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
	struct ginMlx5Segment local = {{ginMlx5SwapKnown(bytes), memory.key,
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
 * One plain store of 16 bytes. The NIC sees it after a release, then the doorbell record and the
 * doorbell.
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

/* Four stores by one thread. */
GIN_MLX5_FN void ginMlx5StoreWqebb(struct ginMlx5Wqebb *to, struct ginMlx5Wqebb wqebb)
{
	ginMlx5Store(&to->segment[0], wqebb.segment[0]);
	ginMlx5Store(&to->segment[1], wqebb.segment[1]);
	ginMlx5Store(&to->segment[2], wqebb.segment[2]);
	ginMlx5Store(&to->segment[3], wqebb.segment[3]);
}

/* Moves nothing; completes in order. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Nop(struct ginMlx5Slot slot)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpNop, 0, 1, 0), ginMlx5NoSegment(),
				    ginMlx5NoSegment(), ginMlx5NoSegment()}};

	return wqe;
}

/* The NIC reads `bytes` of `local` after its earlier writes there, and drops them. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Dump(struct ginMlx5Slot slot, struct ginMlx5Memory local,
					    uint32_t bytes)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpDump, 0, 2, 0),
				    ginMlx5Local(local, bytes), ginMlx5NoSegment(),
				    ginMlx5NoSegment()}};

	return wqe;
}

/* Moves 1 to GIN_MLX5_MESSAGE_BYTES bytes to the peer. For zero bytes use a NOP. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Write(struct ginMlx5Slot slot, struct ginMlx5Memory remote,
					     struct ginMlx5Memory local, uint32_t bytes)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpWrite, 0, 3, 0),
				    ginMlx5Remote(remote), ginMlx5Local(local, bytes),
				    ginMlx5NoSegment()}};

	return wqe;
}

/* Moves 1 to GIN_MLX5_MESSAGE_BYTES bytes from the peer into `local`. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Read(struct ginMlx5Slot slot, struct ginMlx5Memory remote,
					    struct ginMlx5Memory local, uint32_t bytes)
{
	struct ginMlx5Wqebb wqe = {{ginMlx5Control(slot, ginMlx5OpRead, 0, 3, 0),
				    ginMlx5Remote(remote), ginMlx5Local(local, bytes),
				    ginMlx5NoSegment()}};

	return wqe;
}

/* Segments of a write that carries its bytes. A word with their number precedes the bytes. */
GIN_MLX5_FN uint32_t ginMlx5InlineSegments(uint32_t bytes)
{
	return 2 + (4 + bytes + 15) / 16;
}

GIN_MLX5_FN uint32_t ginMlx5InlineWord(uint32_t bytes)
{
	return ginMlx5Swap(bytes | 1u << 31);
}

/*
 * Writes 1 to GIN_MLX5_INLINE_BYTES bytes of `value`, an array of whole words; bytes of the last
 * word beyond `bytes` are not sent.
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

GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5WriteInline8(struct ginMlx5Slot slot,
						    struct ginMlx5Memory remote, uint64_t value)
{
	const uint32_t words[2] = {(uint32_t)value, (uint32_t)(value >> 32)};

	return ginMlx5WriteInline(slot, remote, words, 8);
}

/*
 * An atomic from its control segment, remote address and operands. The old value of `width` bytes
 * goes to `local`.
 */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5Atomic(struct ginMlx5Segment control,
					      struct ginMlx5Memory remote,
					      struct ginMlx5Memory local,
					      struct ginMlx5Segment operands, uint32_t width)
{
	struct ginMlx5Wqebb wqe = {
		{control, ginMlx5Remote(remote), operands, ginMlx5Local(local, width)}};

	return wqe;
}

/* Adds to 8 aligned bytes. As with every atomic the old value goes to `local`. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5FetchAdd(struct ginMlx5Slot slot,
						struct ginMlx5Memory remote,
						struct ginMlx5Memory local, uint64_t add)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpFetchAdd, 0, 4, 0), remote, local,
			     ginMlx5Pair(add, 0), 8);
}

/* Stores `swap` if 8 aligned bytes equal `compare`. */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5CompareSwap(struct ginMlx5Slot slot,
						   struct ginMlx5Memory remote,
						   struct ginMlx5Memory local, uint64_t compare,
						   uint64_t swap)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpCompareSwap, 0, 4, 0), remote, local,
			     ginMlx5Pair(swap, compare), 8);
}

/*
 * Adds to 4 aligned bytes. No carry leaves a bit that is set in `boundary`; 0: the 4 bytes are one
 * number.
 *
 * Devices return the old value of an atomic of 4 bytes in big-endian order, whatever the order of 8
 * bytes is: apply ginMlx5Swap() to the word at `local`.
 */
GIN_MLX5_FN struct ginMlx5Wqebb ginMlx5MaskedFetchAdd4(struct ginMlx5Slot slot,
						       struct ginMlx5Memory remote,
						       struct ginMlx5Memory local, uint32_t add,
						       uint32_t boundary)
{
	return ginMlx5Atomic(ginMlx5Control(slot, ginMlx5OpMaskedFetchAdd, ginMlx5Atomic4, 4, 0),
			     remote, local, ginMlx5Pair((uint64_t)add << 32 | boundary, 0), 4);
}

/*
 * Operands of a masked compare-and-swap: the bits of `compareMask` are compared, and if they are
 * equal the bits of `swapMask` are stored. compareMask 0: a plain swap. The order of the old value
 * is as after a masked add.
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

/* The masks leave no room for the local segment, which goes to a second WQEBB. */
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

/*
 * From ginMlx5Cqe.state: 16 bits of the index of a completed WQE; all earlier WQEs are completed
 * too.
 */
GIN_MLX5_FN uint32_t ginMlx5CqeCounter(uint32_t state)
{
	return ginMlx5Swap(state) >> 16;
}

/* From ginMlx5Cqe.state: enum ginMlx5Completion. */
GIN_MLX5_FN uint32_t ginMlx5CqeOpcode(uint32_t state)
{
	return state >> 28;
}

/* 0 in even laps of a CQ, 1 in odd ones; of no use in a collapsed CQ. */
GIN_MLX5_FN uint32_t ginMlx5CqeOwner(uint32_t state)
{
	return state >> 24 & 1;
}

/* 0: plain; 1 and 2: the CQE carries data; 3: it stands for several CQEs. */
GIN_MLX5_FN uint32_t ginMlx5CqeFormat(uint32_t state)
{
	return state >> 26 & 3;
}

/* The state to which the host sets every CQE before the NIC writes it. */
GIN_MLX5_FN uint32_t ginMlx5CqeEmpty(void)
{
	return (ginMlx5CqeInvalid << 4 | 1u) << 24;
}

/* From ginMlx5Cqe.timestampLow after an error: enum ginMlx5Syndrome. */
GIN_MLX5_FN uint32_t ginMlx5CqeSyndrome(uint32_t error)
{
	return error >> 24;
}

/* The vendor's own number for the error, for a report to the vendor. */
GIN_MLX5_FN uint32_t ginMlx5CqeVendorSyndrome(uint32_t error)
{
	return error >> 16 & 0xff;
}

GIN_MLX5_FN uint32_t ginMlx5CqeHardwareSyndrome(uint32_t error)
{
	return error & 0xff;
}

/* From ginMlx5Cqe.opcodeQueue. */
GIN_MLX5_FN uint32_t ginMlx5CqeQueueNumber(uint32_t opcodeQueue)
{
	return ginMlx5Swap(opcodeQueue) & 0xffffff;
}

/* From ginMlx5Cqe.opcodeQueue: enum ginMlx5Opcode of the WQE. */
GIN_MLX5_FN uint32_t ginMlx5CqeWqeOpcode(uint32_t opcodeQueue)
{
	return opcodeQueue & 0xff;
}

#endif
