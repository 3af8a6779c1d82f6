/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.h - packets from a queue pair to its peer, in this process or another */
#ifndef MLX5DEV_PACKET_H
#define MLX5DEV_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PACKET_DATA = 32768 };
enum packet_kind { PACKET_REQUEST, PACKET_RESPONSE };

struct packet {
	struct packet *next;
	uint8_t kind, opcode, syndrome, operandBytes;
	bool last;	    /* of its message */
	bool isUnreliable;  /* the sender expects no answer */
	uint8_t mtu;	    /* of the sender, as enum ibv_mtu */
	uint8_t rnrRetries; /* of the sender */
	uint8_t inFlight;   /* READs and atomics of the sender, with this request */
	int16_t fromDevice, toDevice;
	int32_t pid; /* of the sender */
	uint32_t fromQpn, toQpn;
	uint32_t sequence; /* of the work request */
	uint32_t psn;	   /* where the connection began */
	uint32_t bytes;	   /* of data in this packet */
	uint32_t offset;   /* of them in the message */
	uint32_t total;	   /* of the message */
	uint32_t key, immediate;
	uint64_t address;     /* of the message */
	uint64_t operands[4]; /* of an atomic; the value before it comes back in the first */
	uint8_t data[PACKET_DATA];
};

static inline size_t packetBytes(const struct packet *packet)
{
	return offsetof(struct packet, data) + packet->bytes;
}

struct packet *packetCopy(const struct packet *packet);

/* To its device and queue pair; false: that process is gone. */
bool packetSend(int pid, const struct packet *packet);

/* All that have come from other processes. */
void packetReceiveAll(void);

#endif
