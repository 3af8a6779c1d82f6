/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_handshake.c - both sides prove that they know the secret, and other connections are refused
 *
 * One side runs in a thread, the other here. Strangers' messages are written byte by byte.
 */
#include "lib/base/net/auth.h"

#include "loopback.h"

#include <pthread.h>
#include <sys/ioctl.h>

static const uint8_t secret[AUTH_KEY_BYTES] = "right secret";
static const uint8_t wrong[AUTH_KEY_BYTES] = "wrong secret";

/* As it travels: auth.c's struct authGreeting. */
struct greeting {
	uint32_t magic, rank;
	uint64_t challenge[2], proof;
};

#define MAGIC 0x316e6967 /* "gin1" */

static uint64_t prove(const uint8_t *key, uint64_t direction, uint32_t rank,
		      const uint64_t listeners[2], const uint64_t connectors[2])
{
	uint64_t text[5] = {direction << 32 | rank, listeners[0], listeners[1], connectors[0],
			    connectors[1]};
	return siphash(key, text, sizeof(text));
}

static struct greeting makeGreeting(const uint8_t *key, uint32_t rank, const uint64_t challenge[2])
{
	struct greeting g = {.magic = MAGIC, .rank = rank, .challenge = {7, 8}};

	g.proof = prove(key, 1, rank, challenge, g.challenge);
	return g;
}

/* The listening side of one connection, in a thread, and its result. */
struct accepted {
	pthread_t thread;
	uint64_t wait;
	int fd, result, reason;
	uint32_t rank;
};

static void *acceptOne(void *arg)
{
	struct accepted *a = arg;

	a->fd = socketAccept(listener, clockNow() + LONG);
	EXPECT(a->fd >= 0);
	uint64_t challenge[2], deadline = clockNow() + a->wait;
	a->result = authChallenge(a->fd, challenge, deadline) ||
				    authAnswer(a->fd, secret, challenge, &a->rank, deadline)
			    ? -1
			    : 0;
	a->reason = a->result ? errno : 0;
	return NULL;
}

static void startAccept(struct accepted *a, uint64_t wait)
{
	*a = (struct accepted){.wait = wait, .rank = 99};
	EXPECT(!pthread_create(&a->thread, NULL, acceptOne, a));
}

/* The connection stays open; the caller closes both sockets. */
static void expectAccepted(struct accepted *a, uint32_t rank)
{
	pthread_join(a->thread, NULL);
	expectThat(!a->result, __FILE__, __LINE__, "refused: %s", strerror(a->reason));
	EXPECT_EQUAL(a->rank, rank);
}

static void expectRefused(struct accepted *a, int reason)
{
	pthread_join(a->thread, NULL);
	expectThat(a->result == -1 && a->reason == reason, __FILE__, __LINE__,
		   "result %d (%s), expected -1 (%s)", a->result, strerror(a->reason),
		   strerror(reason));
	EXPECT_EQUAL(a->rank, 99); /* not written */
}

static void closeBoth(struct accepted *a, int fd)
{
	close(a->fd);
	close(fd);
}

/* The right secret on both sides; then bytes both ways. */
static void rightSecret(uint32_t rank)
{
	struct accepted a;
	uint64_t word = 0x1122334455667788, seen = 0;

	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	EXPECT(!authConnect(fd, secret, rank, clockNow() + LONG));
	expectAccepted(&a, rank);
	sendAll(fd, &word, sizeof(word));
	receiveAll(a.fd, &seen, sizeof(seen));
	EXPECT(seen == word);
	sendAll(a.fd, &word, sizeof(word));
	receiveAll(fd, &seen, sizeof(seen));
	EXPECT(seen == word);
	closeBoth(&a, fd);
}

/* After every refusal the listener still accepts the right secret. */
static void stillUsable(void)
{
	rightSecret(3);
}

static void wrongSecretOfConnector(void)
{
	struct accepted a;

	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	struct greeting g;
	uint64_t challenge[2];
	receiveAll(fd, challenge, sizeof(challenge));
	g = makeGreeting(wrong, 3, challenge);
	sendAll(fd, &g, sizeof(g));
	expectRefused(&a, EACCES);
	receiveAll(fd, &g.proof, sizeof(g.proof));
	EXPECT_EQUAL(g.proof, 0); /* got nothing that depends on the secret */
	closeBoth(&a, fd);
	stillUsable();
}

