/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_root.c - the root of the bootstrap: each rank gets the entries of rank 0 and of its parent,
 * or all ranks of the communicator get one sentence
 *
 * Each test runs in a process of its own. For connections that are not from ranks:
 * unit_root_strangers.c.
 */
#include "root_visitors.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static unsigned seed;

/* Ranks come in any order, all leave, and nothing leaks. Parents are the tree's, or any rank. */
static void comeAndGoAs(const struct rootContact *contact, uint32_t nRanks, uint32_t generation)
{
	struct visitor *v = calloc(nRanks, sizeof(*v));

	EXPECT(v != NULL);
	for (uint32_t r = 0; r < nRanks; r++) {
		v[r] = makeVisitor(contact, "all", generation, r, nRanks);
		if (generation % 2)
			v[r].request.parent = r ? (uint32_t)random() % r : 0;
	}
	shuffle(v, (int)nRanks);
	startVisits(v, (int)nRanks);
	expectAllMet(v, (int)nRanks);
	free(v);
}

static void completeGroups(void)
{
	static const uint32_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 18, 33, 64, 100};
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	int files = countFiles(), threads = countThreads();

	for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++)
		comeAndGoAs(&contact, sizes[i / 2], i);
	expectCountsSoon(files, threads);
}

/* Several names and generations together, all in random order. */
static void manyAtOnce(void)
{
	static const char *const names[] = {"", "a", "ab", "b", "a/b", "ring of the model"};
	enum { NAMES = sizeof(names) / sizeof(names[0]), GENERATIONS = 2, RANKS = 20 };
	static struct visitor v[NAMES * GENERATIONS * RANKS];
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	int n = 0;

	for (uint32_t name = 0; name < NAMES; name++)
		for (uint32_t generation = 0; generation < GENERATIONS; generation++) {
			uint32_t nRanks = 1 + (uint32_t)random() % RANKS;
			for (uint32_t r = 0; r < nRanks; r++)
				v[n++] = makeVisitor(&contact, names[name], generation, r, nRanks);
		}
	shuffle(v, n);
	printf("%d ranks of %d communicators\n", n, NAMES * GENERATIONS);
	startVisits(v, n);
	expectAllMet(v, n);
}

static pid_t forkVisitor(struct visitor *v)
{
	pid_t child = fork();

	if (child)
		return child;
	visitThread(v);
	expectThat(!v->result, __FILE__, __LINE__, "%s", v->why);
	expectEntry(v, &v->reply.root, 0);
	expectEntry(v, &v->reply.parent, v->request.parent);
	_exit(0);
}

static void expectChildrenEnd(const pid_t *child, int n)
{
	int status;

	for (int i = 0; i < n; i++) {
		EXPECT(waitpid(child[i], &status, 0) == child[i]);
		EXPECT_EQUAL(status, 0);
	}
}

/* The ranks come before the root. */
static void patientProcesses(void)
{
	enum { RANKS = 24 };
	struct rootContact contact = {.magic = ROOT_MAGIC,
				      .key = "a key",
				      .port = freePort(),
				      .addresses = 1,
				      .address = {v4Loopback}};
	pid_t child[RANKS];

	for (uint32_t r = 0; r < RANKS; r++) {
		struct visitor v = makeVisitor(&contact, "patient", 0, r, RANKS);
		v.patient = 1;
		child[r] = forkVisitor(&v);
		EXPECT(child[r] > 0);
	}
	usleep(300000);
	int listener = socketListenAt(&v4Loopback, contact.port);
	EXPECT(listener >= 0);
	EXPECT(!rootStart(listener, contact.key, "", VISIT_SECONDS));
	expectChildrenEnd(child, RANKS);
}

