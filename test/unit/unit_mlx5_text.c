/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_mlx5_text.c - mlx5/: WQEs and CQEs in words; malformed ones are reported, and no bytes do
 * harm
 */
#include "mlx5/command.h"
#include "mlx5/cqe.h"
#include "mlx5/prm.h"
#include "mlx5/words.h"
#include "mlx5/wqe.h"

#include "hex.h"
#include "mlx5_encoders.h"

#if defined(__has_include)
#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>
#define HAS_VERBS
#endif
#endif

static struct ginMlx5Slot slot(uint32_t flags)
{
	return (struct ginMlx5Slot){ginMlx5Queue(0x123456), 0xabcd, flags};
}

static struct ginMlx5Memory remote(void)
{
	return (struct ginMlx5Memory){0x7f0000001000, ginMlx5Key(0x55667788)};
}

static struct ginMlx5Memory local(void)
{
	return (struct ginMlx5Memory){0x10000, ginMlx5Key(0x99aabbcc)};
}

/* `count` WQEBBs that begin at `wqe`. */
static void expectText(const void *wqe, uint32_t count, const char *expected)
{
	char text[512];
	struct decodedWqe w;

	wqeDecode(wqe, count, 0, &w);
	EXPECT_TEXT(w.defects, "");
	EXPECT_EQUAL(w.wqebbs, count);
	EXPECT_EQUAL(wqeText(&w, "; ", text, sizeof(text)), strlen(expected));
	EXPECT_TEXT(text, expected);
	printf("ok: %s\n", text);
}

static void one(struct ginMlx5Wqebb wqe, const char *expected)
{
	expectText(&wqe, 1, expected);
}

static void two(struct ginMlx5TwoWqebbs wqe, const char *expected)
{
	expectText(&wqe, 2, expected);
}

#define HEAD(name, ds) name ", index 0xabcd, queue 0x123456, ds " ds
#define THERE "; to 0x7f0000001000 rkey 0x55667788"

static void transfers(void)
{
	static const char bytes[33] = "abcdefghijklmnopqrstuvwxyz012345";
	uint32_t value[8];

	memcpy(value, bytes, sizeof(value));
	one(ginMlx5Nop(slot(ginMlx5Signaled)), HEAD("NOP", "1") ", CQE");
	one(ginMlx5Dump(slot(0), local(), 1),
	    HEAD("DUMP", "2") "; 1 bytes from 0x10000 lkey 0x99aabbcc");
	one(ginMlx5Write(slot(ginMlx5Fence | ginMlx5SignaledEvent | ginMlx5Solicited), remote(),
			 local(), 4096),
	    HEAD("RDMA_WRITE", "3") ", CQE and event, fence, solicited" THERE
				    "; 4096 bytes from 0x10000 lkey 0x99aabbcc");
	one(ginMlx5WriteImmediate(slot(0), remote(), local(), 1 << 30, 0x44332211),
	    HEAD("RDMA_WRITE_IMM", "3") ", immediate 0x11223344" THERE
					"; 1073741824 bytes from 0x10000 lkey 0x99aabbcc");
	one(ginMlx5Read(slot(ginMlx5FenceAndSmall), remote(), local(), 8),
	    HEAD("RDMA_READ", "3") ", fence and small; from 0x7f0000001000 rkey 0x55667788"
				   "; 8 bytes to 0x10000 lkey 0x99aabbcc");
	one(ginMlx5WriteInline8(slot(0), remote(), 0x0807060504030201),
	    HEAD("RDMA_WRITE", "3") THERE "; 8 bytes inline: 01020304 05060708");
	one(ginMlx5WriteInline(slot(0), remote(), value, 13),
	    HEAD("RDMA_WRITE", "4") THERE "; 13 bytes inline: 61626364 65666768 696a6b6c 6d");
	two(ginMlx5WriteInline32(slot(0), remote(), value),
	    HEAD("RDMA_WRITE", "5") THERE "; 32 bytes inline: 61626364 65666768 696a6b6c 6d6e6f70 "
					  "71727374 75767778 797a3031 32333435");
}

