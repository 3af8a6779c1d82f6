/* SPDX-License-Identifier: BSD-3-Clause */
/* uniqueid.c - bootstrap by a unique id, which the caller copies to all ranks */
#include "meeting.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define ID_HEAD offsetof(struct rootContact, address)

/* Of an address in an id: its bytes, after one byte with their number. */
static size_t bytesOf(const struct netAddress *address)
{
	return address->family == AF_INET ? 4 : 16;
}

void rootToId(const struct rootContact *contact, uint8_t id[ROOT_ID_BYTES])
{
	struct rootContact head = *contact;
	uint8_t *at = id + ID_HEAD;

	memset(id, 0, ROOT_ID_BYTES);
	for (head.addresses = 0; head.addresses < contact->addresses; head.addresses++) {
		const struct netAddress *address = &contact->address[head.addresses];
		size_t bytes = bytesOf(address);
		if (at + 1 + bytes > id + ROOT_ID_BYTES)
			break;
		*at++ = (uint8_t)bytes;
		memcpy(at, address->bytes, bytes);
		at += bytes;
	}
	memcpy(id, &head, ID_HEAD);
}

/* Ids may be wrong: the addresses end where the bytes make no address. */
void rootFromId(const uint8_t id[ROOT_ID_BYTES], struct rootContact *contact)
{
	const uint8_t *at = id + ID_HEAD, *end = id + ROOT_ID_BYTES;
	struct rootContact made = {.magic = 0};
	unsigned most;

	memcpy(&made, id, ID_HEAD);
	most = made.addresses < ROOT_ADDRESSES ? made.addresses : ROOT_ADDRESSES;
	for (made.addresses = 0; made.addresses < most && at < end; made.addresses++) {
		struct netAddress *address = &made.address[made.addresses];
		address->family = *at == 4 ? AF_INET : AF_INET6;
		size_t bytes = *at++;
		if (bytes != bytesOf(address) || bytes > (size_t)(end - at))
			break;
		memcpy(address->bytes, at, bytes);
		at += bytes;
	}
	*contact = made;
}

static int idOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		  char *why)
{
	struct meeting *meeting = meetingMake(wanted->uniqueId, NULL, wanted, why);

	if (!meeting)
		return -1;
	*rank = meeting->rank = wanted->rank;
	*nRanks = meeting->nRanks = wanted->nRanks;
	*state = meeting;
	return 0;
}

const struct bootstrapOps bootstrapUniqueIdOps = {
	.name = "unique id",
	.open = idOpen,
	.exchange = meetingExchange,
	.watch = meetingWatch,
	.lost = meetingLost,
	.joined = meetingJoined,
	.derive = meetingDerive,
	.close = meetingClose,
};
