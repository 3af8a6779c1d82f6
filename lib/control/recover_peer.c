/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recover_peer.c - the datagrams by which ranks agree which of them go on: addresses, sending,
 * receiving
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/forkguard.h"
#include "recover_internal.h"

#define SILENT_SECONDS 30 /* a vanished host: longer than in socket.c */
#define ASK_ONE_SECONDS 1 /* without an answer, all addresses are asked */
#define READ_MOST 256	  /* datagrams that the thread reads at a time */

static size_t datagramBytes(const struct control *c)
{
	return sizeof(struct recoverHeader) + recoverSetBytes(c) + 2 * (size_t)RECOVER_ENTRY;
}

static uint64_t hashOf(const struct control *c, const uint8_t *datagram, size_t bytes)
{
	static const char label[] = "gin recovery";
	uint8_t key[AUTH_KEY_BYTES];

	authDerive(c->key, label, sizeof(label), key);
	return siphash(key, datagram + sizeof(uint64_t), bytes - sizeof(uint64_t));
}

ginResult_t recoverOpen(struct control *c, const struct netAddress *at, uint16_t *port)
{
	struct recovery *v = calloc(1, sizeof(*v));

	if (!v)
		return fail(ginErrorSystem, "no memory for the control plane");
	c->recovery = v;
	v->by = v->outBy = v->ahead = v->refusal = v->fd = -1;
	if (c->nRanks == 1)
		return ginSuccess;
	v->fd = datagramOpen(at, port);
	if (v->fd < 0)
		return failErrno("cannot make a datagram socket for the control plane");
	forkGuard(v->fd);
	return ginSuccess;
}

void recoverClose(struct control *c)
{
	struct recovery *v = c->recovery;

	if (!v)
		return;
	if (v->fd >= 0)
		forkGuardClose(v->fd);
	free(v->out);
	free(v->peer);
	free(v->datagram);
	free(v->members);
	free(v->entries);
	free(v->arrived);
	free(v);
	c->recovery = NULL;
}

static uint32_t candidates(const struct control *c, int rank)
{
	struct netAddress address;
	unsigned n = 0;

	while (controlAddress(c, rank, n, &address))
		n++;
	return (1u << n) - 1;
}

/*
 * Adds the entries for `rank`: this rank's own, or the two for the place of `rank` in the new tree.
 */
static void addEntries(const struct control *c, int rank, struct recoverHeader *header, uint8_t *at)
{
	const struct recovery *v = c->recovery;
	size_t bytes = v->entryBytes;

	header->refused = (uint8_t)v->refused;
	header->entryBytes = (uint32_t)bytes;
	if (!v->entries || v->phase != recoverFixed)
		return;
	if (recoverLeader(c) != c->rank) {
		if (!v->arrived[0]) {
			header->entries = 1;
			memcpy(at, v->entries, bytes);
		}
		return;
	}
	int new = 0;
	while (new < v->nMembers && v->members[new] != rank)
		new ++;
	if (v->missing || new == v->nMembers)
		return;
	size_t root = v->refusal < 0 ? 0 : (size_t)v->refusal;
	size_t parent = v->refusal < 0 ? (size_t)controlParent(new) : root;
	header->entries = 2;
	memcpy(at, v->entries + root * bytes, bytes);
	memcpy(at + bytes, v->entries + parent * bytes, bytes);
}

/* What a datagram is for. */
struct recoverMail {
	int rank;
	uint32_t via;
	int asks;
};

/* Answers even if this rank is not in the call and has no memory but the set. */
static void sendState(struct control *c, const struct recoverMail *mail,
		      const union datagramAddress *to)
{
	struct recovery *v = c->recovery;
	struct recoverHeader header = {.number = ++v->sent,
				       .magic = RECOVER_MAGIC,
				       .rank = (uint32_t)c->rank,
				       .to = (uint32_t)mail->rank,
				       .attempt = v->attempt,
				       .finished = v->finished,
				       .phase = (uint8_t)v->phase,
				       .asks = (uint8_t)mail->asks,
				       .via = mail->via};
	size_t set = recoverSetBytes(c);
	uint8_t *at = v->datagram;

	memcpy(at + sizeof(header), v->out, set);
	addEntries(c, mail->rank, &header, at + sizeof(header) + set);
	size_t bytes = sizeof(header) + set + (size_t)header.entries * header.entryBytes;
	memcpy(at, &header, sizeof(header));
	header.hash = hashOf(c, at, bytes);
	memcpy(at, &header.hash, sizeof(header.hash));
	datagramSend(v->fd, at, bytes, to);
}

static int makeTables(struct control *c)
{
	struct recovery *v = c->recovery;

	if (!v->out)
		v->out = calloc(1, recoverSetBytes(c));
	if (!v->peer)
		v->peer = calloc((size_t)c->nRanks, sizeof(*v->peer));
	if (!v->datagram)
		v->datagram = malloc(2 * datagramBytes(c));
	return v->out && v->peer && v->datagram ? 0 : -1;
}