static void atomics(void)
{
	one(ginMlx5FetchAdd(slot(0), remote(), local(), 7),
	    HEAD("ATOMIC_FA", "4") THERE "; add 0x7; 8 bytes to 0x10000 lkey 0x99aabbcc");
	one(ginMlx5CompareSwap(slot(0), remote(), local(), 1, 2),
	    HEAD("ATOMIC_CS", "4") THERE "; if 0x1 then 0x2; 8 bytes to 0x10000 lkey 0x99aabbcc");
	one(ginMlx5MaskedFetchAdd4(slot(0), remote(), local(), 7, 1u << 31),
	    HEAD("ATOMIC_MASKED_FA op_mod 0x08", "4") THERE "; add 0x7, boundary 0x80000000"
							    "; 4 bytes to 0x10000 lkey 0x99aabbcc");
	one(ginMlx5MaskedFetchAdd8(slot(0), remote(), local(), 7, 1ull << 63),
	    HEAD("ATOMIC_MASKED_FA op_mod 0x09", "4") THERE "; add 0x7, boundary 0x8000000000000000"
							    "; 8 bytes to 0x10000 lkey 0x99aabbcc");
	one(ginMlx5MaskedCompareSwap4(slot(0), remote(), local(),
				      (struct ginMlx5Swap4){1, 2, 3, 4}),
	    HEAD("ATOMIC_MASKED_CS op_mod 0x08", "4") THERE
	    "; if 0x1 by mask 0x2 then 0x3 by mask 0x4"
	    "; 4 bytes to 0x10000 lkey 0x99aabbcc");
	two(ginMlx5MaskedCompareSwap8(slot(0), remote(), local(),
				      (struct ginMlx5Swap8){1, 2, 3, 1ull << 40}),
	    HEAD("ATOMIC_MASKED_CS op_mod 0x09", "5") THERE
	    "; if 0x1 by mask 0x2 then 0x3 by mask 0x10000000000"
	    "; 8 bytes to 0x10000 lkey 0x99aabbcc");
}

/* WQEs that other programs post. */
static void ofOthers(void)
{
	struct ginMlx5Wqebb wqe = {0};

	hexRead("0000010b 00012303 00000008 000000ff 00000010 00000005 0000000000002000"
		"80000004 01020304",
		(uint8_t *)&wqe, sizeof(wqe));
	one(wqe, "SEND_IMM, index 0x1, queue 0x123, ds 3, CQE, immediate 0x000000ff"
		 "; 16 bytes from 0x2000 lkey 0x5; 4 bytes inline: 01020304");
	hexRead("0000020f 00012302 00000008 00000000 0000000000000000 00000007 00000abc",
		(uint8_t *)&wqe, sizeof(wqe));
	one(wqe, "WAIT, index 0x2, queue 0x123, ds 2, CQE; until index 0x7 of completion queue "
		 "0xabc");
	hexRead("00000325 00012304 00000080 00000011", (uint8_t *)&wqe, sizeof(wqe));
	one(wqe, "UMR, index 0x3, queue 0x123, ds 4, fence and small");
}

/* The bytes have the defects in `defect`, and no others. */
static void malformed(const char *hex, const char *defect)
{
	uint8_t bytes[64] = {0};
	char text[512];
	struct decodedWqe w;

	hexRead(hex, bytes, sizeof(bytes));
	wqeDecode(bytes, 1, 0, &w);
	EXPECT_TEXT(w.defects, defect);
	wqeText(&w, "; ", text, sizeof(text));
	printf("ok: %s: %s\n", text, w.defects);
}

#define RADDR "0000000000001000 00000001 00000000"
#define DATA(bytes) bytes "00000002 0000000000002000"

