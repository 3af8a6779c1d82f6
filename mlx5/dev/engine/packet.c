/* SPDX-License-Identifier: BSD-3-Clause */
#include "packet.h"

#include <stdlib.h>
#include <string.h>

#include "requester.h"
#include "responder.h"
#include "mlx5/dev/host/violation.h"
#include "wire.h"

struct packet *packetCopy(const struct packet *packet)
{
	struct packet *copy = malloc(packetBytes(packet));

	if (!copy)
		noMemory("a packet");
	memcpy(copy, packet, packetBytes(packet));
	copy->next = NULL;
	return copy;
}

static void take(const struct packet *packet)
{
	if (packet->kind == PACKET_REQUEST)
		responderTake(packet);
	else
		requesterTake(packet);
}

bool packetSend(int pid, const struct packet *packet)
{
	if (!pid)
		return false;
	if (pid != devicePid)
		return wireSend(pid, packet);
	take(packet);
	return true;
}

void packetReceiveAll(void)
{
	static struct packet packet;
	int pid;

	while (wireReceive(&packet))
		take(&packet);
	while ((pid = wireDead()))
		requesterPeerDied(pid);
}
