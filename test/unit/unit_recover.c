/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_recover.c - the datagrams by which ranks agree who goes on, one at a time: which are taken,
 * what a taken one changes, and where the answer goes
 *
 * Three ranks have a socket each, and no thread. A test takes a datagram from the socket of rank 0
 * and passes it to recoverTake(), changed, late, or as if it came from elsewhere.
 */
#include "edges.h"
#include "expect.h"
#include "recover_datagram.h"

#include "lib/base/clock.h"

#include <poll.h>

enum { RANKS = 3, ENTRY = 24, MOST = 2048 };

struct mail {
	uint8_t bytes[MOST];
	size_t length;
	union datagramAddress from;
};

static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
static struct identity identities[RANKS + 1]; /* the last one is no rank's */
static struct control ranks[RANKS];
static uint8_t failed[RANKS][RANKS];
static int stranger = -1;
static union datagramAddress strangers;

static void openRank(int r)
{
	ranks[r] = (struct control){.rank = r,
				    .nRanks = RANKS,
				    .ranks = identities,
				    .failed = failed[r],
				    .lock = PTHREAD_MUTEX_INITIALIZER,
				    .changed = PTHREAD_COND_INITIALIZER};
	memset(failed[r], 0, RANKS);
	identities[r] = (struct identity){.hostId = 1, .loopback = 1};
	snprintf(identities[r].host, sizeof(identities[r].host), "host-%d", r);
	EXPECT_SUCCESS(recoverOpen(&ranks[r], &loopback, &identities[r].recoverPort));
	EXPECT_SUCCESS(recoverBegin(&ranks[r], NULL, 0));
}

static void openAll(void)
{
	uint16_t port;

	for (int r = 0; r < RANKS; r++)
		openRank(r);
	stranger = datagramOpen(&loopback, &port);
	EXPECT(stranger >= 0 && !datagramAddress(stranger, &loopback, port, &strangers));
}

static void closeAll(void)
{
	for (int r = 0; r < RANKS; r++)
		recoverClose(&ranks[r]);
	close(stranger);
}

/* The next datagram at a socket. On the loopback interface it is there when sendto() returns. */
static int nextMail(int fd, struct mail *out)
{
	ssize_t got = datagramReceive(fd, out->bytes, sizeof(out->bytes), &out->from);

	out->length = got < 0 ? 0 : (size_t)got;
	return got >= 0;
}

static void expectNoMail(int fd)
{
	struct mail none;

	EXPECT(!nextMail(fd, &none));
}

/* A question of `from`, as rank 0's socket gets it. */
static void record(int from, struct mail *out)
{
	recoverAsk(&ranks[from], 0);
	EXPECT(nextMail(ranks[0].recovery->fd, out));
}

static void take(const struct mail *mail)
{
	recoverTake(&ranks[0], mail->bytes, mail->length, &mail->from);
}

static const struct recoverPeer *peer(int rank)
{
	return &ranks[0].recovery->peer[rank];
}

static void expectTaken(const struct mail *mail, int from)
{
	struct mail answer;

	take(mail);
	EXPECT(peer(from)->heard);
	EXPECT(nextMail(ranks[from].recovery->fd, &answer));
}

/* Rank 0 has dropped it: it knows nothing new, and does not answer. */
static void expectDropped(const struct mail *mail, int from)
{
	struct recovery *v = ranks[0].recovery;
	struct recoverPeer before = v->peer[from];
	uint8_t out = v->out[0];
	uint64_t sent = v->sent;

	take(mail);
	EXPECT(!memcmp(&before, &v->peer[from], sizeof(before)));
	EXPECT(v->out[0] == out && v->by == -1 && v->sent == sent);
}

/* Rank 1 takes rank 2 to be out, and has an entry for the leader: a datagram with all parts. */
static void fillDatagram(void)
{
	struct recovery *v = ranks[1].recovery;

	recoverTakeOut(v, &ranks[1], 2);
	v->phase = recoverFixed;
	v->entryBytes = ENTRY;
	v->entries = calloc(3, ENTRY);
	v->arrived = calloc(RANKS, 1);
	EXPECT(v->entries && v->arrived);
	memset(v->entries, 0x5a, ENTRY);
}