static void malformedWqes(void)
{
	malformed("00000030 00000101", "there is no opcode 0x30");
	malformed("00000008 00000100 00000000", "ds is 0");
	malformed("00000008 00000140 00000000 00000000" RADDR, "ds is 64, more than 63");
	malformed("00000000 00000101 00000010", "reserved bits of fm_ce_se 0x10 are set");
	malformed("00000000 00000101 000000a0", "there is no fence mode 5");
	malformed("00000000 00000101 00120000", "reserved bytes 9 and 10 are 1200");
	malformed("00000000 00000102 00000000", "ds is 2, NOP has 1");
	malformed("01000000 00000101 00000000", "op_mod is 0x01, of NOP 0");
	malformed("00000008 00000101 00000000", "ds 1 leaves no room for the remote address");
	malformed("00000008 00000103 00000000 00000000 0000000000001000 00000001 00000009" DATA(
			  "00000008"),
		  "reserved word of the remote address is 0x00000009");
	malformed("00000010 00000103 00000000 00000000" RADDR DATA("00000000"),
		  "a length of 0, which means 2 GiB");
	malformed("00000010 00000104 00000000 00000000" RADDR DATA("40000000") DATA("00000001"),
		  "it moves 1073741825 bytes, more than 1 GiB");
	malformed("00000008 00000103 00000000 00000000" RADDR "8000000d",
		  "ds 3 has room for 12 inline bytes, not for 13");
	malformed("00000010 00000103 00000000 00000000" RADDR "80000004 01020304",
		  "inline bytes in place of local memory");
	malformed("00000012 00000102 00000000 00000000" RADDR,
		  "ds 2 leaves no room for the atomic's operands; ds 2 leaves no room for local "
		  "memory");
	malformed("00000012 00000104 00000000 00000000 0000000000001004 00000001 00000000"
		  "00000000 00000001 00000000 00000000" DATA("00000008"),
		  "remote address 0x1004 is not aligned to 8 bytes");
	malformed(
		"08000015 00000104 00000000 00000000 0000000000001002 00000001 00000000"
		"00000001 00000000 00000000 00000000" DATA("00000008"),
		"remote address 0x1002 is not aligned to 4 bytes; 8 bytes for the old value of 4");
	malformed("00000014 00000103 00000000 00000000" RADDR,
		  "ds 3 leaves no room for the masks; ds 3 leaves no room for local memory; "
		  "op_mod is 0x00, of a masked atomic 0x08 or 0x09");
	malformed("09000014 00000105 00000000 00000000" RADDR,
		  "it takes 2 WQEBBs, and there are 1; ds 5 leaves no room for local memory");
	malformed("0000000f 00000101 00000000", "ds 1 leaves no room for what it waits for");
	malformed("00000023 00000103 00000000 00000000" DATA("00000001"), "ds is 3, DUMP has 2");
}

/* From the last WQEBB to the first. */
static void goesRound(void)
{
	struct ginMlx5Wqebb queue[4] = {0};
	uint32_t value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct ginMlx5TwoWqebbs wqe = ginMlx5WriteInline32(slot(0), remote(), value);
	struct decodedWqe w;

	queue[3] = wqe.wqebb[0];
	queue[0] = wqe.wqebb[1];
	wqeDecode(queue, 4, 3, &w);
	EXPECT_TEXT(w.defects, "");
	EXPECT_EQUAL(w.inlinedBytes, 32);
	EXPECT(!memcmp(w.inlined, value, 32));
	EXPECT(wqeIsBlank(queue, 1) && !wqeIsBlank(queue, 0) && !wqeIsBlank(queue, 3));
	printf("ok: round the end\n");
}