/* The library on both sides: the listener refuses, and the connector learns that. */
static void *connectWrong(void *arg)
{
	int fd = connectTo(&v4);

	EXPECT_ERRNO(authConnect(fd, wrong, 3, clockNow() + LONG), EACCES);
	close(fd);
	return arg;
}

static void differentSecrets(void)
{
	struct accepted a;
	pthread_t connector;

	startAccept(&a, LONG);
	EXPECT(!pthread_create(&connector, NULL, connectWrong, NULL));
	expectRefused(&a, EACCES);
	close(a.fd);
	pthread_join(connector, NULL);
	stillUsable();
}

/* The rank is part of the proof: another rank cannot replace it. */
static void changedRank(void)
{
	struct accepted a;
	uint64_t challenge[2];

	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	receiveAll(fd, challenge, sizeof(challenge));
	struct greeting g = makeGreeting(secret, 3, challenge);
	g.rank = 4;
	sendAll(fd, &g, sizeof(g));
	expectRefused(&a, EACCES);
	closeBoth(&a, fd);
	stillUsable();
}

/* Every bit of a proof counts. */
static void changedProof(void)
{
	for (int bit = 0; bit < 64; bit++) {
		struct accepted a;
		uint64_t challenge[2];
		startAccept(&a, LONG);
		int fd = connectTo(&v4);
		receiveAll(fd, challenge, sizeof(challenge));
		struct greeting g = makeGreeting(secret, 3, challenge);
		g.proof ^= UINT64_C(1) << bit;
		sendAll(fd, &g, sizeof(g));
		expectRefused(&a, EACCES);
		closeBoth(&a, fd);
	}
	stillUsable();
}

static void garbage(void)
{
	struct accepted a;
	unsigned seed = (unsigned)clockNow();
	uint8_t bytes[sizeof(struct greeting)];

	printf("garbage: seed %u\n", seed);
	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	srandom(seed);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random();
	sendAll(fd, bytes, sizeof(bytes));
	expectRefused(&a, EACCES);
	closeBoth(&a, fd);
	stillUsable();
}

static void halfAGreeting(void)
{
	struct accepted a;
	struct greeting g = {.magic = MAGIC};

	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	sendAll(fd, &g, sizeof(g) / 2);
	shutdown(fd, SHUT_WR);
	expectRefused(&a, ECONNRESET);
	closeBoth(&a, fd);

	startAccept(&a, SHORT);
	fd = connectTo(&v4);
	sendAll(fd, &g, sizeof(g) / 2);
	expectRefused(&a, ETIMEDOUT);
	closeBoth(&a, fd);
	stillUsable();
}

static void silence(void)
{
	struct accepted a;

	startAccept(&a, SHORT);
	int fd = connectTo(&v4);
	expectRefused(&a, ETIMEDOUT);
	closeBoth(&a, fd);
	stillUsable();
}

/* A replayed proof is refused: each connection has a challenge of its own. */
static void replay(void)
{
	struct accepted a;
	uint64_t first[2], second[2], proof;

	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	receiveAll(fd, first, sizeof(first));
	struct greeting g = makeGreeting(secret, 3, first);
	sendAll(fd, &g, sizeof(g));
	expectAccepted(&a, 3);
	receiveAll(fd, &proof, sizeof(proof));
	EXPECT(proof == prove(secret, 2, 3, first, g.challenge));
	closeBoth(&a, fd);

	startAccept(&a, LONG);
	fd = connectTo(&v4);
	receiveAll(fd, second, sizeof(second));
	EXPECT(memcmp(first, second, sizeof(first)));
	sendAll(fd, &g, sizeof(g));
	expectRefused(&a, EACCES);
	closeBoth(&a, fd);
	stillUsable();
}

