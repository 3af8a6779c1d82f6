/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deliver.c - the way down of a collective: from the entries of all ranks to the result of each
 * rank
 *
 * Rank 0 has the entries of all ranks. When no rank has failed and all entries have one size, an
 * allgather sends down the data in the order of ranks, without entries: an agreement, which has no
 * data, costs each rank one header. When a rank has failed, only its entry goes down. An all-to-all
 * sends each rank the columns of its subtree: a column is what all ranks send to one rank.
 */
#include <stdlib.h>

#include "internal.h"

uint32_t controlRounds(int nRanks, size_t block)
{
	size_t row = CONTROL_ROUND_BYTES / (size_t)nRanks;
	size_t columns = (row < CONTROL_BYTES ? row : CONTROL_BYTES) / block;

	return columns ? (uint32_t)(((size_t)nRanks + columns - 1) / columns) : (uint32_t)nRanks;
}

size_t controlRowBytes(int nRanks, size_t block, uint32_t round)
{
	uint32_t rounds = controlRounds(nRanks, block);

	return ((uint32_t)nRanks - round + rounds - 1) / rounds * block;
}

/* Bytes of the data of all ranks. */
static size_t allBytes(int nRanks, size_t block)
{
	return (size_t)nRanks * block;
}

/*
 * Each child of rank 0 sends a header and the entries of its subtree, and gets a header. `down`:
 * bytes of data that rank 0 sends to its children.
 */
static void costRound(int nRanks, size_t row, size_t down, struct controlCost *cost)
{
	uint64_t links = (uint64_t)controlLinksOf(0, nRanks);

	cost->messages += nRanks > 1 ? 2 : 0;
	cost->relayed += links * 2 * sizeof(struct controlHeader) + down +
			 ((uint64_t)nRanks - 1) * (sizeof(struct controlEntry) + row);
}

void controlCostAllgather(int nRanks, size_t bytes, struct controlCost *cost)
{
	size_t all = allBytes(nRanks, bytes);

	costRound(nRanks, bytes, (size_t)controlLinksOf(0, nRanks) * all, cost);
	cost->received += nRanks > 1 ? sizeof(struct controlHeader) + all : 0;
}

/* Rank 0 keeps its own columns. */
void controlCostAlltoall(int nRanks, size_t block, struct controlCost *cost)
{
	size_t column = allBytes(nRanks, block);
	uint32_t rounds = controlRounds(nRanks, block);

	for (uint32_t round = 0; round < rounds; round++) {
		size_t row = controlRowBytes(nRanks, block, round);
		costRound(nRanks, row, row / block * column - (round ? 0 : column), cost);
	}
	cost->received += nRanks > 1 ? rounds * sizeof(struct controlHeader) + column : 0;
}

static int isBelow(int rank, int top)
{
	while (rank > top)
		rank = controlParent(rank);
	return rank == top;
}

/* A round of an all-to-all. Its columns belong to the ranks round, round + rounds, and so on. */
struct columns {
	int nRanks;
	uint32_t round, rounds;
	size_t block;
};

static struct columns columnsOf(const struct control *c, const struct controlHeader *header)
{
	return (struct columns){c->nRanks, header->round, controlRounds(c->nRanks, header->block),
				header->block};
}

static size_t columnBytes(const struct columns *of)
{
	return allBytes(of->nRanks, of->block);
}

/* How many columns belong to the subtree below `top`. */
static size_t columnsBelow(const struct columns *of, int top)
{
	size_t count = 0;

	for (int64_t r = of->round; r < of->nRanks; r += of->rounds)
		count += isBelow((int)r, top);
	return count;
}

/*
 * Appends the columns of the subtree of `top` to `out`; `from` has the columns of the subtree of
 * `mine`.
 */
static int pickColumns(const struct columns *of, int mine, const uint8_t *from, int top,
		       struct buffer *out)
{
	for (int64_t r = of->round; r < of->nRanks; r += of->rounds) {
		if (!isBelow((int)r, mine))
			continue;
		if (isBelow((int)r, top) && bufferAppend(out, from, columnBytes(of)))
			return -1;
		from += columnBytes(of);
	}
	return 0;
}

/*
 * The column of this rank, if this round has it. It comes first: this rank is the top of its
 * subtree.
 */
static size_t ownColumn(const struct control *c, const struct controlHeader *header)
{
	const struct columns of = columnsOf(c, header);

	return (uint32_t)c->rank % of.rounds == of.round ? columnBytes(&of) : 0;
}

static ginResult_t noMemory(void)
{
	return fail(ginErrorSystem, "no memory for a collective");
}

static ginResult_t sendColumns(struct control *c, const struct controlHeader *header,
			       const struct buffer *data)
{
	const struct columns of = columnsOf(c, header);
	struct controlHeader part = *header;

	for (int i = controlFirstChild(c); i < c->links; i++) {
		struct buffer out = {0};
		int top = c->link[i].rank;
		int failed = pickColumns(&of, c->rank, data->data, top, &out);
		part.bytes = out.used;
		if (!failed)
			controlSend(c, &c->link[i], &part, out.data);
		bufferFree(&out);
		if (failed)
			return noMemory();
	}
	return ginSuccess;
}