static void completion(const char *hex, const char *expected, const char *defects)
{
	uint8_t bytes[64] = {0};
	char text[512];
	struct decodedCqe c;

	hexRead(hex, bytes + 32, 32);
	cqeDecode(bytes, &c);
	EXPECT_EQUAL(cqeText(&c, "; ", text, sizeof(text)), strlen(expected));
	EXPECT_TEXT(text, expected);
	EXPECT_TEXT(c.defects, defects);
	printf("ok: %s\n", text);
}

#define CQE(bytes, error, wqe, state) "00000000 00000000 00000000" bytes "00000000" error wqe state

static void completions(void)
{
	completion(CQE("00000000", "00000000", "08123456", "abcd0000"),
		   "REQ: RDMA_WRITE of queue 0x123456 done, index 0xabcd", "");
	completion(CQE("00000008", "00000000", "12123456", "abcd0001"),
		   "REQ: ATOMIC_FA of queue 0x123456 done, index 0xabcd, 8 bytes", "");
	completion("00000000 11223344 00000000 00000010 00000000 00000000 00123456 00050010",
		   "RESP_WR_IMM: request of queue 0x123456 done, index 0x5, 16 bytes, immediate "
		   "0x11223344",
		   "");
	completion(CQE("00000000", "00008813", "08123456", "abcd00d1"),
		   "REQ_ERR: RDMA_WRITE of queue 0x123456 failed, index 0xabcd; syndrome 0x13, "
		   "vendor's 0x88, remote access error: the peer's key does not allow it, or does "
		   "not cover the address and length",
		   "");
	completion(CQE("00000000", "5c000005", "10123456", "abce00d0"),
		   "REQ_ERR: RDMA_READ of queue 0x123456 failed, index 0xabce; syndrome 0x05, "
		   "vendor's 0x00, hardware's 0x5c, flushed: an earlier WQE of the queue pair had "
		   "failed",
		   "");
	completion(CQE("00000000", "00000000", "00000000", "000000f1"), "INVALID: not written", "");
	completion(CQE("00000000", "00000000", "3f123456", "abcd0000"),
		   "REQ: WQE of queue 0x123456 done, index 0xabcd",
		   "its WQE has opcode 0x3f, which does not exist");
	completion(CQE("00000000", "00000000", "08123456", "abcd0090"),
		   "opcode 9: request of queue 0x123456 done, index 0xabcd",
		   "there is no CQE opcode 9");
	completion(CQE("00000000", "00000077", "08123456", "abcd00d4"),
		   "REQ_ERR: RDMA_WRITE of queue 0x123456 failed, index 0xabcd; syndrome 0x77, "
		   "vendor's 0x00",
		   "there is no syndrome 0x77; format is 1, must be 0 for an error");
}

