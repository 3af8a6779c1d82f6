/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - names and descriptions of mlx5's numbers */
#include "words.h"

#include "prm.h"
#include "wqe.h"

#include <gin/core/mlx5.h>
#include <stddef.h>

struct word {
	unsigned number;
	const char *text;
};

#define FIND(table, number) find(table, sizeof(table) / sizeof((table)[0]), number)

static const char *find(const struct word *table, size_t count, unsigned number)
{
	for (size_t i = 0; i < count; i++) {
		if (table[i].number == number)
			return table[i].text;
	}
	return NULL;
}

const char *wqeOpcodeName(unsigned opcode)
{
	static const struct word names[] = {
		{ginMlx5OpNop, "NOP"},
		{wqeOpcodeSendInvalidate, "SEND_INVAL"},
		{ginMlx5OpWrite, "RDMA_WRITE"},
		{ginMlx5OpWriteImmediate, "RDMA_WRITE_IMM"},
		{wqeOpcodeSend, "SEND"},
		{wqeOpcodeSendImmediate, "SEND_IMM"},
		{0x0e, "TSO"},
		{wqeOpcodeWait, "WAIT"},
		{ginMlx5OpRead, "RDMA_READ"},
		{ginMlx5OpCompareSwap, "ATOMIC_CS"},
		{ginMlx5OpFetchAdd, "ATOMIC_FA"},
		{ginMlx5OpMaskedCompareSwap, "ATOMIC_MASKED_CS"},
		{ginMlx5OpMaskedFetchAdd, "ATOMIC_MASKED_FA"},
		{0x16, "RECV_ENABLE"},
		{0x17, "SEND_ENABLE"},
		{0x18, "BIND_MW"},
		{0x1b, "LOCAL_INVAL"},
		{0x1f, "CONFIG_CMD"},
		{0x20, "SET_PSV"},
		{ginMlx5OpDump, "DUMP"},
		{0x25, "UMR"},
		{0x28, "TAG_MATCHING"},
		{0x29, "ENHANCED_MPSW"},
		{0x2c, "FLOW_TBL_ACCESS"},
		{0x2d, "ACCESS_ASO"},
		{0x2f, "MMO"},
	};

	return FIND(names, opcode);
}

const char *cqeOpcodeName(unsigned opcode)
{
	static const struct word names[] = {
		{ginMlx5CqeRequest, "REQ"},
		{ginMlx5CqeReceivedImmediate, "RESP_WR_IMM"},
		{ginMlx5CqeReceived, "RESP_SEND"},
		{ginMlx5CqeReceivedSendImmediate, "RESP_SEND_IMM"},
		{ginMlx5CqeReceivedSendInvalidate, "RESP_SEND_INV"},
		{ginMlx5CqeResize, "RESIZE_CQ"},
		{6, "NO_PACKET"},
		{ginMlx5CqeSignatureError, "SIG_ERR"},
		{ginMlx5CqeRequestError, "REQ_ERR"},
		{ginMlx5CqeResponseError, "RESP_ERR"},
		{ginMlx5CqeInvalid, "INVALID"},
	};

	return FIND(names, opcode);
}

const char *commandName(unsigned opcode)
{
	static const struct word names[] = {
		{COMMAND_QUERY_HCA_CAP, "QUERY_HCA_CAP"},
		{COMMAND_CREATE_MKEY, "CREATE_MKEY"},
		{COMMAND_DESTROY_MKEY, "DESTROY_MKEY"},
		{COMMAND_CREATE_CQ, "CREATE_CQ"},
		{COMMAND_DESTROY_CQ, "DESTROY_CQ"},
		{COMMAND_QUERY_CQ, "QUERY_CQ"},
		{COMMAND_CREATE_QP, "CREATE_QP"},
		{COMMAND_DESTROY_QP, "DESTROY_QP"},
		{COMMAND_RST2INIT_QP, "RST2INIT_QP"},
		{COMMAND_INIT2RTR_QP, "INIT2RTR_QP"},
		{COMMAND_RTR2RTS_QP, "RTR2RTS_QP"},
		{COMMAND_RTS2RTS_QP, "RTS2RTS_QP"},
		{COMMAND_2ERR_QP, "2ERR_QP"},
		{COMMAND_2RST_QP, "2RST_QP"},
		{COMMAND_QUERY_QP, "QUERY_QP"},
		{COMMAND_INIT2INIT_QP, "INIT2INIT_QP"},
		{COMMAND_QUERY_ROCE_ADDRESS, "QUERY_ROCE_ADDRESS"},
		{COMMAND_ALLOC_PD, "ALLOC_PD"},
		{COMMAND_DEALLOC_PD, "DEALLOC_PD"},
		{COMMAND_ALLOC_UAR, "ALLOC_UAR"},
		{COMMAND_DEALLOC_UAR, "DEALLOC_UAR"},
		{COMMAND_CREATE_UMEM, "CREATE_UMEM"},
		{COMMAND_DESTROY_UMEM, "DESTROY_UMEM"},
	};

	return FIND(names, opcode);
}

