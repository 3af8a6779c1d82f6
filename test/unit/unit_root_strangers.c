/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_root_strangers.c - connections to a root that are not from its ranks: silent, of another
 * job, or of another protocol; the ranks still meet
 *
 * Each test runs in a process of its own.
 */
#include "root_visitors.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Two of three ranks have come; the third comes after the strangers. */
static void beginMeeting(struct visitor v[3], const struct rootContact *contact)
{
	for (uint32_t r = 0; r < 3; r++)
		v[r] = makeVisitor(contact, "among strangers", 0, r, 3);
	arrive(&v[0]);
	arrive(&v[1]);
}

static void endMeeting(struct visitor v[3])
{
	startVisit(&v[2]);
	expectAllMet(v, 3);
}

static void sendAll(int fd, const void *data, size_t bytes)
{
	EXPECT(!socketSend(fd, data, bytes, clockNow() + VISIT_SECONDS * SECOND));
}

/* Messages of other protocols; the root reads at least 32 bytes. */
static void garbage(void)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n";
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor v[3];
	char bytes[4096];

	beginMeeting(v, &contact);
	for (int value = 0; value < 256; value += 51) {
		int fd = connectRoot(&contact);
		memset(bytes, value, sizeof(bytes));
		sendAll(fd, bytes, sizeof(bytes));
		expectEnd(fd);
	}
	int fd = connectRoot(&contact);
	sendAll(fd, http, sizeof(http));
	expectEnd(fd);
	endMeeting(v);
}

/* Both sides learn that the keys differ, and no other rank does. */
static void wrongKey(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS), other = contact;
	struct visitor v[3], wrong;

	beginMeeting(v, &contact);
	for (size_t i = 0; i < sizeof(other.key); i++) {
		other.key[i] ^= 0x80;
		wrong = makeVisitor(&other, "among strangers", 0, 2, 3);
		startVisit(&wrong);
		expectVisitFails(&wrong, "has another secret: the id belongs to another job");
		wrong.patient = 1;
		startVisit(&wrong);
		expectVisitFails(&wrong, "GIN_SECRET must be the same on all ranks");
		other.key[i] ^= 0x80;
	}
	endMeeting(v);
}

/* A replayed proof is refused: each connection has a challenge of its own. */
static void replay(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	uint64_t end = clockNow() + VISIT_SECONDS * SECOND, challenge[2], proof;
	char answer[AUTH_ANSWER_BYTES];
	int pair[2], first = connectRoot(&contact);
	struct visitor v = makeVisitor(&contact, "", 0, 0, 1);

	/* A rank talks to the root by way of this process. */
	uint16_t port;
	pair[0] = socketListen(NULL, &port);
	EXPECT(pair[0] >= 0);
	v.contact.port = port;
	startVisit(&v);
	pair[1] = socketAccept(pair[0], end);
	EXPECT(pair[1] >= 0);
	EXPECT(!socketReceive(first, challenge, sizeof(challenge), end));
	sendAll(pair[1], challenge, sizeof(challenge));
	EXPECT(!socketReceive(pair[1], answer, sizeof(answer), end));
	sendAll(first, answer, sizeof(answer));
	EXPECT(!socketReceive(first, &proof, sizeof(proof), end));
	close(pair[0]);
	close(pair[1]);
	endVisit(&v);

	int second = connectRoot(&contact);
	EXPECT(!socketReceive(second, challenge, sizeof(challenge), end));
	sendAll(second, answer, sizeof(answer));
	proof = 1;
	EXPECT(!socketReceive(second, &proof, sizeof(proof), end));
	EXPECT_EQUAL(proof, 0);
	expectEnd(second);
	close(first);
}

/* Clients that leave at each stage of the protocol, one byte before its end. */
static void halfMessages(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	static const size_t parts[] = {0, 1, 31};
	struct visitor v[3];
	char bytes[AUTH_ANSWER_BYTES] = {0};

	beginMeeting(v, &contact);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		int fd = connectRoot(&contact);
		sendAll(fd, bytes, parts[i]);
		close(fd);
	}
	for (size_t part = 1; part < sizeof(v[2].request); part += sizeof(v[2].request) / 3) {
		int fd = greetRoot(&contact, 2);
		sendAll(fd, &v[2].request, part);
		close(fd);
	}
	expectServes(&contact);
	endMeeting(v);
}

