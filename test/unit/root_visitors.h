/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * root_visitors.h - a root of the bootstrap, and ranks that come to it as threads
 *
 * Every byte of a rank's entry follows from communicator and rank: the test notices a rank that
 * gets another rank's entry, or a part of one.
 */
#ifndef GIN_TEST_ROOT_VISITORS_H
#define GIN_TEST_ROOT_VISITORS_H

#include "bootstrap/meeting.h"
#include "lib/base/clock.h"
#include "lib/base/net/auth.h"

#include "test/arguments/arguments.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define VISITORS_MOST 1024
#define VISIT_SECONDS 20 /* limit for bytes that are due at once */
#define MAGIC UINT64_C(0x1234)

struct visitor {
	struct rootContact contact;
	struct rootRequest request;
	int patient;
	unsigned seconds;
	int fd; /* connection of a rank that has arrived; 0: the rank is a thread */

	int result;
	struct rootReply reply;
	char why[BOOTSTRAP_WHY];
	pthread_t thread;
};

static inline uint8_t entryByte(const char *name, uint32_t generation, uint32_t rank, size_t i)
{
	uint32_t x = rank * 2654435761u + generation * 40503u + (uint32_t)i * 69069u;

	for (; *name; name++)
		x = x * 31 + (uint8_t)*name;
	return (uint8_t)(x >> 11);
}

static inline void makeEntry(struct bootstrapEntry *out, const char *name, uint32_t generation,
			     uint32_t rank)
{
	memset(out, 0, sizeof(*out));
	out->magic = MAGIC;
	snprintf(out->host, sizeof(out->host), "host%u", rank);
	for (size_t i = 0; i < sizeof(out->data); i++)
		out->data[i] = entryByte(name, generation, rank, i);
}

static inline struct visitor makeVisitor(const struct rootContact *contact, const char *name,
					 uint32_t generation, uint32_t rank, uint32_t nRanks)
{
	struct visitor v = {.contact = *contact,
			    .seconds = VISIT_SECONDS,
			    .request = {.generation = generation,
					.rank = rank,
					.nRanks = nRanks,
					.parent = rank ? (rank - 1) / 16 : 0}};

	snprintf(v.request.name, sizeof(v.request.name), "%s", name);
	makeEntry(&v.request.entry, name, generation, rank);
	return v;
}

static inline void *visitThread(void *arg)
{
	struct visitor *v = arg;

	v->result = meetingAsk(&v->contact, &v->request, v->patient,
			       clockNow() + v->seconds * SECOND, &v->reply, NULL, v->why);
	return NULL;
}

static inline void startVisit(struct visitor *v)
{
	EXPECT(!pthread_create(&v->thread, NULL, visitThread, v));
}

static inline void startVisits(struct visitor *v, int n)
{
	for (int i = 0; i < n; i++)
		startVisit(&v[i]);
}

static inline void expectEntry(const struct visitor *v, const struct bootstrapEntry *seen,
			       uint32_t rank)
{
	const struct rootRequest *request = &v->request;
	struct bootstrapEntry due;

	makeEntry(&due, request->name, request->generation, rank);
	expectThat(!memcmp(seen, &due, sizeof(due)), __FILE__, __LINE__,
		   "\"%s\" %u, rank %u of %u: not rank %u's entry", request->name,
		   request->generation, request->rank, request->nRanks, rank);
}

static inline void endVisit(struct visitor *v)
{
	uint64_t end = clockNow() + VISIT_SECONDS * SECOND;

	if (!v->fd) {
		pthread_join(v->thread, NULL);
		return;
	}
	EXPECT(!socketReceive(v->fd, &v->reply, sizeof(v->reply), end));
	memcpy(v->why, v->reply.why, sizeof(v->why));
	v->result = v->why[0] ? -1 : 0;
	meetingEnd(v->fd, 1);
}

/* Waits for the visitor: it has the entries of rank 0 and of its parent. */
static inline void expectMet(struct visitor *v)
{
	endVisit(v);
	expectThat(!v->result, __FILE__, __LINE__, "\"%s\" %u, rank %u of %u: %s", v->request.name,
		   v->request.generation, v->request.rank, v->request.nRanks, v->why);
	expectEntry(v, &v->reply.root, 0);
	expectEntry(v, &v->reply.parent, v->request.parent);
}

static inline void expectAllMet(struct visitor *v, int n)
{
	for (int i = 0; i < n; i++)
		expectMet(&v[i]);
}