/* Does the length of the message match its type and its block? */
static int isWhole(const struct control *c, const struct controlHeader *header,
		   const struct buffer *data)
{
	size_t block = header->block;

	if (header->type == controlDown)
		return controlWholeEntries(c, data);
	if (block > CONTROL_BYTES)
		return 0;
	if (header->type == controlAll)
		return data->used == allBytes(c->nRanks, block);
	if (header->type != controlColumns || !block ||
	    header->round >= controlRounds(c->nRanks, block))
		return 0;
	const struct columns of = columnsOf(c, header);
	return data->used == columnsBelow(&of, c->rank) * columnBytes(&of);
}

static ginResult_t keepResult(struct control *c, const struct controlHeader *header,
			      const struct buffer *data)
{
	size_t bytes = header->type == controlColumns ? ownColumn(c, header) : data->used;

	c->result.used = 0;
	if (bufferAppend(&c->result, data->data, bytes))
		return noMemory();
	c->delivered = header->type;
	c->allRetired = header->retired;
	controlGatherReset(c);
	c->done = header->seq;
	pthread_cond_broadcast(&c->changed);
	return ginSuccess;
}

ginResult_t controlDeliver(struct control *c, const struct controlHeader *header,
			   const struct buffer *data)
{
	ginResult_t result = ginSuccess;

	if (header->seq != c->gather.seq)
		return fail(ginErrorSystem, "the result of collective %u came in %u", header->seq,
			    c->gather.seq);
	if (!isWhole(c, header, data))
		return fail(ginErrorSystem, "the control plane received a broken message");
	if (header->type == controlColumns)
		result = sendColumns(c, header, data);
	else
		controlSendChildren(c, header, data->data);
	return result == ginSuccess ? keepResult(c, header, data) : result;
}

/* Rank 0: the entries of all ranks, by rank. */
struct gathered {
	const uint8_t **entry; /* [nRanks]: each a struct controlEntry and its data */
	int failed;	       /* the lowest rank that has failed, or -1 */
	int differ;	       /* the entries have different sizes */
	uint32_t retired;      /* the least of all ranks */
};

static struct controlEntry entryOf(const struct gathered *g, int rank)
{
	struct controlEntry entry;

	memcpy(&entry, g->entry[rank], sizeof(entry));
	return entry;
}

static void findEntries(const struct control *c, struct gathered *g)
{
	const struct buffer *all = &c->gather.entries;
	struct controlEntry entry;

	for (size_t at = 0; at < all->used; at += sizeof(entry) + entry.bytes) {
		memcpy(&entry, all->data + at, sizeof(entry));
		g->entry[entry.rank] = all->data + at;
	}
	g->failed = -1;
	g->retired = UINT32_MAX;
	for (int r = c->nRanks; r-- > 0;) {
		entry = entryOf(g, r);
		g->differ |= entry.bytes != entryOf(g, 0).bytes;
		g->failed = entry.result == ginSuccess ? g->failed : r;
		g->retired = entry.retired < g->retired ? entry.retired : g->retired;
	}
}

static const uint8_t *dataOf(const struct gathered *g, int rank)
{
	return g->entry[rank] + sizeof(struct controlEntry);
}

/* Of entries of one size: the data in the order of ranks. */
static int joinRows(const struct control *c, const struct gathered *g, struct buffer *out)
{
	size_t bytes = entryOf(g, 0).bytes;

	if (!bufferRoom(out, allBytes(c->nRanks, bytes) + 1))
		return -1;
	for (int r = 0; r < c->nRanks; r++)
		if (bufferAppend(out, dataOf(g, r), bytes))
			return -1;
	return 0;
}

/* Of rows with a block for each column: the columns. */
static int joinColumns(const struct control *c, const struct gathered *g, struct buffer *out)
{
	size_t block = c->gather.block, bytes = entryOf(g, 0).bytes;

	if (!bufferRoom(out, allBytes(c->nRanks, bytes) + 1))
		return -1;
	for (size_t at = 0; at < bytes; at += block)
		for (int r = 0; r < c->nRanks; r++) {
			memcpy(out->data + out->used, dataOf(g, r) + at, block);
			out->used += block;
		}
	return 0;
}

static ginResult_t deliverGathered(struct control *c, const struct gathered *g)
{
	const struct controlEntry entry = entryOf(g, g->failed < 0 ? 0 : g->failed);
	struct controlHeader header = {
		.type = controlDown, .seq = c->gather.seq, .retired = g->retired};
	struct buffer data = {0};
	int failed;

	if (g->failed >= 0) {
		failed = bufferAppend(&data, g->entry[g->failed], sizeof(entry) + entry.bytes);
	} else if (g->differ) {
		failed = bufferAppend(&data, c->gather.entries.data, c->gather.entries.used);
	} else if (c->gather.block) {
		header.type = controlColumns;
		header.block = c->gather.block;
		header.round = c->gather.round;
		failed = joinColumns(c, g, &data);
	} else {
		header.type = controlAll;
		header.block = entry.bytes;
		failed = joinRows(c, g, &data);
	}
	bufferFree(&c->gather.entries);
	header.bytes = data.used;
	ginResult_t result = failed ? noMemory() : controlDeliver(c, &header, &data);
	bufferFree(&data);
	return result;
}

ginResult_t controlGathered(struct control *c)
{
	struct gathered g = {.entry = calloc((size_t)c->nRanks, sizeof(*g.entry))};
	ginResult_t result;

	if (!g.entry)
		return noMemory();
	findEntries(c, &g);
	result = deliverGathered(c, &g);
	free(g.entry);
	return result;
}