/* The root comes too late, or never. */
static void noRoot(void)
{
	struct rootContact contact = {
		.magic = ROOT_MAGIC, .port = freePort(), .addresses = 1, .address = {v4Loopback}};
	struct visitor v = makeVisitor(&contact, "", 0, 1, 2);
	int files = countFiles();

	v.patient = 1;
	v.seconds = 1;
	startVisit(&v);
	expectVisitFails(&v, "no connection to rank 0 at GIN_ROOT");
	EXPECT_HAS(v.why, "is rank 0 started");
	v.patient = 0;
	startVisit(&v);
	expectVisitFails(&v, "no connection to the process that made the id");
	EXPECT_HAS(v.why, "Connection refused");
	EXPECT_EQUAL(countFiles(), files);
}

/*
 * When `wrong` comes, the waiting ranks and all later ranks get the reason. Then the root forgets
 * the communicator: its name and number can be used again.
 */
static void expectFailsForAll(struct visitor *waiting, int n, struct visitor *wrong,
			      const char *words)
{
	const struct rootRequest *first = &waiting[0].request;
	struct visitor v[16];

	for (int i = 0; i < n; i++)
		arrive(&waiting[i]);
	startVisit(wrong);
	if (wrong->request.rank)
		expectVisitFails(wrong, words);
	for (uint32_t r = 0; r < first->nRanks; r++) {
		v[r] = makeVisitor(&waiting->contact, first->name, first->generation, r,
				   first->nRanks);
		int came = r == wrong->request.rank;
		for (int i = 0; i < n; i++)
			came |= r == waiting[i].request.rank;
		if (came)
			continue;
		startVisit(&v[r]);
		expectVisitFails(&v[r], words);
		v[r].result = 0;
	}
	if (!wrong->request.rank)
		expectVisitFails(wrong, words);
	expectVisitsFail(waiting, n, words); /* rank 0 is informed when all have come */
	startVisits(v, (int)first->nRanks);
	expectAllMet(v, (int)first->nRanks);
}

static void refusal(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor first = makeVisitor(&contact, "refusal", 0, 0, 5);
	struct visitor wrong = makeVisitor(&contact, "refusal", 0, 2, 5);

	strcpy(wrong.request.entry.refusal, "there is no memory at all");
	expectFailsForAll(&first, 1, &wrong, "there is no memory at all");
}

static void otherVersion(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor first = makeVisitor(&contact, "version", 7, 0, 4);
	struct visitor wrong = makeVisitor(&contact, "version", 7, 3, 4);

	wrong.request.entry.magic++;
	expectFailsForAll(&first, 1, &wrong, "rank 3 (host host3) has another version of libgin");
}

static void differentSizes(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor waiting[2] = {makeVisitor(&contact, "sizes", 0, 0, 4),
				     makeVisitor(&contact, "sizes", 0, 3, 4)};
	struct visitor wrong = makeVisitor(&contact, "sizes", 0, 1, 5);

	expectFailsForAll(waiting, 2, &wrong,
			  "rank 1 says that there are 5 ranks, rank 0 says 4: all must say the "
			  "same");
	wrong = makeVisitor(&contact, "sizes", 1, 1, 2);
	waiting[0] = makeVisitor(&contact, "sizes", 1, 0, 4);
	expectFailsForAll(waiting, 1, &wrong, "rank 1 says that there are 2 ranks");
}

/*
 * A rank of another job is refused alone; where one of the two jobs has no number, it is not found.
 */
static void twoJobs(void)
{
	struct rootContact contact = {.key = "a key", .addresses = 1, .address = {v4Loopback}};
	int listener = socketListen(&v4Loopback, &contact.port);
	struct visitor v[3], other = makeVisitor(&contact, "jobs", 0, 2, 3);
	char words[128];

	EXPECT(listener >= 0);
	EXPECT(!rootStart(listener, contact.key, "100.0", VISIT_SECONDS));
	for (uint32_t r = 0; r < 3; r++) {
		v[r] = makeVisitor(&contact, "jobs", 0, r, 3);
		strcpy(v[r].request.job, r == 1 ? "" : "100.0");
	}
	arrive(&v[0]);
	arrive(&v[1]);
	strcpy(other.request.job, "100.1");
	other.request.pid = 77;
	snprintf(words, sizeof(words),
		 "rank 2 (host host2, pid 77) is of job 100.1, but the root at this port (host ");
	startVisit(&other);
	expectVisitFails(&other, words);
	EXPECT_HAS(other.why, "is of job 100.0: each job needs a port of its own");
	startVisit(&v[2]);
	expectAllMet(v, 3);
}