ginResult_t recoverTables(struct control *c)
{
	if (datagramBytes(c) > 65000)
		return fail(ginErrorUnsupported, "the communicator has %d ranks: too many",
			    c->nRanks);
	return makeTables(c) ? fail(ginErrorSystem, "no memory") : ginSuccess;
}

/* The address of a rank's socket: 1; 0: this socket cannot send there; -1: there is none. */
static int addressOf(const struct control *c, int rank, unsigned i, union datagramAddress *out)
{
	struct netAddress address;

	if (!controlAddress(c, rank, i, &address))
		return -1;
	return !datagramAddress(c->recovery->fd, &address, c->ranks[rank].recoverPort, out);
}

/*
 * A rank that has not answered for some time may have lost the address that has worked. The others
 * are tried, too.
 */
static int isProven(const struct recoverPeer *p)
{
	return p->proven && clockNow() - p->heard < ASK_ONE_SECONDS * SECOND;
}

/* Sends to the address that has worked, or to all candidates: not to where datagrams come from. */
static void sendTo(struct control *c, int rank, int asks)
{
	struct recoverPeer *p = &c->recovery->peer[rank];
	unsigned only = isProven(p) ? p->proven : 0;
	union datagramAddress to;
	int known;

	for (unsigned i = 0; (known = addressOf(c, rank, i, &to)) >= 0; i++) {
		const struct recoverMail mail = {rank, asks ? i + 1 : 0, asks};
		if (!known)
			p->returned |= 1u << i;
		else if (!only || i == only - 1)
			sendState(c, &mail, &to);
	}
}

void recoverAsk(struct control *c, int rank)
{
	sendTo(c, rank, 1);
}

/* Answers to the address from which the rank has asked, if it is one of the rank's. */
static void answer(struct control *c, int rank, uint32_t via, const union datagramAddress *from)
{
	const struct recoverMail mail = {rank, via, 0};
	union datagramAddress to;
	int known;

	for (unsigned i = 0; (known = addressOf(c, rank, i, &to)) >= 0; i++)
		if (known && datagramSameAddress(from, &to)) {
			sendState(c, &mail, &to);
			return;
		}
	for (unsigned i = 0; (known = addressOf(c, rank, i, &to)) >= 0; i++)
		if (known)
			sendState(c, &mail, &to);
}

/* A datagram to this address of the rank has come back. */
static void noteReturned(struct control *c, int rank, const union datagramAddress *at, int refused)
{
	struct recoverPeer *p = &c->recovery->peer[rank];
	union datagramAddress to;
	int known;

	int isKnown = c->broken != ginSuccess; /* the control plane has found some rank lost */

	for (unsigned i = 0; (known = addressOf(c, rank, i, &to)) >= 0; i++) {
		if (!known || !datagramSameAddress(at, &to))
			continue;
		p->returned |= 1u << i;
		p->refused |= refused ? 1u << i : 0;
		p->gone |= (refused || isKnown) && p->proven == i + 1;
	}
	int all = p->returned == candidates(c, rank);
	if (!p->proven)
		p->gone = (p->refused || isKnown) && (all || (p->refused && isKnown && !p->heard));
}

int recoverIsGone(const struct control *c, int rank)
{
	const struct recovery *v = c->recovery;
	const struct recoverPeer *p = &v->peer[rank];
	uint64_t since = p->heard > v->began ? p->heard : v->began;

	return p->gone || (c->failed[rank] && clockNow() - since > SILENT_SECONDS * SECOND);
}

static void takeReturned(struct control *c)
{
	union datagramAddress to;
	int refused;

	for (int i = 0; i < READ_MOST && datagramReturned(c->recovery->fd, &to, &refused); i++)
		for (int r = 0; c->recovery->peer && r < c->nRanks; r++)
			if (r != c->rank)
				noteReturned(c, r, &to, refused);
}

int recoverLeader(const struct control *c)
{
	int rank = 0;

	while (rank < c->nRanks && recoverIsOut(c->recovery->out, rank))
		rank++;
	return rank;
}

int recoverTakeOut(struct recovery *v, const struct control *c, int rank)
{
	if (recoverIsOut(v->out, rank))
		return 0;
	v->out[rank / 8] |= (uint8_t)(1u << rank % 8);
	for (int r = 0; r < c->nRanks; r++)
		v->peer[r].agrees = 0;
	v->grew |= v->phase == recoverFixed;
	return 1;
}

/*
 * The state of a rank that is not in the call. The rank may have left this rank out. Or it has the
 * new communicator, which this rank failed to join: the new communicator fails, and the rank calls
 * again.
 */
static void takeIdle(struct control *c, int rank, const struct recoverHeader *h, const uint8_t *out)
{
	struct recovery *v = c->recovery;

	if (v->phase == recoverFixed || h->finished <= v->finished)
		return;
	if (recoverIsOut(out, c->rank))
		v->by = v->outBy = rank;
	else if (v->phase == recoverGather)
		v->ahead = rank;
}

static void keepEntry(struct recovery *v, int rank, const struct recoverHeader *h,
		      const uint8_t *entries)
{
	for (int i = 0; i < v->nMembers; i++) {
		if (v->members[i] != rank || v->arrived[i])
			continue;
		memcpy(v->entries + (size_t)i * v->entryBytes, entries, v->entryBytes);
		v->arrived[i] = 1;
		v->missing--;
		if (h->refused && (v->refusal < 0 || i < v->refusal))
			v->refusal = i;
	}
}

