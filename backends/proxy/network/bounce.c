/* SPDX-License-Identifier: BSD-3-Clause */
/* bounce.c - the slots of a lane: pinned memory through which GPU memory reaches the network */
#include "bounce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"

/* The pool has room for at least this many slots: see struct bounceOffer. */
static uint64_t leastSlots(uint64_t nRanks)
{
	return nRanks * (2 * BOUNCE_LANDINGS_LEAST + 2 * (BOUNCE_LANDINGS_LEAST / 2));
}

/* Slots as long as the pool and the user allow; then as many for each rank as fit into the pool. */
static struct bounceOffer shapeOf(uint64_t pool, uint64_t slotMost, uint64_t nRanks)
{
	uint64_t least = leastSlots(nRanks);
	uint64_t bytes = pool / least < slotMost ? pool / least : slotMost;

	bytes = bytes / BOUNCE_ALIGN * BOUNCE_ALIGN;
	if (!bytes)
		return (struct bounceOffer){.slotBytes = 0};
	uint64_t landings = pool / bytes / nRanks / 3;
	if (landings > BOUNCE_LANDINGS_MOST)
		landings = BOUNCE_LANDINGS_MOST;
	return (struct bounceOffer){.slotBytes = (uint32_t)bytes, .landings = (uint32_t)landings};
}

static size_t poolBytes(const struct bounceOffer *o, uint32_t nRanks)
{
	return (size_t)bounceLandingAt(o, nRanks, 0);
}

static ginResult_t failPool(uint32_t nRanks)
{
	return fail(
		ginErrorInvalidArgument,
		"GIN_BOUNCE_POOL is %u bytes, too few for slots through which %u ranks send GPU "
		"memory over the network: set it to %llu or more",
		paramNumber(paramBouncePool), nRanks,
		(unsigned long long)leastSlots(nRanks) * BOUNCE_ALIGN);
}

/* The reason in the sentence of the last failure, without the call and the rank. */
static void lastReason(int rank, char *out, size_t room)
{
	char before[32];
	const char *sentence = ginGetLastError();

	snprintf(before, sizeof(before), "rank %d: ", rank);
	const char *at = strstr(sentence, before);
	snprintf(out, room, "%s", at ? at + strlen(before) : sentence);
}

static ginResult_t failPinned(const struct backendHost *host, ginResult_t result, size_t bytes,
			      const char *network)
{
	char reason[128];

	lastReason(host->rank, reason, sizeof(reason));
	return fail(result,
		    "cannot pin %zu bytes, through which GPU memory reaches the network (%s): %s; "
		    "make GIN_BOUNCE_POOL smaller, or set GIN_BOUNCE=never on all ranks and use "
		    "windows of ginMemAllocHost()",
		    bytes, network, reason);
}

static ginResult_t pinPool(const struct backendHost *host, size_t bytes, const char *network,
			   void **out)
{
	int quiet = errorQuiet(1);
	ginResult_t result = pinnedAlloc(host->device, bytes, host->device->numaNode, out);

	errorQuiet(quiet);
	return result == ginSuccess ? result : failPinned(host, result, bytes, network);
}

static ginResult_t openPool(struct networkLane *lane, struct fabric *fabric, const char *network)
{
	struct bounceLane *b = lane->bounce;
	const struct backendHost *host = lane->scope->host;
	uint32_t nRanks = (uint32_t)host->nRanks;
	char why[FABRIC_WHY] = "";
	void *memory = NULL;

	b->offer = shapeOf(paramNumber(paramBouncePool), paramNumber(paramBounceSlot), nRanks);
	if (!b->offer.slotBytes)
		return failPool(nRanks);
	size_t bytes = poolBytes(&b->offer, nRanks);
	ginResult_t result = pinPool(host, bytes, network, &memory);
	if (result != ginSuccess)
		return result;
	b->memory = memory;
	if (lane->fabric->memoryAdd(fabric, memory, bytes, &b->region, &b->offer.memory, why))
		return fail(ginErrorSystem,
			    "%s refuses %zu bytes of pinned memory, through which GPU memory "
			    "reaches it: %s; raise ulimit -l, or make GIN_BOUNCE_POOL smaller",
			    network, bytes, why);
	return ginSuccess;
}

static void fillChunks(struct bounceLane *b)
{
	b->freeChunks = NULL;
	for (uint32_t i = 0; i < b->nChunks; i++) {
		b->chunk[i].next = b->freeChunks;
		b->freeChunks = &b->chunk[i];
	}
}

