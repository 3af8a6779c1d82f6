/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.c - writes the inputs of parsers in real exchanges as inputs of the fuzz targets
 *
 * Linked with the library and test/faults/life.cc, in front of functions of the library (--wrap).
 * Each process writes to the folders of FUZZ_RECORD; test/fuzz/seeds runs it.
 */
/* LINK: -Wl,--wrap=rootGroupsAdd,--wrap=controlGatherAdd,--wrap=controlDeliver */
/* LINK: -Wl,--wrap=descriptorTake,--wrap=networkReceive,--wrap=networkReceiveImmediate */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/proxy/descriptor.h"
#include "backends/proxy/network/network.h"
#include "bootstrap/root_group.h"
#include "lib/control/internal.h"

#define SEED_MOST 6000 /* bytes of an input */

/* An input that grows by steps. */
struct seed {
	const char *target;
	size_t bytes;
	int fd; /* + 1; 0: not open */
};

/* `first`: the byte with which inputs of the target begin. A step that has no room is left out. */
static void addStep(struct seed *seed, uint8_t first, const void *step, size_t head,
		    const void *data, size_t bytes)
{
	const char *folder = getenv("FUZZ_RECORD");
	char path[512];

	if (!folder || seed->bytes + head + bytes > SEED_MOST)
		return;
	if (!seed->fd) {
		snprintf(path, sizeof(path), "%s/%s/real-%s-%s", folder, seed->target,
			 getenv("FUZZ_ROUTE"), getenv("RANK"));
		seed->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) + 1;
		seed->bytes += write(seed->fd - 1, &first, 1) == 1;
	}
	if (write(seed->fd - 1, step, head) == (ssize_t)head &&
	    write(seed->fd - 1, data, bytes) == (ssize_t)bytes)
		seed->bytes += head + bytes;
}

/* A rank comes: step 3 of fuzz_root, whose request the recorded one replaces. */
void __real_rootGroupsAdd(struct rootGroups *groups, struct rootClient *client);
void __wrap_rootGroupsAdd(struct rootGroups *groups, struct rootClient *client);

void __wrap_rootGroupsAdd(struct rootGroups *groups, struct rootClient *client)
{
	static struct seed seed = {.target = "root"};
	uint16_t bytes = sizeof(client->request);
	uint8_t step[10] = {3, 0, 0, 2, 0, 0, 0, 0, (uint8_t)bytes, (uint8_t)(bytes >> 8)};

	addStep(&seed, 1, step, sizeof(step), &client->request, bytes);
	__real_rootGroupsAdd(groups, client);
}

static struct seed control = {.target = "control"};

static uint8_t seatOf(const struct control *c)
{
	return c->rank == 0   ? 2
	       : c->rank == 1 ? 8
			      : 5; /* of 3 ranks, as fuzz_control numbers them */
}

/* A message arrives: step 4. */
static void addMessage(const struct control *c, const struct controlHeader *header,
		       const struct buffer *data, int link)
{
	struct buffer message = {0};

	if (bufferAppend(&message, header, sizeof(*header)) ||
	    bufferAppend(&message, data->data, data->used))
		return;
	uint8_t step[3] = {(uint8_t)(4 | link << 3), (uint8_t)message.used,
			   (uint8_t)(message.used >> 8)};
	addStep(&control, seatOf(c), step, sizeof(step), message.data, message.used);
	bufferFree(&message);
}

/* This rank calls: step 1. */
static void addCall(const struct control *c, const char *call, const struct controlEntry *entry)
{
	uint8_t step[1 + CONTROL_CALL + 4] = {1};

	snprintf((char *)step + 1, CONTROL_CALL, "%s", call);
	step[1 + CONTROL_CALL] = (uint8_t)entry->bytes;
	step[2 + CONTROL_CALL] = (uint8_t)(entry->bytes >> 8);
	step[3 + CONTROL_CALL] = (uint8_t)c->gather.block;
	step[4 + CONTROL_CALL] = (uint8_t)(c->gather.block >> 8);
	addStep(&control, seatOf(c), step, sizeof(step), "", 0);
}