/* A rank whose bytes come one by one is served, and so are the others meanwhile. */
static void slowRank(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor slow = makeVisitor(&contact, "slow", 0, 0, 1);

	slow.fd = greetRoot(&contact, 0);
	for (size_t i = 0; i < sizeof(slow.request); i++) {
		sendAll(slow.fd, (const char *)&slow.request + i, 1);
		if (i % 100 == 0)
			expectServes(&contact);
	}
	expectMet(&slow);
}

/*
 * Connections without a whole proof are closed after some seconds; the ranks meet before and after
 * that, and the root's descriptors are free again. A connection that has proved the key stays open.
 */
static void silentCrowd(void)
{
	enum { CROWD = 300 };
	static int fd[CROWD];
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	int files = countFiles(), threads = countThreads();
	struct visitor v[3];

	for (int i = 0; i < CROWD; i++) {
		fd[i] = i % 3 == 2 ? greetRoot(&contact, 1) : connectRoot(&contact);
		if (i % 3)
			sendAll(fd[i], &contact, 7);
	}
	beginMeeting(v, &contact);
	endMeeting(v);
	for (int i = 0; i < CROWD; i++) {
		if (i % 3 == 2)
			close(fd[i]);
		else
			expectEnd(fd[i]);
	}
	expectServes(&contact);
	expectCountsSoon(files, threads);
}

static int slowRandom; /* the root's next challenge takes longer than clients may be silent */
static _Thread_local int isTester; /* its own challenges are not slow */

ssize_t getrandom(void *out, size_t bytes, unsigned flags)
{
	if (!isTester && __atomic_exchange_n(&slowRandom, 0, __ATOMIC_ACQ_REL))
		usleep(6000000);
	return syscall(SYS_getrandom, out, bytes, flags);
}

/* A connection whose challenge has arrived. */
static int connectChallenged(const struct rootContact *contact)
{
	struct pollfd challenged = {.fd = connectRoot(contact), .events = POLLIN};

	EXPECT_EQUAL(poll(&challenged, 1, VISIT_SECONDS * 1000), 1);
	return challenged.fd;
}

/*
 * The root is stopped after it has accepted a rank. Of other ranks, one has stopped after its
 * proof, and one proves the key while the root is stopped. All are served.
 */
static void stoppedRanks(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	uint64_t end = clockNow() + VISIT_SECONDS * SECOND;
	struct visitor v[3];

	for (uint32_t r = 0; r < 3; r++)
		v[r] = makeVisitor(&contact, "stopped", 0, r, 3);
	v[0].fd = greetRoot(&contact, 0);
	v[1].fd = connectChallenged(&contact);
	isTester = 1;
	slowRandom = 1;
	v[2].fd = connectRoot(&contact);
	EXPECT(!authConnect(v[1].fd, contact.key, 1, end));
	expectServes(&contact);
	EXPECT(!authConnect(v[2].fd, contact.key, 2, end));
	for (int r = 0; r < 3; r++)
		sendAll(v[r].fd, &v[r].request, sizeof(v[r].request));
	expectAllMet(v, 3);
}

/* A rank of a complete communicator that comes again belongs to another job. */
static void lateForAll(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor v[3], late;

	for (uint32_t generation = 0; generation < 3; generation++) {
		for (uint32_t r = 0; r < 3; r++)
			v[r] = makeVisitor(&contact, "all", generation, r, 3);
		startVisits(v, 3);
		expectAllMet(v, 3);
		for (uint32_t g = 0; g <= generation; g++) {
			late = makeVisitor(&contact, "all", g, 1, 3);
			late.request.pid = 77;
			startVisit(&late);
			expectVisitFails(&late,
					 "have met already, without rank 1 (host host1, pid 77)");
			EXPECT_HAS(late.why, "each job needs a port of its own");
		}
	}
	expectServes(&contact);
}

/* As the root of GIN_ROOT, where two jobs may meet. */
static struct rootContact sharedRoot(struct root **handle)
{
	struct rootContact contact = {.key = "a key", .addresses = 1, .address = {v4Loopback}};
	int listener = socketListen(&v4Loopback, &contact.port);

	EXPECT(listener >= 0);
	EXPECT(!rootStartUsed(listener, contact.key, "", VISIT_SECONDS, handle));
	return contact;
}