static void sameRankTwice(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor waiting[2] = {makeVisitor(&contact, "twice", 0, 0, 5),
				     makeVisitor(&contact, "twice", 0, 2, 5)};
	struct visitor wrong = makeVisitor(&contact, "twice", 0, 2, 5);

	waiting[1].request.pid = 11;
	wrong.request.pid = 12;
	expectFailsForAll(waiting, 2, &wrong,
			  "two processes say that they are rank 2 (host host2, pid 11; host host2, "
			  "pid 12): each process needs its own rank");
	waiting[0] = makeVisitor(&contact, "twice", 1, 0, 5);
	wrong = makeVisitor(&contact, "twice", 1, 0, 5);
	expectFailsForAll(waiting, 1, &wrong, "two processes say that they are rank 0");
}

/* A rank that leaves counts as arrived. */
static void expectLostForAll(const struct rootContact *contact, uint32_t number,
			     void (*lose)(struct visitor *v))
{
	struct visitor waiting = makeVisitor(contact, "lost", number, 0, 4);
	struct visitor lost = makeVisitor(contact, "lost", number, 1, 4), late, all[4];

	arrive(&waiting);
	lose(&lost);
	expectVisitFails(&waiting, "rank 1 ended while other ranks were still connecting");
	for (uint32_t r = 2; r < 4; r++) {
		late = makeVisitor(contact, "lost", number, r, 4);
		startVisit(&late);
		expectVisitFails(&late, "rank 1 ended while other ranks were still connecting");
	}
	for (uint32_t r = 0; r < 4; r++)
		all[r] = makeVisitor(contact, "lost", number, r, 4);
	startVisits(all, 4);
	expectAllMet(all, 4);
}

static void leave(struct visitor *v)
{
	arrive(v);
	close(v->fd);
}

static void dieWaiting(struct visitor *v)
{
	int ready[2], status;
	char byte;

	EXPECT(!pipe(ready));
	pid_t child = fork();
	if (!child) {
		v->fd = askRoot(v);
		EXPECT(write(ready[1], "", 1) == 1);
		pauseForTest();
	}
	EXPECT(read(ready[0], &byte, 1) == 1);
	expectServes(&v->contact); /* the root has its request now */
	kill(child, SIGKILL);
	EXPECT(waitpid(child, &status, 0) == child);
	close(ready[0]);
	close(ready[1]);
}

static void lostRanks(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);

	expectLostForAll(&contact, 0, leave);
	expectLostForAll(&contact, 1, dieWaiting);
}

/* All have their replies; then rank 2 ends without a message, and the others learn its name. */
static void lostWhileJoining(void)
{
	const char *words = "rank 2 (host host2) ended while the ranks were connecting to each "
			    "other";
	uint64_t end = clockNow() + VISIT_SECONDS * SECOND;
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct rootReply reply;
	struct visitor v[4];

	for (uint32_t r = 0; r < 4; r++) {
		v[r] = makeVisitor(&contact, "joining", 0, r, 4);
		v[r].fd = askRoot(&v[r]);
	}
	for (int r = 0; r < 4; r++)
		EXPECT(!socketReceive(v[r].fd, &v[r].reply, sizeof(v[r].reply), end));
	meetingEnd(v[1].fd, 1);
	expectServes(&contact); /* rank 1 is no loss */
	meetingEnd(v[2].fd, 0);
	for (int r = 0; r < 4; r += 3) {
		EXPECT(!socketReceive(v[r].fd, &reply, sizeof(reply), end));
		EXPECT_TEXT(reply.why, words);
		close(v[r].fd);
	}
	expectServes(&contact);
}