static void takeEntries(struct control *c, int rank, const struct recoverHeader *h,
			const uint8_t *entries)
{
	struct recovery *v = c->recovery;
	int leader = recoverLeader(c);

	if (!v->entries || v->phase != recoverFixed || !h->entries ||
	    h->entryBytes != v->entryBytes)
		return;
	if (leader == c->rank && h->entries == 1) {
		keepEntry(v, rank, h, entries);
	} else if (leader == rank && h->entries == 2 && !v->arrived[0]) {
		memcpy(v->entries + v->entryBytes, entries, 2 * v->entryBytes);
		v->arrived[0] = 1;
		sendTo(c, rank, 0); /* the leader may wait for it */
	}
}

/* The state of a rank that is in the call, as this rank is. */
static void takeState(struct control *c, int rank, const struct recoverHeader *h,
		      const uint8_t *out)
{
	struct recovery *v = c->recovery;
	struct recoverPeer *p = &v->peer[rank];

	if (v->ahead == rank)
		v->ahead = -1;
	if (recoverIsOut(out, c->rank)) {
		v->by = rank; /* its set is for the ranks that go on */
		return;
	}
	if (recoverIsOut(v->out, rank)) /* the answer says so */
		return;
	v->newest = h->attempt > v->newest ? h->attempt : v->newest;
	if (v->phase == recoverGather && v->newest > v->attempt)
		v->attempt = v->newest;
	if (h->attempt != v->attempt)
		return;
	for (int r = 0; r < c->nRanks; r++)
		if (recoverIsOut(out, r))
			recoverTakeOut(v, c, r);
	p->agrees = !memcmp(v->out, out, recoverSetBytes(c));
	p->hasEntries = h->phase == recoverFixed && !h->entries;
	takeEntries(c, rank, h, out + recoverSetBytes(c));
}

/* A set has no bits beyond the ranks. No rank takes itself out, so no set has all ranks. */
static int isSet(const struct control *c, int from, const uint8_t *out)
{
	return !recoverIsOut(out, from) &&
	       !(c->nRanks % 8 && out[recoverSetBytes(c) - 1] >> c->nRanks % 8);
}

static int isWhole(const struct control *c, const uint8_t *datagram, size_t bytes,
		   struct recoverHeader *h)
{
	size_t set = recoverSetBytes(c);

	if (bytes < sizeof(*h) + set)
		return 0;
	memcpy(h, datagram, sizeof(*h));
	return h->magic == RECOVER_MAGIC && h->rank < (uint32_t)c->nRanks &&
	       (int)h->rank != c->rank && h->to == (uint32_t)c->rank && h->entries <= 2 &&
	       h->entryBytes <= RECOVER_ENTRY &&
	       bytes == sizeof(*h) + set + (size_t)h->entries * h->entryBytes &&
	       h->hash == hashOf(c, datagram, bytes) &&
	       isSet(c, (int)h->rank, datagram + sizeof(*h));
}

/* An answer shows that an address leads to the rank. */
static void noteAnswer(const struct control *c, struct recoverPeer *p,
		       const struct recoverHeader *h)
{
	struct netAddress address;

	if (!h->asks && h->via && controlAddress(c, (int)h->rank, h->via - 1, &address))
		p->proven = h->via;
}

void recoverTake(struct control *c, const uint8_t *datagram, size_t bytes,
		 const union datagramAddress *from)
{
	struct recovery *v = c->recovery;
	struct recoverHeader h;

	if (!isWhole(c, datagram, bytes, &h))
		return;
	int rank = (int)h.rank;
	struct recoverPeer *p = &v->peer[rank];
	if (h.number <= p->number)
		return;
	p->number = h.number;
	p->heard = clockNow();
	noteAnswer(c, p, &h);
	p->gone = 0;
	p->refused = p->returned = 0;
	p->agrees = p->hasEntries = 0;
	p->attempt = h.attempt;
	p->phase = h.phase;
	if (h.phase == recoverIdle)
		takeIdle(c, rank, &h, datagram + sizeof(h));
	else if (v->phase == recoverIdle)
		v->newest = h.attempt > v->newest ? h.attempt : v->newest;
	else
		takeState(c, rank, &h, datagram + sizeof(h));
	if (h.asks)
		answer(c, rank, h.via, from);
}

void recoverRead(struct control *c)
{
	struct recovery *v = c->recovery;
	union datagramAddress from;
	uint8_t nothing;
	ssize_t got;

	int isReady = !makeTables(c);
	uint8_t *at = isReady ? v->datagram + datagramBytes(c) : &nothing;
	for (int i = 0; i < READ_MOST; i++) {
		got = datagramReceive(v->fd, at, isReady ? datagramBytes(c) : 1, &from);
		if (got < 0)
			break;
		if (isReady)
			recoverTake(c, at, (size_t)got, &from);
	}
	takeReturned(c);
	pthread_cond_broadcast(&c->changed);
}