/* A listener reads one greeting only, even if the client sends more. */
static void boundedRead(void)
{
	struct accepted a;
	struct greeting sent[100];
	int left = 0;

	memset(sent, 0x55, sizeof(sent));
	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	sendAll(fd, sent, sizeof(sent));
	expectRefused(&a, EACCES);
	for (uint64_t end = clockNow() + LONG;
	     left < (int)(sizeof(sent) - sizeof(sent[0])) && clockNow() < end;)
		EXPECT(!ioctl(a.fd, FIONREAD, &left));
	EXPECT_EQUAL(left, sizeof(sent) - sizeof(sent[0]));
	closeBoth(&a, fd);
	stillUsable();
}

/* The connecting side, against a listener that is a stranger. */
struct connected {
	pthread_t thread;
	uint64_t wait;
	int result, reason;
};

static void *connectOne(void *arg)
{
	struct connected *c = arg;
	int fd = connectTo(&v4);

	c->result = authConnect(fd, secret, 3, clockNow() + c->wait);
	c->reason = c->result ? errno : 0;
	close(fd);
	return NULL;
}

static int startConnect(struct connected *c, uint64_t wait)
{
	*c = (struct connected){.wait = wait};
	EXPECT(!pthread_create(&c->thread, NULL, connectOne, c));
	int fd = socketAccept(listener, clockNow() + LONG);
	EXPECT(fd >= 0);
	return fd;
}

static void expectLeft(struct connected *c, int fd, int reason)
{
	pthread_join(c->thread, NULL);
	expectThat(c->result == -1 && c->reason == reason, __FILE__, __LINE__,
		   "result %d (%s), expected -1 (%s)", c->result, strerror(c->reason),
		   strerror(reason));
	close(fd);
	stillUsable();
}

static struct greeting challengeConnector(int fd, const uint64_t challenge[2])
{
	struct greeting g;

	sendAll(fd, challenge, 16);
	receiveAll(fd, &g, sizeof(g));
	EXPECT_EQUAL(g.magic, MAGIC);
	EXPECT_EQUAL(g.rank, 3);
	return g;
}

static void wrongSecretOfListener(void)
{
	struct connected c;
	const uint64_t challenge[2] = {1, 2};
	int fd = startConnect(&c, LONG);
	struct greeting g = challengeConnector(fd, challenge);
	uint64_t proof = prove(wrong, 2, 3, challenge, g.challenge);

	EXPECT(g.proof == prove(secret, 1, 3, challenge, g.challenge));
	sendAll(fd, &proof, sizeof(proof));
	expectLeft(&c, fd, EACCES);
}

/* The connector's own proof, sent back to it. */
static void reflectedProof(void)
{
	struct connected c;
	const uint64_t challenge[2] = {1, 2};
	int fd = startConnect(&c, LONG);
	struct greeting g = challengeConnector(fd, challenge);

	sendAll(fd, &g.proof, sizeof(g.proof));
	expectLeft(&c, fd, EACCES);
}

/* A stranger sends the listener's challenge back as its own. */
static void reflectedChallenge(void)
{
	struct accepted a;
	uint64_t challenge[2];

	startAccept(&a, LONG);
	int fd = connectTo(&v4);
	receiveAll(fd, challenge, sizeof(challenge));
	struct greeting g = {.magic = MAGIC, .rank = 3};
	memcpy(g.challenge, challenge, sizeof(challenge));
	g.proof = prove(wrong, 1, 3, challenge, challenge);
	sendAll(fd, &g, sizeof(g));
	expectRefused(&a, EACCES);
	closeBoth(&a, fd);
	stillUsable();
}

static void listenerLeavesOrSaysNothing(void)
{
	struct connected c;
	int fd = startConnect(&c, LONG);

	sendAll(fd, "1234567", 7); /* less than a challenge */
	shutdown(fd, SHUT_WR);
	expectLeft(&c, fd, ECONNRESET);
	fd = startConnect(&c, SHORT);
	expectLeft(&c, fd, ETIMEDOUT);
}

int main(void)
{
	listenHere();
	rightSecret(0);
	rightSecret(UINT32_MAX);
	wrongSecretOfConnector();
	differentSecrets();
	changedRank();
	changedProof();
	garbage();
	halfAGreeting();
	silence();
	replay();
	boundedRead();
	wrongSecretOfListener();
	reflectedProof();
	reflectedChallenge();
	listenerLeavesOrSaysNothing();
	close(listener);
	printf("unit_handshake: passed\n");
	return 0;
}