/* The client's side: joined, lost, and a root that is gone. */
static void newsOfMeetings(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct meeting m = {.deadline = clockNow() + VISIT_SECONDS * SECOND,
			    .nRanks = 2,
			    .rank = 1,
			    .watch = -1};
	struct bootstrapEntry mine, root, parent;
	char why[BOOTSTRAP_WHY] = "";
	struct visitor v = makeVisitor(&contact, "news", 0, 0, 2);

	m.contact = contact;
	snprintf(m.name, sizeof(m.name), "news");
	makeEntry(&mine, "news", 0, 1);
	v.fd = askRoot(&v);
	EXPECT_EQUAL(meetingExchange(&m, &mine, 0, &root, &parent, why), 0);
	EXPECT(meetingWatch(&m) >= 0);
	meetingEnd(v.fd, 0);
	EXPECT_EQUAL(meetingLost(&m, why), ginErrorBootstrap);
	EXPECT_HAS(why, "rank 0 (host host0) ended while");
	EXPECT_EQUAL(meetingWatch(&m), -1);
}

/*
 * No address answers: the reason is that of the last one that this host reaches, wherever it is in
 * the list. The kernel takes no TCP to a group of hosts for reachable.
 */
static void reasons(void)
{
	static const struct netAddress far = {.family = AF_INET, .bytes = {224, 0, 0, 1}},
				       here = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM, 0); /* has a port, and does not listen */

	EXPECT(!bind(fd, (struct sockaddr *)&name, bytes) &&
	       !getsockname(fd, (struct sockaddr *)&name, &bytes));
	for (int first = 0; first < 2; first++) {
		const struct rootContact contact = {
			.port = ntohs(name.sin_port),
			.addresses = 2,
			.address = {first ? far : here, first ? here : far}};
		EXPECT_EQUAL(meetingReach(&contact, clockNow() + VISIT_SECONDS * SECOND), -1);
		EXPECT_EQUAL(errno, ECONNREFUSED);
	}
	close(fd);
}

/* Each bit of the key depends on the contact's key, name, generation and nonce. */
static void derivedKeys(void)
{
	struct meeting m = {.name = "a", .contact = {.key = "a key"}};
	uint8_t nonce[AUTH_KEY_BYTES] = "a nonce", first[AUTH_KEY_BYTES], key[AUTH_KEY_BYTES];

	meetingDerive(&m, nonce, sizeof(nonce), first);
	meetingDerive(&m, nonce, sizeof(nonce), key);
	EXPECT(!memcmp(first, key, sizeof(key)));
	EXPECT(memcmp(key, nonce, 8) && memcmp(key + 8, nonce + 8, 8) && memcmp(key, key + 8, 8));
	for (size_t i = 0; i < 8 * sizeof(nonce); i++)
		for (int ofNonce = 0; ofNonce < 2; ofNonce++) {
			uint8_t *byte = ofNonce ? &nonce[i / 8] : &m.contact.key[i / 8];
			*byte ^= (uint8_t)(1u << i % 8);
			meetingDerive(&m, nonce, sizeof(nonce), key);
			*byte ^= (uint8_t)(1u << i % 8);
			EXPECT(memcmp(key, first, 8) && memcmp(key + 8, first + 8, 8));
		}
	m.generation = 1;
	meetingDerive(&m, nonce, sizeof(nonce), key);
	EXPECT(memcmp(key, first, 8) && memcmp(key + 8, first + 8, 8));
	m.generation = 0;
	m.name[0] = 'b';
	meetingDerive(&m, nonce, sizeof(nonce), key);
	EXPECT(memcmp(key, first, 8) && memcmp(key + 8, first + 8, 8));
}

/*
 * A rank ends after it has proved the key, before its request: the group that waits for it fails.
 */
