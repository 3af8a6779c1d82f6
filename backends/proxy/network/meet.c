/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet.c - ranks prove that their addresses reach each other, before the first put
 *
 * Each rank has chosen its interface, and a route between two of them may not exist: libfabric then
 * neither sends nor fails. So lanes greet each other when they are connected. A rank that has
 * received a greeting answers; with the answers it knows that both directions work.
 *
 * Ranks of a host that have one address need one proof for all of them: the n-th rank with one
 * address greets the n-th rank with the other.
 */
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "network.h"

#define MEET_SECONDS 30 /* a lossy network may lose the first packets of a connection */
#define SPIN_NS 2000000
#define REST_US 200

enum { greeting = 1, answer = 2 }; /* message.op */

/* What this rank knows about a peer. */
struct meetPeer {
	uint8_t meets, hasGreeted, hasAnswered; /* this rank has sent it */
	uint8_t wasGreeted, wasAnswered;	/* by the peer */
};

struct meetLane {
	struct networkLane *lane;
	struct meetPeer *peer;	  /* [nRanks] */
	char why[SENTENCE_BYTES]; /* "": nothing has failed */
};

/* Equal for ranks that use one address of one host. */
static uint64_t endOf(const struct backendHost *host, int rank)
{
	static const uint8_t key[AUTH_KEY_BYTES] = "end of a pair";
	const struct proxyBlob blob = proxyBlobOf(host, rank);
	struct {
		uint64_t hostId;
		char interface[sizeof(blob.interface)];
		uint8_t address[sizeof(blob.address)];
	} end = {.hostId = host->ranks[rank].hostId};

	memcpy(end.interface, blob.interface, sizeof(end.interface));
	memcpy(end.address, blob.address, sizeof(end.address));
	return siphash(key, &end, sizeof(end));
}

/* Lanes of one index have one rail, so the first lane is enough for ranks with a rail each. */
static int needsLane(const struct networkLane *lane, int peer)
{
	const struct backendHost *host = lane->scope->host;
	const struct proxyBlob mine = proxyBlobOf(host, host->rank);
	const struct proxyBlob theirs = proxyBlobOf(host, peer);

	return lane->scope->serves[peer] &&
	       (!lane->index || networkRails(&mine) > 1 || networkRails(&theirs) > 1);
}

/* Which peers does this rank meet? Takes n log(n) steps. `ends` and `turn`: [nRanks], scratch. */
static ginResult_t choosePeers(struct meetLane *m, struct identity *ends, uint32_t *turn)
{
	const struct backendHost *host = m->lane->scope->host;
	int me = host->rank;

	for (int r = 0; r < host->nRanks; r++)
		ends[r].hostId = endOf(host, r);
	if (identityCount(ends, host->nRanks, turn) != ginSuccess)
		return ginErrorSystem;
	for (int r = 0; r < host->nRanks; r++)
		m->peer[r].meets = needsLane(m->lane, r) && turn[r] == turn[me] &&
				   !identitySameHost(&ends[r], &ends[me]);
	return ginSuccess;
}

/* "rank 3 (host h1, eth0 10.0.0.1)" */
static void describeRank(const struct backendHost *host, int rank, char *text, size_t bytes)
{
	const struct proxyBlob blob = proxyBlobOf(host, rank);
	char address[INET6_ADDRSTRLEN] = "";
	static const uint8_t none[16];

	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)blob.address))
		inet_ntop(AF_INET, blob.address + 12, address, sizeof(address));
	else if (memcmp(blob.address, none, sizeof(none)))
		inet_ntop(AF_INET6, blob.address, address, sizeof(address));
	snprintf(text, bytes, "rank %d (host %.40s, %.15s%s%s)", rank, host->ranks[rank].host,
		 blob.interface, *address ? " " : "", address);
}

/* `from` and `to`: a message of `from` does not arrive. Returns 0, for the callers' loops. */
static int blame(struct meetLane *m, int from, int to, const char *reason)
{
	const struct backendHost *host = m->lane->scope->host;
	const struct proxyBlob mine = proxyBlobOf(host, host->rank);
	int isNic = !strncmp(mine.plugin, NETWORK_VERBS, sizeof(mine.plugin));
	char sender[112], receiver[112];

	describeRank(host, from, sender, sizeof(sender));
	describeRank(host, to, receiver, sizeof(receiver));
	snprintf(m->why, sizeof(m->why),
		 "%s does not reach %s by %.31s: %.70s; set %s on both hosts, to interfaces of one "
		 "network",
		 sender, receiver, mine.name, reason, isNic ? "GIN_NIC" : "GIN_OFI_INTERFACE");
	return 0;
}

/* Returns 1 if it is sent. */
static int say(struct meetLane *m, int peer, uint8_t what)
{
	struct networkLane *lane = m->lane;
	const struct message text = {
		.kind = messageMeet, .op = what, .rank = (uint32_t)lane->scope->host->rank};
	int result = networkTransmit(lane, &lane->peer[peer], &text);

	if (result == fabricFailed)
		return blame(m, lane->scope->host->rank, peer, "its network refuses a message");
	return result == fabricOk;
}