ginResult_t bounceOpen(struct networkLane *lane, struct fabric *fabric, int hasSlots,
		       const char *network)
{
	const struct transportScope *scope = lane->scope;

	uint32_t chunks = BOUNCE_CHUNKS + (uint32_t)scope->host->nRanks * BOUNCE_LANDINGS_MOST / 2;

	lane->bounce = calloc(1, sizeof(*lane->bounce) + chunks * sizeof(lane->bounce->chunk[0]));
	if (!lane->bounce)
		return fail(ginErrorSystem, "no memory");
	lane->bounce->nChunks = chunks;
	fillChunks(lane->bounce);
	ginResult_t result = copiesOpen(scope->host->device, scope->slots, &lane->bounce->copies);
	if (result == ginSuccess && hasSlots && paramChoice(paramBounce) != bounceNever)
		result = openPool(lane, fabric, network);
	return result;
}

/* The lane is stopped: no peer writes to the memory. */
void bounceClose(struct networkLane *lane)
{
	struct bounceLane *b = lane->bounce;

	if (!b)
		return;
	copiesClose(&b->copies);
	if (b->region)
		lane->fabric->memoryRemove(b->region);
	if (b->memory)
		pinnedFree(lane->scope->host->device, b->memory);
	free(b);
}

void bounceStop(struct networkLane *lane)
{
	struct bounceLane *b = lane->bounce;

	if (!b)
		return;
	b->copies.made = b->copies.ordered;
	b->active = NULL;
}

void bounceConnect(struct networkLane *lane, uint32_t rank, const struct bounceOffer *offer)
{
	struct bouncePeer *p = &lane->peer[rank].bounce;

	p->offer = *offer;
	if (p->offer.landings > BOUNCE_LANDINGS_MOST)
		p->offer.landings = BOUNCE_LANDINGS_MOST;
	p->landings = bounceMask(p->offer.landings);
	if (!lane->bounce)
		return;
	/* No more gets in flight than the peer has reply slots. */
	uint32_t own = bounceGetsOf(&lane->bounce->offer), theirs = bounceGetsOf(&p->offer);
	p->free[slotGet] = bounceMask(theirs && theirs < own ? theirs : own);
	p->free[slotReply] = bounceMask(own);
	p->free[slotSend] = bounceMask(lane->bounce->offer.landings);
}

void bounceActivate(struct networkLane *lane, struct networkPeer *peer)
{
	struct bounceLane *b = lane->bounce;

	if (!b || peer->bounce.isActive)
		return;
	peer->bounce.isActive = 1;
	peer->bounce.nextActive = b->active;
	b->active = peer;
}

/* Replies have chunks of their own: a peer whose get waits for a reply cannot move its cursor. */
static int hasRoom(const struct bounceLane *b, const struct bouncePeer *p, enum bounceSlot slot)
{
	if (slot != slotNone && !p->free[slot])
		return 0;
	return slot == slotReply ||
	       (b->chunks < BOUNCE_CHUNKS && p->chunks < BOUNCE_CHUNKS_OF_PEER);
}

static void countChunk(struct bounceLane *b, struct bounceChunk *k, int by)
{
	if (k->kind == chunkReply)
		return;
	b->chunks += (uint32_t)by;
	k->peer->bounce.chunks += (uint32_t)by;
}

static void takeSlot(const struct networkLane *lane, struct bounceChunk *k)
{
	const struct bounceLane *b = lane->bounce;
	uint32_t *free = &k->peer->bounce.free[k->slotKind];

	k->slot = (uint8_t)__builtin_ctz(*free);
	*free &= ~(1u << k->slot);
	k->local = b->memory +
		   bounceSlotAt(&b->offer, networkRank(lane, k->peer), k->slotKind, k->slot);
}

struct bounceChunk *bounceTake(struct networkLane *lane, struct networkPeer *peer,
			       enum bounceKind kind, enum bounceSlot slot)
{
	struct bounceLane *b = lane->bounce;
	struct bounceChunk *k = b->freeChunks;

	if (!hasRoom(b, &peer->bounce, slot))
		return NULL;
	b->freeChunks = k->next;
	*k = (struct bounceChunk){.peer = peer, .kind = (uint8_t)kind, .slotKind = (uint8_t)slot};
	k->landing = BOUNCE_NONE;
	countChunk(b, k, 1);
	if (slot != slotNone)
		takeSlot(lane, k);
	return k;
}

void bounceGive(struct networkLane *lane, struct bounceChunk *k)
{
	struct bounceLane *b = lane->bounce;
	struct bouncePeer *p = &k->peer->bounce;

	if (k->slotKind != slotNone)
		p->free[k->slotKind] |= 1u << k->slot;
	if (k->landing != BOUNCE_NONE)
		p->landings |= 1u << k->landing;
	countChunk(b, k, -1);
	k->next = b->freeChunks;
	b->freeChunks = k;
}

int bounceCopyFailed(struct networkLane *lane)
{
	const struct backendHost *host = lane->scope->host;

	host->peerFailed(host->core, host->rank,
			 "a copy between its GPU and pinned memory of its proxy fails");
	return fabricFailed;
}