/* Waits for the visitor, which fails with these words. */
static inline void expectVisitFails(struct visitor *v, const char *words)
{
	endVisit(v);
	expectThat(v->result < 0, __FILE__, __LINE__, "rank %u of %u: success, expected \"%s\"",
		   v->request.rank, v->request.nRanks, words);
	EXPECT_HAS(v->why, words);
}

static inline void expectVisitsFail(struct visitor *v, int n, const char *words)
{
	for (int i = 0; i < n; i++)
		expectVisitFails(&v[i], words);
}

static inline struct rootContact newRoot(int once, unsigned seconds)
{
	struct rootContact contact;
	char why[BOOTSTRAP_WHY] = "";

	int failed = once ? rootMakeId(&contact, "", seconds, why)
			  : rootMake(&contact, "", seconds, why);
	expectThat(!failed, __FILE__, __LINE__, "%s", why);
	return contact;
}

/* The root still serves the next communicator. */
static inline void expectServes(const struct rootContact *contact)
{
	static uint32_t generation;
	struct visitor v[3];

	for (uint32_t r = 0; r < 3; r++)
		v[r] = makeVisitor(contact, "still served", generation, r, 3);
	generation++;
	startVisits(v, 3);
	expectAllMet(v, 3);
}

static inline void *nothing(void *arg)
{
	return arg;
}

/* Before a test. A sanitizer starts a thread of its own with the first thread. */
static inline int countThreads(void)
{
	pthread_t first;

	EXPECT(!pthread_create(&first, NULL, nothing, NULL));
	pthread_join(first, NULL);
	usleep(10000); /* a thread that was joined is listed a little longer */
	return countEntries("/proc/self/task");
}

/* Files and threads of a root disappear soon after its end, not at once. */
static inline void expectCountsSoon(int files, int threads)
{
	uint64_t end = clockNow() + VISIT_SECONDS * SECOND;
	int filesNow, threadsNow;

	do {
		usleep(1000);
		filesNow = countFiles();
		threadsNow = countEntries("/proc/self/task");
	} while ((filesNow > files || threadsNow > threads) && clockNow() < end);
	expectThat(filesNow <= files && threadsNow <= threads, __FILE__, __LINE__,
		   "%d descriptors and %d threads, %d and %d before", filesNow, threadsNow, files,
		   threads);
}

static const struct netAddress v4Loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

/* For a child that its parent kills: it must not outlive a parent that fails. */
static inline void pauseForTest(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(100);
	pause();
}

/* A connection that has sent nothing. */
static inline int connectRoot(const struct rootContact *contact)
{
	int fd = socketConnect(&v4Loopback, contact->port, clockNow() + VISIT_SECONDS * SECOND);

	expectThat(fd >= 0, __FILE__, __LINE__, "no connection: %s", strerror(errno));
	return fd;
}

/* A connection that has proved to be `rank`. */
static inline int greetRoot(const struct rootContact *contact, uint32_t rank)
{
	int fd = connectRoot(contact);

	EXPECT(!authConnect(fd, contact->key, rank, clockNow() + VISIT_SECONDS * SECOND));
	return fd;
}

/* A connection that has asked, and waits. */
static inline int askRoot(const struct visitor *v)
{
	int fd = greetRoot(&v->contact, v->request.rank);

	EXPECT(!socketSend(fd, &v->request, sizeof(v->request),
			   clockNow() + VISIT_SECONDS * SECOND));
	return fd;
}

/* The root takes this request before any later one. */
static inline void arrive(struct visitor *v)
{
	v->fd = askRoot(v);
	expectServes(&v->contact);
}

/* Reads until the root ends the connection. */
static inline void expectEnd(int fd)
{
	char bytes[256];
	uint64_t end = clockNow() + VISIT_SECONDS * SECOND;

	while (!socketReceive(fd, bytes, 1, end))
		;
	expectThat(errno != ETIMEDOUT, __FILE__, __LINE__, "the root did not end the connection");
	close(fd);
}

/* A port where no process listens. */
static inline uint16_t freePort(void)
{
	uint16_t port;
	int fd = socketListen(NULL, &port);

	EXPECT(fd >= 0);
	close(fd);
	return port;
}

static inline void shuffle(struct visitor *v, int n)
{
	for (int i = n - 1; i > 0; i--) {
		int j = (int)(random() % (i + 1));
		struct visitor other = v[i];
		v[i] = v[j];
		v[j] = other;
	}
}

#endif