static void lostBeforeRequest(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor waiting = makeVisitor(&contact, "before", 0, 0, 3);

	arrive(&waiting);
	close(greetRoot(&contact, 1));
	expectVisitFails(&waiting, "rank 1 ended while other ranks were still connecting");
	expectServes(&contact);
}

/* Rank 0 is informed last, because its process may end then: a late rank gets the first error. */
static void lateForRefusal(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor first = makeVisitor(&contact, "late", 0, 0, 2),
		       late = makeVisitor(&contact, "late", 0, 1, 2);

	strcpy(first.request.entry.refusal, "rank 0: GIN_ROUTE=bogus");
	arrive(&first);
	struct pollfd reply = {.fd = first.fd, .events = POLLIN};
	EXPECT_EQUAL(poll(&reply, 1, 300), 0);
	startVisit(&late);
	expectVisitFails(&late, "rank 0: GIN_ROUTE=bogus");
	expectVisitFails(&first, "rank 0: GIN_ROUTE=bogus");
}

/* A malformed request is refused alone: the rest of the communicator meets. */
static void expectSentAway(struct visitor wrong, uint32_t greeting)
{
	struct visitor v[3];
	static uint32_t number;

	for (uint32_t r = 0; r < 3; r++)
		v[r] = makeVisitor(&wrong.contact, "sense", number, r, 3);
	arrive(&v[0]);
	wrong.request.generation = number++;
	int fd = greetRoot(&wrong.contact, greeting);
	EXPECT(!socketSend(fd, &wrong.request, sizeof(wrong.request), clockNow() + SECOND));
	expectEnd(fd);
	startVisits(&v[1], 2);
	expectAllMet(v, 3);
}

static void senselessRequests(void)
{
	static const struct {
		uint32_t greeting, rank, nRanks, parent;
	} wrong[] = {
		{3, 3, 3, 0},
		{UINT32_MAX, UINT32_MAX, 3, 0},
		{1, 2, 3, 0},
		{1, 1, 3, 3},
		{1, 1, 3, UINT32_MAX},
		{1, 1, 3, 2},
		{0, 0, 3, 1},
		{0, 0, 0, 0},
		{1, 1, (1 << 20) + 1, 0},
		{1, 1, UINT32_MAX, 0},
	};
	struct rootContact contact = newRoot(0, VISIT_SECONDS);

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct visitor v =
			makeVisitor(&contact, "sense", 0, wrong[i].rank, wrong[i].nRanks);
		v.request.parent = wrong[i].parent;
		expectSentAway(v, wrong[i].greeting);
	}
}

/* Texts without a terminating zero are cut, and not read beyond their end. */
static void unterminatedTexts(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor v[2];

	for (int refuses = 0; refuses < 2; refuses++) {
		for (uint32_t r = 0; r < 2; r++) {
			v[r] = makeVisitor(&contact, "", (uint32_t)refuses, r, 2);
			memset(v[r].request.name, 'n', sizeof(v[r].request.name));
			memset(v[r].request.entry.host, 'h', sizeof(v[r].request.entry.host));
		}
		if (refuses)
			memset(v[1].request.entry.refusal, 'r', sizeof(v[1].request.entry.refusal));
		startVisits(v, 2);
		for (int r = 0; r < 2; r++) {
			endVisit(&v[r]);
			EXPECT_EQUAL(v[r].result, -refuses);
			EXPECT_EQUAL(strlen(v[r].reply.root.host), refuses ? 0 : 63);
			if (refuses)
				EXPECT_HAS(v[r].why, "rrr");
		}
	}
}