ginResult_t __real_controlGatherAdd(struct control *c, const char *call, uint32_t seq,
				    const struct buffer *entries);
ginResult_t __wrap_controlGatherAdd(struct control *c, const char *call, uint32_t seq,
				    const struct buffer *entries);

ginResult_t __wrap_controlGatherAdd(struct control *c, const char *call, uint32_t seq,
				    const struct buffer *entries)
{
	struct controlHeader header = {.type = controlUp, .seq = seq, .bytes = entries->used};
	struct controlEntry entry;
	uint32_t done = c->done;

	memcpy(&entry, entries->data, sizeof(entry));
	snprintf(header.call, sizeof(header.call), "%s", call);
	if (c->nRanks != 3)
		return __real_controlGatherAdd(c, call, seq, entries);
	if (entry.rank == (uint32_t)c->rank)
		addCall(c, call, &entry);
	else
		addMessage(c, &header, entries, (int)entry.rank - 1);
	ginResult_t result = __real_controlGatherAdd(c, call, seq, entries);
	if (c->done != done)
		addStep(&control, seatOf(c), "\2", 1, "", 0);
	return result;
}

ginResult_t __real_controlDeliver(struct control *c, const struct controlHeader *header,
				  const struct buffer *data);
ginResult_t __wrap_controlDeliver(struct control *c, const struct controlHeader *header,
				  const struct buffer *data);

ginResult_t __wrap_controlDeliver(struct control *c, const struct controlHeader *header,
				  const struct buffer *data)
{
	if (c->nRanks == 3) {
		addMessage(c, header, data, 0);
		addStep(&control, seatOf(c), "\2", 1, "", 0);
	}
	return __real_controlDeliver(c, header, data);
}

/* A kernel has posted: step 3, then a pass. */
int __real_descriptorTake(const uint64_t *slot, uint64_t phase, uint64_t *words);
int __wrap_descriptorTake(const uint64_t *slot, uint64_t phase, uint64_t *words);

int __wrap_descriptorTake(const uint64_t *slot, uint64_t phase, uint64_t *words)
{
	static struct seed seed = {.target = "descriptor"};
	int taken = __real_descriptorTake(slot, phase, words);

	if (taken)
		addStep(&seed, 0, "\7\3", 2, slot, GIN_DESCRIPTOR_WORDS * sizeof(*slot));
	return taken;
}

static struct seed network = {.target = "network"};

/* A message of a peer: step 3 of fuzz_network. The peer's number there is 1. */
void __real_networkReceive(struct networkLane *lane, const unsigned char *bytes, uint32_t length);
void __wrap_networkReceive(struct networkLane *lane, const unsigned char *bytes, uint32_t length);

void __wrap_networkReceive(struct networkLane *lane, const unsigned char *bytes, uint32_t length)
{
	uint8_t step[2] = {3, (uint8_t)length};
	struct message m = {.kind = 0};

	memcpy(&m, bytes, length < sizeof(m) ? length : sizeof(m));
	m.rank = 1;
	addStep(&network, 6, step, sizeof(step), &m, length);
	__real_networkReceive(lane, bytes, length);
}

/* An immediate: step 4, of peer 1. */
void __real_networkReceiveImmediate(struct networkLane *lane, uint32_t rank, uint32_t immediate);
void __wrap_networkReceiveImmediate(struct networkLane *lane, uint32_t rank, uint32_t immediate);

void __wrap_networkReceiveImmediate(struct networkLane *lane, uint32_t rank, uint32_t immediate)
{
	uint64_t word = immediate;

	addStep(&network, 6, "\14", 1, &word, sizeof(word));
	__real_networkReceiveImmediate(lane, rank, immediate);
}
