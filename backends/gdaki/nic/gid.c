/* SPDX-License-Identifier: BSD-3-Clause */
#include "gid.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

enum { ENTRIES = 512 };

static int isIpv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, mapped, sizeof(mapped));
}

static int isLinkLocal(const uint8_t *gid)
{
	if (isIpv4(gid))
		return gid[12] == 169 && gid[13] == 254;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* More is better. */
static int rank(const struct ibv_gid_entry *entry)
{
	int v2 = entry->gid_type == IBV_GID_TYPE_ROCE_V2;

	if (entry->gid_type == IBV_GID_TYPE_IB)
		return 1;
	return 1 + 4 * v2 + 2 * !isLinkLocal(entry->gid.raw) + isIpv4(entry->gid.raw);
}

static int version(const struct ibv_gid_entry *entry)
{
	switch (entry->gid_type) {
	case IBV_GID_TYPE_ROCE_V1:
		return 1;
	case IBV_GID_TYPE_ROCE_V2:
		return 2;
	default:
		return 0;
	}
}

/* An InfiniBand port's best is the first. */
static const struct ibv_gid_entry *best(const struct ibv_gid_entry *entries, ssize_t count,
					int port, int wanted)
{
	const struct ibv_gid_entry *chosen = NULL;

	for (ssize_t i = 0; i < count; i++) {
		const struct ibv_gid_entry *entry = &entries[i];
		if (entry->port_num != (uint32_t)port)
			continue;
		if (wanted >= 0 && entry->gid_index != (uint32_t)wanted)
			continue;
		if (!chosen || rank(entry) > rank(chosen))
			chosen = entry;
	}
	return chosen;
}

int gidChoose(struct ibv_context *context, int port, int wanted, struct gid *out, char *why)
{
	struct ibv_gid_entry *entries = calloc(ENTRIES, sizeof(*entries));

	if (!entries)
		return say(why, "no memory");
	ssize_t count = ibv_query_gid_table(context, entries, ENTRIES, 0);
	const struct ibv_gid_entry *chosen = best(entries, count, port, wanted);
	if (chosen) {
		out->index = chosen->gid_index;
		out->roceVersion = version(chosen);
		memcpy(out->bytes, chosen->gid.raw, sizeof(out->bytes));
	}
	free(entries);
	if (count < 0)
		return sayErrno(why, (int)-count, "the table of GIDs");
	if (!chosen && wanted >= 0)
		return say(why, "port %d has no GID of index %d: show_gids lists them", port,
			   wanted);
	if (!chosen)
		return say(why, "port %d has no GID: give its network interface an IP address",
			   port);
	return 0;
}

int gidSameSubnet(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, 8);
}