/* All ranks have come while another connection has not sent its rank: it is a duplicate rank. */
static void secondJobComes(void)
{
	struct root *handle = NULL;
	struct rootContact contact = sharedRoot(&handle);
	struct visitor v[2], other = makeVisitor(&contact, "second", 0, 1, 2);

	for (uint32_t r = 0; r < 2; r++)
		v[r] = makeVisitor(&contact, "second", 0, r, 2);
	arrive(&v[0]);
	other.fd = greetRoot(&contact, 1);
	v[1].fd = greetRoot(&contact, 1);
	sendAll(v[1].fd, &v[1].request, sizeof(v[1].request));
	sendAll(other.fd, &other.request, sizeof(other.request));
	expectVisitFails(&other, "two processes say that they are rank 1");
	expectVisitsFail(v, 2, "two processes say that they are rank 1");
	rootRelease(&handle);
	for (int ms = 0; ms < 20000 && rootUse(&handle); ms++) {
		rootRelease(&handle);
		usleep(1000);
	}
	EXPECT(!rootUse(&handle));
}

/*
 * Rank 0 of one job and rank 1 of another job get the error; the other two ranks come later, and
 * get it, too.
 */
static void restOfTwoJobs(void)
{
	static const char words[] = "the later one is on host";
	struct root *handle = NULL;
	struct rootContact contact = sharedRoot(&handle);
	struct visitor warns = makeVisitor(&contact, "rest", 0, 0, 2), v[2];

	strcpy(warns.request.entry.refusal, words); /* as warnRoot() of tcp.c */
	for (uint32_t r = 0; r < 2; r++)
		v[r] = makeVisitor(&contact, "rest", 0, r, 2);
	startVisit(&warns);
	startVisit(&v[1]);
	expectVisitFails(&warns, words);
	expectVisitFails(&v[1], words);
	v[1] = makeVisitor(&contact, "rest", 0, 1, 2);
	startVisits(v, 2);
	expectVisitFails(&v[0], words);
	expectVisitFails(&v[1], words);
	expectServes(&contact);
}

/* Three ranks have met, and the first `joined` of them have joined. */
static void meetThree(struct visitor v[3], const struct rootContact *contact, uint32_t generation,
		      int joined)
{
	uint64_t end = clockNow() + VISIT_SECONDS * SECOND;

	for (uint32_t r = 0; r < 3; r++) {
		v[r] = makeVisitor(contact, "mixed", generation, r, 3);
		v[r].fd = askRoot(&v[r]);
	}
	for (int r = 0; r < 3; r++)
		EXPECT(!socketReceive(v[r].fd, &v[r].reply, sizeof(v[r].reply), end));
	for (int r = 0; r < joined; r++)
		sendAll(v[r].fd, "", 1);
}

static const char mixed[] =
	"two jobs use this port at one time, and the communicator may have ranks "
	"of both";

/*
 * A rank of another job comes while some rank has not joined yet: rank 0, which has joined, gets
 * the error on the connection that it has kept; ranks that have not joined get it, too.
 */
static void mixedWhileJoining(void)
{
	struct root *handle = NULL;
	struct rootContact contact = sharedRoot(&handle);
	struct visitor v[3], late;

	for (uint32_t rank = 0; rank < 3; rank++) {
		meetThree(v, &contact, rank, 2);
		late = makeVisitor(&contact, "mixed", rank, rank, 3);
		late.request.pid = 77;
		startVisit(&late);
		expectVisitFails(&late, mixed);
		EXPECT_HAS(late.why, "pid 77");
		expectVisitFails(&v[0], mixed);
		expectVisitFails(&v[2], mixed);
		expectEnd(v[1].fd);
	}
	expectServes(&contact);
}

/* A rank of another job comes soon after all ranks have joined; or too late, on a slow machine. */
static void mixedJoined(void)
{
	struct root *handle = NULL;
	struct rootContact contact = sharedRoot(&handle);
	uint64_t start = clockNow();
	struct visitor v[3], late = makeVisitor(&contact, "mixed", 0, 1, 3);

	meetThree(v, &contact, 0, 3);
	startVisit(&late);
	pthread_join(late.thread, NULL);
	EXPECT_EQUAL(late.result, -1);
	if (strstr(late.why, mixed))
		expectVisitFails(&v[0], mixed);
	else
		expectThat(clockNow() - start > ROOT_MIX_SECONDS * SECOND, __FILE__, __LINE__, "%s",
			   late.why);
}

/*
 * Ranks of another job that come later, or to a communicator whose rank 0 has left, do no harm. Nor
 * does a rank that connects several times before its request.
 */