const char *syndromeText(unsigned syndrome)
{
	static const struct word texts[] = {
		{ginMlx5LocalLength, "local length error: it moves more than a message may have, "
				     "or more than the receive has room for"},
		{ginMlx5LocalQueueOperation,
		 "local queue pair operation error: the WQE is malformed, or the queue pair does "
		 "not support its operation"},
		{ginMlx5LocalProtection,
		 "local protection error: the local key does not allow it, or does not cover the "
		 "address and length"},
		{ginMlx5Flushed, "flushed: an earlier WQE of the queue pair had failed"},
		{ginMlx5MemoryWindowBind, "memory window bind error"},
		{ginMlx5BadResponse, "bad response: the answer does not belong to the request"},
		{ginMlx5LocalAccess,
		 "local access error: incoming data could not access the memory that it was "
		 "meant for"},
		{ginMlx5RemoteInvalidRequest,
		 "remote invalid request: the peer's queue pair does not support this operation, "
		 "its length, or so many at a time"},
		{ginMlx5RemoteAccess,
		 "remote access error: the peer's key does not allow it, or does not cover the "
		 "address and length"},
		{ginMlx5RemoteOperation, "remote operation error: the peer could not execute it"},
		{ginMlx5TransportRetries,
		 "transport retries exceeded: the peer does not answer; it has died, its queue "
		 "pair is in error, or the path is broken"},
		{ginMlx5ReceiverNotReadyRetries,
		 "receiver-not-ready retries exceeded: the peer has posted no receive"},
		{ginMlx5RemoteAborted, "remote aborted: the peer aborted the operation"},
	};

	return FIND(texts, syndrome);
}

const char *commandStatusText(unsigned status)
{
	static const struct word texts[] = {
		{STATUS_OK, "success"},
		{STATUS_INTERNAL, "internal error of the device"},
		{STATUS_BAD_OP, "bad operation: the device has no such command"},
		{STATUS_BAD_PARAM, "bad parameter: a field has a value that it must not have"},
		{STATUS_BAD_SYS_STATE, "bad system state: the device is not ready for it"},
		{STATUS_BAD_RES, "bad resource: it names an object that does not exist, or that "
				 "another process owns"},
		{STATUS_RES_BUSY, "resource busy: another object needs it"},
		{STATUS_LIM_ERR, "limit exceeded"},
		{STATUS_BAD_RES_STATE, "bad resource state: the object is not ready for it"},
		{STATUS_IX_ERR, "bad index"},
		{STATUS_NO_RES, "no resources: the device has no more of these objects"},
		{STATUS_BAD_QP_STATE,
		 "bad queue pair state: the queue pair cannot change to it from "
		 "its current state"},
		{STATUS_BAD_PKT, "bad management packet"},
		{STATUS_BAD_SIZE_OUTS_CQES, "more completions are outstanding than the new size "
					    "has room for"},
		{STATUS_BAD_INP_LEN, "bad input length"},
		{STATUS_BAD_OUTP_LEN, "bad output length"},
	};
	const char *text = FIND(texts, status);

	return text ? text : "a status that is not known";
}

const char *verbsEventText(unsigned event)
{
	/* Indexed by enum ibv_event_type. */
	static const char *const texts[] = {
		"completion queue error: it was overrun, or its memory is not accessible",
		"queue pair fatal error: its completion could not be written",
		"queue pair request error: the peer sent what the queue pair must not take",
		"queue pair access error: the peer used a key that does not allow it",
		"a first message came before the connection was known to be there",
		"the send queue has drained",
		"the connection has moved to its other path",
		"the connection could not move to its other path",
		"device fatal error: it has to be reset, and all of its queues are lost",
		"the port is up",
		"the port is down",
		"the port's LID has changed",
		"the port's table of partition keys has changed",
		"the port has another subnet manager",
		"shared receive queue error",
		"the shared receive queue runs low",
		"the queue pair took its last request from the shared receive queue",
		"the subnet manager asks clients to register again",
		"the port's table of GIDs has changed",
		"work queue fatal error",
	};

	return event < sizeof(texts) / sizeof(texts[0]) ? texts[event]
							: "an event that is not known";
}

const char *deviceEventText(unsigned event)
{
	static const struct word texts[] = {
		{0x00, "completion"},
		{0x01, "the connection has moved to its other path"},
		{0x02, "a first message came before the connection was known to be there"},
		{0x03, "the send queue has drained"},
		{0x04, "completion queue error: it was overrun, or its memory is not accessible"},
		{0x05, "work queue catastrophic error: the device could not read the queue, or "
		       "write its completion"},
		{0x07, "the connection could not move to its other path"},
		{0x08, "internal error of the device"},
		{0x09, "the port's state has changed"},
		{0x0a, "a command has been answered"},
		{0x0b, "the device asks for pages"},
		{0x0c, "page fault"},
		{0x10, "work queue request error: the peer sent what the queue must not take"},
		{0x11, "work queue access error: the peer used a key that does not allow it"},
		{0x12, "shared receive queue error"},
		{0x13, "the queue pair took its last request from the shared receive queue"},
		{0x14, "the shared receive queue runs low"},
		{0x16, "a cable or its module was plugged, unplugged or failed"},
		{0x17, "the device is too hot"},
		{0x1a, "doorbells arrive faster than the device takes them"},
		{0x1b, "the port has stalled"},
		{0x27, "an object has changed"},
	};
	const char *text = FIND(texts, event);

	return text ? text : "an event that is not known";
}