static void words(void)
{
	static const uint8_t syndromes[] = {
		ginMlx5LocalLength,	ginMlx5LocalQueueOperation,  ginMlx5LocalProtection,
		ginMlx5Flushed,		ginMlx5MemoryWindowBind,     ginMlx5BadResponse,
		ginMlx5LocalAccess,	ginMlx5RemoteInvalidRequest, ginMlx5RemoteAccess,
		ginMlx5RemoteOperation, ginMlx5TransportRetries,     ginMlx5ReceiverNotReadyRetries,
		ginMlx5RemoteAborted,
	};

	for (size_t i = 0; i < sizeof(syndromes); i++)
		expectThat(syndromeText(syndromes[i]) != NULL, __FILE__, __LINE__,
			   "syndrome 0x%02x has no text", syndromes[i]);
	EXPECT_TEXT(wqeOpcodeName(ginMlx5OpMaskedFetchAdd), "ATOMIC_MASKED_FA");
	EXPECT(wqeOpcodeName(0x30) == NULL && cqeOpcodeName(9) == NULL);
	EXPECT_TEXT(commandName(COMMAND_INIT2RTR_QP), "INIT2RTR_QP");
	EXPECT(commandName(0x999) == NULL);
	EXPECT_HAS(syndromeText(ginMlx5TransportRetries), "the peer does not answer");
	EXPECT(syndromeText(0x03) == NULL);
	EXPECT_HAS(commandStatusText(STATUS_BAD_INP_LEN), "bad input length");
	EXPECT_HAS(commandStatusText(0x77), "not known");
	EXPECT_HAS(deviceEventText(0x11), "access error");
	EXPECT_HAS(deviceEventText(0xff), "not known");
	EXPECT_HAS(verbsEventText(1000), "not known");
#ifdef HAS_VERBS
	EXPECT_HAS(verbsEventText(IBV_EVENT_CQ_ERR), "completion queue error");
	EXPECT_HAS(verbsEventText(IBV_EVENT_QP_ACCESS_ERR), "queue pair access error");
	EXPECT_HAS(verbsEventText(IBV_EVENT_DEVICE_FATAL), "device fatal");
	EXPECT_HAS(verbsEventText(IBV_EVENT_PORT_ACTIVE), "is up");
	EXPECT_HAS(verbsEventText(IBV_EVENT_PORT_ERR), "is down");
	EXPECT_HAS(verbsEventText(IBV_EVENT_SRQ_ERR), "shared receive queue error");
	EXPECT_HAS(verbsEventText(IBV_EVENT_GID_CHANGE), "GIDs");
	EXPECT_HAS(verbsEventText(IBV_EVENT_WQ_FATAL), "work queue fatal");
	EXPECT_HAS(verbsEventText(IBV_EVENT_WQ_FATAL + 1), "not known");
#endif
	printf("ok: words\n");
}

static void commands(void)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	char text[256];

	fieldSet(in, IN_OPCODE, COMMAND_CREATE_QP);
	EXPECT(commandSucceeded(out));
	fieldSet(out, OUT_STATUS, STATUS_BAD_PARAM);
	fieldSet(out, OUT_SYNDROME, 0x12ab);
	EXPECT(!commandSucceeded(out));
	size_t length = commandText(in, out, text, sizeof(text));
	EXPECT_EQUAL(length, strlen(text));
	EXPECT_TEXT(text, "CREATE_QP: bad parameter: a field has a value that it must not have "
			  "(status 0x03, syndrome 0x0012ab)");
	fieldSet(in, IN_OPCODE, 0x999);
	commandText(in, out, text, 14);
	EXPECT_TEXT(text, "command 0x999");
	printf("ok: a command's answer\n");
}

/* Any bytes can be decoded, into text of any size. */
static void anyBytes(void)
{
	const unsigned seed = 20261121;
	struct ginMlx5Wqebb queue[16];
	uint8_t *bytes = (uint8_t *)queue;
	char text[4096];
	int sound = 0;

	srand(seed);
	for (int round = 0; round < 20000; round++) {
		struct decodedWqe w;
		struct decodedCqe c;
		for (size_t i = 0; i < sizeof(queue); i++)
			bytes[i] = (uint8_t)rand();
		uint32_t count = 1 + (uint32_t)rand() % 16, at = (uint32_t)rand() % count;
		bytes[64 * at + 3] &= 0x1f; /* mostly opcodes that exist */
		wqeDecode(queue, count, at, &w);
		EXPECT(w.wqebbs >= 1 && w.wqebbs <= count);
		size_t room = (size_t)rand() % sizeof(text), length = wqeText(&w, "\n", text, room);
		EXPECT(room == 0 || strlen(text) == (length < room ? length : room - 1));
		cqeDecode(bytes, &c);
		length = cqeText(&c, "\n", text, room);
		EXPECT(room == 0 || strlen(text) == (length < room ? length : room - 1));
		sound += !*w.defects;
	}
	printf("ok: any bytes (seed %u; %d of 20000 are well-formed)\n", seed, sound);
}

int main(void)
{
	transfers();
	atomics();
	ofOthers();
	malformedWqes();
	goesRound();
	completions();
	words();
	commands();
	anyBytes();
	return 0;
}
