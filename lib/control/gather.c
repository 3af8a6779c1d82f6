/* SPDX-License-Identifier: BSD-3-Clause */
/* gather.c - the way up of a collective: the entries of all ranks go to rank 0 */
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "internal.h"
#include "lib/base/log.h"
#include "lib/base/param.h"

void controlGatherReset(struct control *c)
{
	struct controlGather *g = &c->gather;

	g->seq++;
	g->call[0] = '\0';
	g->have = 0;
	g->block = g->round = 0;
	bufferTrim(&g->entries);
	g->start = 0;
	g->warned = 0;
	memset(g->arrived, 0, (size_t)c->nRanks);
}

/* The entry at `at`, or NULL when there is no whole entry of a known rank. */
static const struct controlEntry *entryAt(const struct control *c, const struct buffer *b,
					  size_t at, struct controlEntry *entry)
{
	if (b->used - at < sizeof(*entry))
		return NULL;
	memcpy(entry, b->data + at, sizeof(*entry));
	if (entry->rank >= (uint32_t)c->nRanks || entry->bytes > CONTROL_BYTES ||
	    entry->bytes > b->used - at - sizeof(*entry))
		return NULL;
	return entry;
}

int controlWholeEntries(const struct control *c, const struct buffer *b)
{
	struct controlEntry entry;

	for (size_t at = 0; at < b->used; at += sizeof(entry) + entry.bytes)
		if (!entryAt(c, b, at, &entry))
			return 0;
	return 1;
}

static ginResult_t markArrived(struct control *c, const struct buffer *entries)
{
	struct controlEntry entry;

	for (size_t at = 0; at < entries->used; at += sizeof(entry) + entry.bytes) {
		if (!entryAt(c, entries, at, &entry) || c->gather.arrived[entry.rank])
			return fail(ginErrorSystem, "the control plane received a broken message");
		c->gather.arrived[entry.rank] = 1;
		c->gather.first = c->gather.have++ ? c->gather.first : (int)entry.rank;
	}
	return ginSuccess;
}

/* A local window is the usual cause where one of the calls registers a window. */
static const char *hintOf(const char *call, const char *other)
{
	static const char windows[] = "ginWindowRegister";

	return strcmp(call, windows) && strcmp(other, windows)
		       ? ""
		       : "; with GIN_WINDOW_LOCAL the call is not collective";
}

/* All ranks must be in one collective: entries of two collectives cannot be combined. */
static ginResult_t checkCall(struct control *c, const char *call, uint32_t seq,
			     const struct buffer *entries)
{
	struct controlGather *g = &c->gather;
	struct controlEntry entry = {0};

	if (seq != g->seq)
		return fail(ginErrorSystem, "collective %u arrived while in %u", seq, g->seq);
	if (!g->call[0]) {
		g->start = clockNow();
		snprintf(g->call, sizeof(g->call), "%s", call);
	}
	if (!strncmp(g->call, call, sizeof(g->call)))
		return ginSuccess;
	entryAt(c, entries, 0, &entry);
	return fail(ginErrorInvalidUsage,
		    "rank %u called %.23s while rank %d called %s: all ranks must make the same "
		    "collective calls in the same order%s",
		    entry.rank, call, g->first, g->call, hintOf(call, g->call));
}

static void sendUp(struct control *c)
{
	struct controlGather *g = &c->gather;
	struct controlHeader header = {.type = controlUp, .seq = g->seq, .bytes = g->entries.used};

	memcpy(header.call, g->call, sizeof(header.call));
	controlSend(c, &c->link[0], &header, g->entries.data);
	bufferTrim(&g->entries);
}

ginResult_t controlGatherAdd(struct control *c, const char *call, uint32_t seq,
			     const struct buffer *entries)
{
	struct controlGather *g = &c->gather;
	ginResult_t result = checkCall(c, call, seq, entries);

	if (result == ginSuccess)
		result = markArrived(c, entries);
	if (result != ginSuccess)
		return result;
	if (bufferAppend(&g->entries, entries->data, entries->used))
		return fail(ginErrorSystem, "no memory for a collective");
	if (g->have < c->subtree)
		return ginSuccess;
	if (!c->rank)
		return controlGathered(c);
	sendUp(c);
	return ginSuccess;
}

/* "rank 3 (host a), rank 7 (host b) and 12 more" */
static void nameMissing(const struct control *c, char *out, size_t bytes)
{
	size_t used = 0;
	int named = 0, more = 0;

	out[0] = '\0';
	for (int r = 0; r < c->nRanks; r++) {
		if (c->gather.arrived[r])
			continue;
		if (named == 4) {
			more++;
			continue;
		}
		int n = snprintf(out + used, bytes - used, "%srank %d (host %s)",
				 named++ ? ", " : "", r, c->ranks[r].host);
		used += n > 0 && (size_t)n < bytes - used ? (size_t)n : 0;
	}
	if (more)
		snprintf(out + used, bytes - used, " and %d more", more);
}

/*
 * Is the time over? Rank 0 ends a collective GIN_TIMEOUT after its first entry has arrived, and
 * before that at the end of its own call, which may have taken other steps.
 */
static int isOver(const struct control *c, uint64_t now)
{
	return now >= c->gather.start + paramNumber(paramTimeout) * SECOND ||
	       (c->called == c->gather.seq && now >= c->until);
}

/* Rank 0 warns after 10 s, and ends the collective for all ranks when the time is over. */
static void tickRoot(struct control *c, uint64_t now)
{
	char missing[360], why[SENTENCE_BYTES];
	unsigned timeout = paramNumber(paramTimeout);
	int over = isOver(c, now);

	if (!over && (c->gather.warned || now - c->gather.start < 10 * SECOND))
		return;
	nameMissing(c, missing, sizeof(missing));
	if (over) {
		snprintf(why, sizeof(why), "%s: no call from %s within %u s (GIN_TIMEOUT)",
			 c->gather.call, missing, timeout);
		logWrite(logError, "%s", why);
		controlBreakHere(c, -1, ginErrorTimeout, why, NULL);
		return;
	}
	c->gather.warned = 1;
	logWrite(logWarn, "%s: waiting for %s", c->gather.call, missing);
}

/* The delay is below the 10 s after which rank 0 warns, and far below GIN_TIMEOUT. */
static uint64_t passOnAfter(void)
{
	uint64_t part = paramNumber(paramTimeout) * SECOND / 100;

	return part < 5 * SECOND ? part : 5 * SECOND;
}

/*
 * Other ranks pass on an incomplete set after some seconds: rank 0 can then name the missing ranks.
 */
void controlGatherTick(struct control *c, uint64_t now)
{
	if (!c->gather.call[0] || c->broken)
		return;
	if (c->rank == 0)
		tickRoot(c, now);
	else if (c->gather.entries.used && now - c->gather.start > passOnAfter())
		sendUp(c);
}