static void everyBit(void)
{
	struct mail whole, changed;

	openAll();
	fillDatagram();
	record(1, &whole);
	EXPECT(whole.length > ENTRY + 1);
	for (size_t bit = 0; bit < 8 * whole.length; bit++) {
		changed = whole;
		changed.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		expectDropped(&changed, 1);
	}
	for (changed = whole; changed.length--;)
		expectDropped(&changed, 1);
	changed = whole;
	changed.bytes[changed.length++] = 0;
	expectDropped(&changed, 1);
	expectTaken(&whole, 1);
	EXPECT(recoverIsOut(ranks[0].recovery->out, 2));
	closeAll();
}

static void copies(void)
{
	struct mail first, second, other, copy;

	openAll();
	record(1, &first);
	record(1, &second);
	recoverAsk(&ranks[1], 2);
	EXPECT(nextMail(ranks[2].recovery->fd, &other));
	expectDropped(&other, 1); /* it is for rank 2 */
	expectTaken(&second, 1);
	expectDropped(&first, 1);
	expectDropped(&second, 1);
	copy = second;
	copy.from = strangers;
	expectDropped(&copy, 1);
	closeAll();
}

/* A copy that comes before its original is taken, and the answer goes to the rank. */
static void answersGoToRanks(void)
{
	struct mail question;

	openAll();
	record(1, &question);
	question.from = strangers;
	expectTaken(&question, 1);
	expectNoMail(stranger);
	recoverAsk(&ranks[0], 1); /* and so do later questions */
	EXPECT(nextMail(ranks[1].recovery->fd, &question));
	expectNoMail(stranger);
	closeAll();
}

static void wrongSets(void)
{
	struct mail mail;

	openAll();
	ranks[1].recovery->out[0] = 1u << 1; /* its sender */
	record(1, &mail);
	expectDropped(&mail, 1);
	ranks[1].recovery->out[0] = 1u << RANKS; /* a rank that does not exist */
	record(1, &mail);
	expectDropped(&mail, 1);
	ranks[1].recovery->out[0] = 0xff;
	record(1, &mail);
	expectDropped(&mail, 1);
	ranks[1].recovery->out[0] = 1u << 0 | 1u << 2; /* rank 0 is left out, and says so */
	record(1, &mail);
	expectTaken(&mail, 1);
	EXPECT_EQUAL(ranks[0].recovery->by, 1);
	EXPECT_EQUAL(ranks[0].recovery->out[0], 0);
	EXPECT_EQUAL(recoverLeader(&ranks[0]), 0);
	closeAll();
}

/* Rank 0 answers a datagram that it takes. */
static int isTaken(struct recoverDatagram *d, uint64_t entryBytes)
{
	static const union datagramAddress from;
	const size_t bytes = RECOVER_BARE + d->h.entries * entryBytes % sizeof(d->entries);
	uint64_t sent = ranks[0].recovery->sent;

	d->h.number++;
	recoverSign(ranks[0].key, d, bytes);
	recoverTake(&ranks[0], (const uint8_t *)d, bytes, &from);
	return ranks[0].recovery->sent != sent;
}

/* The hash is right. */
static void edgesOfFields(void)
{
	static struct recoverDatagram d;

	openAll();
	d.h = (struct recoverHeader){.magic = RECOVER_MAGIC, .rank = 1, .asks = 1};
	d.h.number = 1ull << 62;
	identities[RANKS] = identities[1]; /* where it would be answered */
	EXPECT(isTaken(&d, 0));
	FOR_EDGES (rank, RANKS, 1, 32) {
		d.h.rank = (uint32_t)rank;
		EXPECT_EQUAL(isTaken(&d, 0), rank && rank < RANKS);
	}
	d.h.rank = 1;
	FOR_EDGES (to, 1, 1, 32) {
		d.h.to = (uint32_t)to;
		EXPECT_EQUAL(isTaken(&d, 0), !to);
	}
	d.h.to = 0;
	FOR_EDGES (entries, 2, 0, 8) {
		d.h.entries = (uint8_t)entries;
		EXPECT_EQUAL(isTaken(&d, 0), entries <= 2);
	}
	d.h.entries = 1;
	FOR_EDGES (bytes, RECOVER_ENTRY, 0, 32) {
		d.h.entryBytes = (uint32_t)bytes;
		EXPECT_EQUAL(isTaken(&d, bytes), bytes <= RECOVER_ENTRY);
	}
	closeAll();
}

