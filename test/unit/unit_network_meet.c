/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_network_meet.c - two hosts with two ranks each: which ranks greet each other, and what a
 * rank says when a peer does not hear, does not answer, or is lost; greetings of a stranger
 */
#include "backends/proxy/network/network.h"
#include "lib/base/deadline.h"

#include "expect.h"

enum { RANKS = 4, ME = 1, PEER = 3, MOST = 8 };

static const char hosts[] = "aabb";

static struct {
	uint8_t op[RANKS][4]; /* what this rank has sent */
	int sent[RANKS];
	struct fabricEvent event[MOST];
	int events, taken, busy;
	int greets, answers; /* does the peer? */
	int proves;
	int floods; /* a message of no rank comes whenever this rank looks */
	uint32_t lane, rails[RANKS];
	uint64_t forged;
} net;

static int sendToMe(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	struct fabricEvent *event = &net.event[net.events++];

	(void)end, (void)peer;
	EXPECT(net.events <= MOST);
	*event = (struct fabricEvent){.kind = fabricMessage, .bytes = (uint32_t)bytes};
	memcpy(event->message, message, bytes);
	return fabricOk;
}

static struct networkLane *makeLane(const struct fabricCalls *calls,
				    const struct transportScope *scope)
{
	struct networkLane *lane = calloc(1, sizeof(*lane) + RANKS * sizeof(lane->peer[0]));

	lane->scope = scope;
	lane->fabric = calls;
	lane->proves = (uint8_t)net.proves;
	for (uint32_t r = 0; r < RANKS; r++) {
		lane->peer[r].address = r;
		networkMakeKeys(lane, r);
	}
	return lane;
}

static const uint8_t key[AUTH_KEY_BYTES] = "communicator", guessed[AUTH_KEY_BYTES];

/* `sender` has `keyOfSender`, and says that it is `rank`. */
static void arriveBy(int sender, const uint8_t *keyOfSender, uint32_t rank, uint8_t op)
{
	static const struct fabricCalls calls = {.send = sendToMe};
	const struct message m = {.kind = messageMeet, .op = op, .rank = rank};
	const struct backendHost host = {.rank = sender, .nRanks = RANKS, .key = keyOfSender};
	const struct transportScope scope = {.host = &host};

	struct networkLane *lane = makeLane(&calls, &scope);
	EXPECT_EQUAL(networkTransmit(lane, &lane->peer[ME], &m), fabricOk);
	free(lane);
}

static void arrive(uint32_t rank, uint8_t op)
{
	arriveBy((int)rank, key, rank, op);
}

/* The first call finds no room. A greeting is answered, after the peer's own one. */
static int fakeSend(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	struct message m = {.kind = 0};

	(void)end;
	if (net.busy)
		return net.busy--, fabricBusy;
	memcpy(&m, message, bytes);
	EXPECT_EQUAL(m.kind, messageMeet);
	EXPECT_EQUAL(m.rank, ME);
	EXPECT(net.sent[peer] < 4);
	net.op[peer][net.sent[peer]++] = m.op;
	if (m.op == 1 && net.greets)
		arrive((uint32_t)peer, 1);
	if (m.op == 1 && net.answers)
		arrive((uint32_t)peer, 2);
	return fabricOk;
}

static int fakePoll(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	(void)end, (void)most;
	if (net.floods) {
		*events = (struct fabricEvent){.kind = fabricMessage, .bytes = MESSAGE_SHORT};
		return 1;
	}
	if (net.taken == net.events)
		return 0;
	*events = net.event[net.taken++];
	return 1;
}

static const void *blobOf(void *core, int rank, uint32_t route)
{
	static struct proxyBlob blob;

	(void)core, (void)route;
	blob = (struct proxyBlob){.hasNetwork = 1,
				  .name = "fake",
				  .interface = "eth0",
				  .plugin = "fake",
				  .address = {[10] = 0xff, 0xff, 10, 0, 0}};
	blob.address[15] = (uint8_t)(hosts[rank] - 'a' + 1);
	blob.rails = net.rails[rank];
	return &blob;
}

static int hasFailed(void *core)
{
	(void)core;
	return 0;
}