/* All ranks that came learn which ranks did not come; so does a late rank. */
static void neverCome(void)
{
	struct rootContact contact = newRoot(0, 1);
	struct visitor few[3], one = makeVisitor(&contact, "one", 0, 1, 2);
	const char *words = "ranks 0, 2, 4, 6, 7, 8, 9, 10 and 2 more did not come within 1 s "
			    "(GIN_TIMEOUT)";

	for (uint32_t i = 0; i < 3; i++)
		few[i] = makeVisitor(&contact, "few", 0, 2 * i + 1, 13);
	startVisits(few, 3);
	startVisit(&one);
	expectVisitFails(&one, "rank 0 did not come within 1 s (GIN_TIMEOUT)");
	expectVisitsFail(few, 3, words);
	few[0] = makeVisitor(&contact, "few", 0, 12, 13);
	startVisit(&few[0]);
	expectVisitFails(&few[0], words);
	expectServes(&contact);
}

/* A rank with another key does not count: the others learn that it was there. */
static void otherKey(void)
{
	struct rootContact contact = newRoot(0, 1), wrong = contact;

	wrong.key[0] ^= 1;
	struct visitor one = makeVisitor(&contact, "", 0, 0, 2),
		       other = makeVisitor(&wrong, "", 0, 1, 2);
	startVisit(&other);
	expectVisitFails(&other, "another secret");
	startVisit(&one);
	expectVisitFails(&one, "rank 1 did not come within 1 s (GIN_TIMEOUT); connections with "
			       "another key were refused: is GIN_SECRET the same");
	expectServes(&contact);
}

/* A rank with a shorter limit than the root's ends the wait of the others, and all learn why. */
static void shorterLimit(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct visitor v[2];

	for (uint32_t i = 0; i < 2; i++)
		v[i] = makeVisitor(&contact, "", 0, i, 4);
	v[1].seconds = 1;
	startVisits(v, 2);
	expectVisitsFail(v, 2, "ranks 2, 3 did not come within ");
	EXPECT_EQUAL(v[0].result, BOOTSTRAP_LATE);
	EXPECT_EQUAL(v[1].result, BOOTSTRAP_LATE);
	expectServes(&contact);
}

/* Ranks that wait for a rank of the root's process, and those that come later. */
static void givenUp(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS), other = newRoot(0, VISIT_SECONDS);
	struct visitor v[2];

	EXPECT(rootIsHere(&contact));
	for (uint32_t i = 0; i < 2; i++)
		v[i] = makeVisitor(&contact, "", 0, i + 1, 3);
	startVisit(&v[0]);
	usleep(100000); /* likely long enough to be one of those that wait */
	rootGiveUp(&contact, "rank 0 does not reach its own root");
	startVisit(&v[1]);
	expectVisitsFail(v, 2, "rank 0 does not reach its own root");
	expectServes(&other);
	other.key[0]++;
	EXPECT(!rootIsHere(&other));
	rootGiveUp(&other, "of another process");
}

int main(void)
{
	seed = (unsigned)clockNow();
	printf("seed %u\n", seed);
	srandom(seed);
	prepareTests();
	expectChild("groups of 1 to 100", completeGroups);
	expectChild("many at once", manyAtOnce);
	expectChild("patient processes", patientProcesses);
	expectChild("no root", noRoot);
	expectChild("a refusal", refusal);
	expectChild("another version", otherVersion);
	expectChild("different numbers of ranks", differentSizes);
	expectChild("two jobs", twoJobs);
	expectChild("the same rank twice", sameRankTwice);
	expectChild("ranks that leave and die", lostRanks);
	expectChild("a rank that dies while it joins", lostWhileJoining);
	expectChild("news of a meeting", newsOfMeetings);
	expectChild("why no address answers", reasons);
	expectChild("derived keys", derivedKeys);
	expectChild("a rank that ends before its request", lostBeforeRequest);
	expectChild("a rank with a shorter limit", shorterLimit);
	expectChild("a root whose rank gives up", givenUp);
	expectChild("a rank that is late for a refusal", lateForRefusal);
	expectChild("requests without sense", senselessRequests);
	expectChild("unterminated texts", unterminatedTexts);
	expectChild("ranks that never come", neverCome);
	expectChild("a rank with another key", otherKey);
	return expectFailures != 0;
}