/* A rank that has agreed has agreed to that set only. */
static void setsGrow(void)
{
	struct mail mail;

	openAll();
	record(1, &mail);
	expectTaken(&mail, 1);
	EXPECT(peer(1)->agrees);
	EXPECT(recoverTakeOut(ranks[0].recovery, &ranks[0], 2));
	EXPECT(!peer(1)->agrees);
	closeAll();
}

/* A rank whose connection has ended is dead if it is silent for 30 s, too. */
static void silence(void)
{
	openAll();
	ranks[0].recovery->began = clockNow() - 29 * SECOND;
	failed[0][1] = 1;
	EXPECT(!recoverIsGone(&ranks[0], 1));
	ranks[0].recovery->began = clockNow() - 31 * SECOND;
	EXPECT(recoverIsGone(&ranks[0], 1));
	EXPECT(!recoverIsGone(&ranks[0], 2));
	closeAll();
}

/* The address that has answered is known. Its refusal shows that the rank is gone. */
static void refusal(void)
{
	struct mail mail;

	openAll();
	record(1, &mail);
	expectTaken(&mail, 1);
	EXPECT_EQUAL(peer(1)->proven, 0);
	recoverAsk(&ranks[0], 1);
	recoverRead(&ranks[1]);
	recoverRead(&ranks[0]);
	EXPECT_EQUAL(peer(1)->proven, 1);
	EXPECT(!recoverIsGone(&ranks[0], 1));
	recoverClose(&ranks[1]);
	recoverAsk(&ranks[0], 1);
	recoverRead(&ranks[0]);
	EXPECT(recoverIsGone(&ranks[0], 1));
	openRank(1);
	closeAll();
}

/* Another address of the rank than the one that has answered refuses: that says nothing. */
static void refusalElsewhere(void)
{
	openAll();
	identities[1].loopback = 0;
	identities[1].addresses = 2;
	identities[1].address[0] = loopback;
	identities[1].address[1] = (struct netAddress){.family = AF_INET, .bytes = {127, 0, 0, 2}};
	recoverAsk(&ranks[0], 1);
	recoverRead(&ranks[1]);
	recoverRead(&ranks[0]);
	EXPECT_EQUAL(peer(1)->proven, 1);
	ranks[0].recovery->peer[1].heard = 1; /* long ago: all addresses are asked */
	ranks[0].recovery->peer[1].refused = 0;
	recoverAsk(&ranks[0], 1);
	recoverRead(&ranks[0]);
	EXPECT_EQUAL(peer(1)->refused, 1u << 1);
	EXPECT(!recoverIsGone(&ranks[0], 1));
	closeAll();
}

/* Rank 1 has agreed, and rank 2 is alive and does not call. */
static void absent(void)
{
	struct recoverTeam team;
	struct mail mail;

	openAll();
	record(1, &mail);
	expectTaken(&mail, 1);
	EXPECT_FAILS(recoverAgree(&ranks[0], &team), ginErrorTimeout,
		     "no call from rank 2 (host host-2) within 1 s");
	EXPECT_FAILS(recoverAgree(&ranks[2], &team), ginErrorTimeout,
		     "no call from rank 0 (host host-0) within 1 s");
	closeAll();
}

int main(void)
{
	setenv("GIN_LOG", "none", 1);
	setenv("GIN_TIMEOUT", "1", 1);
	everyBit();
	copies();
	answersGoToRanks();
	wrongSets();
	edgesOfFields();
	setsGrow();
	silence();
	refusal();
	refusalElsewhere();
	absent();
	return 0;
}