static ginResult_t meet(void)
{
	static const struct fabricCalls calls = {.send = fakeSend, .poll = fakePoll};
	static const uint8_t serves[RANKS] = {1, 0, 1, 1};
	struct identity ranks[RANKS] = {{.hostId = 0}};
	const struct backendHost host = {.rank = ME,
					 .nRanks = RANKS,
					 .ranks = ranks,
					 .key = key,
					 .blob = blobOf,
					 .hasFailed = hasFailed};
	const struct transportScope scope = {.host = &host, .serves = serves, .lanes = 1};

	for (int r = 0; r < RANKS; r++) {
		ranks[r].hostId = (uint64_t)hosts[r];
		snprintf(ranks[r].host, sizeof(ranks[r].host), "host-%c", hosts[r]);
	}
	struct networkLane *lane = makeLane(&calls, &scope);
	lane->index = net.lane;
	ginResult_t result = networkMeetLane(lane);
	net.forged = lane->forged;
	free(lane);
	for (int r = 0; r < RANKS; r++)
		EXPECT(r == PEER || !net.sent[r]);
	return result;
}

static void expectFails(const char *words)
{
	EXPECT(meet() != ginSuccess);
	EXPECT_HAS(ginGetLastError(), words);
	EXPECT_HAS(ginGetLastError(), "set GIN_OFI_INTERFACE on both hosts");
}

/* Greetings of a stranger, and a greeting that comes twice, change nothing. */
static void heard(void)
{
	net.greets = net.answers = net.busy = 1;
	arrive(77, 1);
	arrive(RANKS, 1);
	arrive(0, 2);
	arrive(PEER, 1);
	EXPECT_SUCCESS(meet());
	EXPECT_EQUAL(net.sent[PEER], 2);
	EXPECT(net.op[PEER][0] == 1 && net.op[PEER][1] == 2);
}

/* On a further lane ranks meet if one of them has a further rail. */
static void heardOnRails(void)
{
	static const int of[] = {ME, PEER};

	net.lane = 1;
	EXPECT_SUCCESS(meet());
	EXPECT_EQUAL(net.sent[PEER], 0);
	for (int i = 0; i < 2; i++) {
		net.rails[of[i]] = 2;
		net.sent[PEER] = net.events = net.taken = 0;
		heard();
		net.rails[of[i]] = 1;
	}
}

static void heardByProofs(void)
{
	net.proves = 1;
	heard();
	EXPECT_EQUAL(net.forged, 2); /* of ranks that do not exist */
}

/* In the name of the peer, without a proof, with that of another key, and by another rank. */
static void stranger(void)
{
	for (uint8_t op = 1; op <= 2; op++) {
		net.proves = 0;
		arrive(PEER, op);
		net.proves = 1;
		arriveBy(PEER, guessed, PEER, op);
		arriveBy(0, key, PEER, op);
	}
	expectFails("rank 3 (host host-b, eth0 10.0.0.2) does not reach rank 1");
	EXPECT_EQUAL(net.forged, 6);
}

static void flood(void)
{
	net.proves = net.floods = 1;
	alarm(30);
	expectFails("no message came within 1 s");
}

static void silent(void)
{
	expectFails("rank 3 (host host-b, eth0 10.0.0.2) does not reach rank 1 (host host-a, eth0 "
		    "10.0.0.1) by fake: no message came within 1 s");
}

/* Earlier steps took the time of the call: the other ranks still learn the reason. */
static void late(void)
{
	uint64_t before = deadlineBegin();

	usleep(1000000);
	expectFails("no message came within 0 s");
	deadlineEnd(before);
}

static void deaf(void)
{
	net.greets = 1;
	expectFails("rank 1 (host host-a, eth0 10.0.0.1) does not reach rank 3 (host host-b");
	EXPECT_EQUAL(net.sent[PEER], 2);
}

static void lost(void)
{
	net.event[net.events++] =
		(struct fabricEvent){.kind = fabricLost, .peer = PEER, .why = "no route to host"};
	expectFails("does not reach rank 3 (host host-b, eth0 10.0.0.2) by fake: no route to host");
}

int main(void)
{
	setenv("GIN_TIMEOUT", "1", 1);
	setenv("GIN_LOG", "none", 1);
	expectChild("both hear", heard);
	expectChild("both hear, by proofs", heardByProofs);
	expectChild("both hear, on a further rail", heardOnRails);
	expectChild("a stranger greets in a rank's name", stranger);
	expectChild("a stranger never stops", flood);
	expectChild("a peer is silent", silent);
	expectChild("a peer is silent, and the call has no time left", late);
	expectChild("a peer does not hear", deaf);
	expectChild("a peer is lost", lost);
	return expectFailures != 0;
}