static void notMixed(void)
{
	struct root *handle = NULL;
	struct rootContact contact = sharedRoot(&handle);
	struct visitor v[3], late = makeVisitor(&contact, "mixed", 0, 1, 3);
	char byte;

	meetThree(v, &contact, 0, 3);
	for (uint32_t r = 0; r < 3; r++) {
		int again = greetRoot(&contact, r);
		sendAll(again, "", 1); /* as tryAddress() does */
		close(again);
	}
	/* The root ends the connection without an error when the communicator is old. */
	EXPECT(socketReceive(v[0].fd, &byte, 1, clockNow() + VISIT_SECONDS * SECOND));
	EXPECT_EQUAL(errno, ECONNRESET);
	startVisit(&late);
	expectVisitFails(&late, "have met already, without rank 1");
	meetThree(v, &contact, 1, 3);
	meetingEnd(v[0].fd, 0);
	expectServes(&contact); /* the root has seen that */
	late = makeVisitor(&contact, "mixed", 1, 1, 3);
	startVisit(&late);
	expectVisitFails(&late, "have met already, without rank 1");
}

/* The process has no descriptor left for a while: ranks wait, and then meet. */
static void noDescriptors(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct rlimit limit;
	struct visitor v[2];
	int taken[64], n = 0;

	EXPECT(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 32;
	EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
	for (uint32_t r = 0; r < 2; r++)
		v[r] = makeVisitor(&contact, "", 0, r, 2);
	arrive(&v[0]);
	int fd = socket(AF_INET, SOCK_STREAM, 0); /* of a rank that comes meanwhile */
	while ((taken[n] = dup(0)) >= 0)
		n++;
	EXPECT(errno == EMFILE);
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(contact.port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	EXPECT(!connect(fd, (const struct sockaddr *)&at, sizeof(at)));
	usleep(400000);
	while (n)
		close(taken[--n]);
	startVisit(&v[1]);
	expectAllMet(v, 2);
	close(fd);
	expectServes(&contact);
}

/*
 * Another process connects without end and sends nothing: the root's process keeps most of its
 * descriptors, logs a few lines, and serves ranks.
 */
static void crowdOfDescriptors(void)
{
	enum { LIMIT = 128, CROWD = 100, FILES = LIMIT / 8 + 8 };
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct rlimit limit;
	int ready[2], files, status;
	char byte;

	EXPECT(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = LIMIT;
	EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
	contact = newRoot(0, VISIT_SECONDS);
	files = countFiles();
	EXPECT(!pipe(ready));
	pid_t child = fork();
	if (!child) {
		for (int i = 0; i < CROWD; i++)
			connectRoot(&contact);
		EXPECT(write(ready[1], "", 1) == 1);
		pauseForTest();
	}
	EXPECT(read(ready[0], &byte, 1) == 1);
	for (int i = 0; i < 20; i++) {
		int now = countFiles();
		expectThat(now <= files + FILES, __FILE__, __LINE__,
			   "%d descriptors, %d before the crowd", now, files);
		usleep(10000);
	}
	expectServes(&contact);
	kill(child, SIGKILL);
	EXPECT(waitpid(child, &status, 0) == child);
}

/* CPU time of this process, in ns. */
static uint64_t computed(void)
{
	struct timespec used;

	EXPECT(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used));
	return (uint64_t)used.tv_sec * SECOND + (uint64_t)used.tv_nsec;
}

/* An idle root sleeps, whatever connections it has. */
static void idleRoot(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor v[3];

	beginMeeting(v, &contact);
	int silent = connectRoot(&contact), half = connectRoot(&contact);
	sendAll(half, &contact, 7);
	int asks = greetRoot(&contact, 2);
	sendAll(asks, &v[2].request, 100);
	uint64_t before = computed();
	usleep(1000000);
	expectThat(computed() - before < SECOND / 4, __FILE__, __LINE__,
		   "the root computed for %llu ns of one second in which nothing happened",
		   (unsigned long long)(computed() - before));
	close(silent);
	close(half);
	close(asks);
	endMeeting(v);
}

int main(void)
{
	prepareTests();
	expectChild("garbage", garbage);
	expectChild("another key", wrongKey);
	expectChild("a proof that was used", replay);
	expectChild("half messages", halfMessages);
	expectChild("a slow rank", slowRank);
	expectChild("a silent crowd", silentCrowd);
	expectChild("ranks that are stopped", stoppedRanks);
	expectChild("a rank that comes after all", lateForAll);
	expectChild("a second job comes", secondJobComes);
	expectChild("the rest of two jobs", restOfTwoJobs);
	expectChild("two jobs are mixed, and a rank has not joined", mixedWhileJoining);
	expectChild("two jobs are mixed, and all ranks have joined", mixedJoined);
	expectChild("a second job that comes later", notMixed);
	expectChild("no descriptors left", noDescriptors);
	expectChild("a crowd that takes descriptors", crowdOfDescriptors);
	expectChild("an idle root", idleRoot);
	return expectFailures != 0;
}