/* Returns 1 when the peer and this rank have heard of each other. */
static int meetPeer(struct meetLane *m, int r)
{
	struct meetPeer *p = &m->peer[r];

	if (!p->hasGreeted)
		p->hasGreeted = (uint8_t)say(m, r, greeting);
	if (p->wasGreeted && !p->hasAnswered)
		p->hasAnswered = (uint8_t)say(m, r, answer);
	return p->hasAnswered && p->wasAnswered;
}

static int meetAll(struct meetLane *m)
{
	int isDone = 1;

	for (int r = 0; r < m->lane->scope->host->nRanks && !m->why[0]; r++)
		if (m->peer[r].meets)
			isDone &= meetPeer(m, r);
	if (m->lane->fabric->submit)
		m->lane->fabric->submit(m->lane->end);
	return isDone;
}

static void hear(struct meetLane *m, const struct fabricEvent *event)
{
	struct message text = {.kind = 0};
	uint32_t bytes = networkProven(m->lane, event->message, event->bytes);

	if (bytes < MESSAGE_SHORT || bytes > sizeof(text))
		return;
	memcpy(&text, event->message, bytes);
	if (text.kind != messageMeet || text.rank >= (uint32_t)m->lane->scope->host->nRanks)
		return;
	m->peer[text.rank].wasGreeted |= text.op == greeting;
	m->peer[text.rank].wasAnswered |= text.op == answer;
}

static void lose(struct meetLane *m, const struct fabricEvent *event)
{
	const struct backendHost *host = m->lane->scope->host;

	for (int r = 0; r < host->nRanks; r++)
		if (m->lane->scope->serves[r] && m->lane->peer[r].address == event->peer)
			blame(m, host->rank, r, event->why ? event->why : "a message is lost");
}

/* Returns 0 if there was none. */
static int takeEvent(struct meetLane *m)
{
	struct fabricEvent event;

	if (!m->lane->fabric->poll(m->lane->end, &event, 1))
		return 0;
	if (event.kind == fabricMessage)
		hear(m, &event);
	else if (event.kind == fabricLost)
		lose(m, &event);
	else if (event.kind == fabricDown)
		snprintf(m->why, sizeof(m->why), "the NIC of rank %d has failed: %.160s",
			 m->lane->scope->host->rank, event.why);
	else if (event.kind == fabricNotice)
		logWrite(logWarn, "%s", event.why);
	return 1;
}

/* The time is over: which peer is missing? */
static void blameMissing(struct meetLane *m, uint64_t time)
{
	const struct backendHost *host = m->lane->scope->host;
	char reason[48];

	snprintf(reason, sizeof(reason), "no message came within %u s",
		 (unsigned)((time + SECOND / 2) / SECOND));
	for (int r = 0; r < host->nRanks && !m->why[0]; r++) {
		const struct meetPeer *p = &m->peer[r];
		if (p->meets && !p->wasGreeted)
			blame(m, r, host->rank, reason);
		else if (p->meets && !(p->hasAnswered && p->wasAnswered))
			blame(m, host->rank, r, reason);
	}
}

/* A quarter of the call's rest stays for the collective that tells all ranks the reason. */
static uint64_t timeToMeet(void)
{
	uint64_t end = deadlineHere(), now = clockNow(), most = end > now ? (end - now) * 3 / 4 : 0;

	return most < MEET_SECONDS * SECOND ? most : MEET_SECONDS * SECOND;
}

static void meetUntilDone(struct meetLane *m)
{
	const struct backendHost *host = m->lane->scope->host;
	uint64_t start = clockNow(), time = timeToMeet();

	while (!meetAll(m) && !m->why[0] && !host->hasFailed(host->core)) {
		int isBusy = takeEvent(m);
		uint64_t now = clockNow();
		if (now > start + time) /* also when messages of strangers never end */
			blameMissing(m, time);
		if (isBusy)
			continue;
		if (now < start + SPIN_NS)
			sched_yield();
		else
			usleep(REST_US);
	}
}

/* Is there a pair of ranks that meets on this lane, perhaps? */
static int isNeeded(const struct networkLane *lane)
{
	int r = 0;

	while (r < lane->scope->host->nRanks && !needsLane(lane, r))
		r++;
	return r < lane->scope->host->nRanks;
}

ginResult_t networkMeetLane(struct networkLane *lane)
{
	size_t n = (size_t)lane->scope->host->nRanks;
	struct meetLane m = {.lane = lane};

	if (!isNeeded(lane))
		return ginSuccess;
	struct identity *ends = calloc(n, sizeof(*ends));
	uint32_t *turn = calloc(n, sizeof(*turn));
	m.peer = calloc(n, sizeof(*m.peer));
	ginResult_t result = ends && turn && m.peer ? choosePeers(&m, ends, turn)
						    : fail(ginErrorSystem, "no memory");
	if (result == ginSuccess)
		meetUntilDone(&m);
	free(m.peer);
	free(turn);
	free(ends);
	return m.why[0] ? fail(ginErrorSystem, "%s", m.why) : result;
}
