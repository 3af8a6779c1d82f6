/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_root_ids.c - the root of the unique ids of a process: each id is one communicator
 *
 * Each test runs in a process of its own.
 */
#include "root_visitors.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

/* A root for one communicator ends with it: its thread, its descriptors and its port. */
static void onceAndGone(void)
{
	int files = countFiles(), threads = countThreads();
	struct rootContact contact = newRoot(1, VISIT_SECONDS);
	struct visitor v[9];

	for (uint32_t r = 0; r < 9; r++)
		v[r] = makeVisitor(&contact, "all", 0, r, 9);
	startVisits(v, 9);
	expectAllMet(v, 9);
	expectCountsSoon(files, threads);
	v[0] = makeVisitor(&contact, "all", 0, 0, 9);
	startVisit(&v[0]);
	expectVisitFails(&v[0], "each id serves one communicator");

	contact = newRoot(1, VISIT_SECONDS);
	for (uint32_t r = 0; r < 4; r++)
		v[r] = makeVisitor(&contact, "", 0, r, 4);
	strcpy(v[3].request.entry.refusal, "not today");
	startVisits(v, 4);
	expectVisitsFail(v, 4, "not today");
	expectCountsSoon(files, threads);

	contact = newRoot(1, 1);
	v[0] = makeVisitor(&contact, "", 0, 0, 2);
	startVisit(&v[0]);
	expectVisitFails(&v[0], "rank 1 did not come");
	expectCountsSoon(files, threads);
}

/* Two communicators of three ranks each, by two ids. */
static void meetOfTwoIds(const struct rootContact *first, const struct rootContact *second)
{
	struct visitor v[6];

	for (uint32_t i = 0; i < 6; i++)
		v[i] = makeVisitor(i < 3 ? first : second, "", 0, i % 3, 3);
	shuffle(v, 6);
	startVisits(v, 6);
	expectAllMet(v, 6);
}

/* All unique ids of a process have one thread and one port, and each id is one communicator. */
static void manyIds(void)
{
	enum { IDS = 20 };
	int files = countFiles(), threads = countThreads();
	struct rootContact id[IDS];
	struct visitor again;

	for (int i = 0; i < IDS; i++) {
		id[i] = newRoot(1, VISIT_SECONDS);
		EXPECT_EQUAL(id[i].port, id[0].port);
		EXPECT(!i || memcmp(id[i].key, id[i - 1].key, sizeof(id[i].key)));
	}
	expectCountsSoon(files + 2, threads + 1);
	for (int i = 0; i < IDS; i += 2)
		meetOfTwoIds(&id[i], &id[IDS - 1 - i]);
	expectCountsSoon(files, threads);

	id[0] = newRoot(1, VISIT_SECONDS);
	id[1] = newRoot(1, VISIT_SECONDS);
	again = makeVisitor(&id[0], "", 0, 0, 1);
	startVisit(&again);
	expectMet(&again);
	again = makeVisitor(&id[0], "", 0, 0, 1);
	startVisit(&again);
	expectVisitFails(&again,
			 "another secret: the id belongs to another job, or was used before");
	again = makeVisitor(&id[1], "", 0, 0, 1);
	startVisit(&again);
	expectMet(&again);
	expectCountsSoon(files, threads);
}

/* Unused ids cost only their records, and the oldest are dropped first. */
static void unusedIds(void)
{
	static struct rootContact id[ROOT_IDS + 2];
	int files = countFiles(), threads = countThreads();
	struct visitor v;

	id[0] = newRoot(1, VISIT_SECONDS);
	int used = greetRoot(&id[0], 0); /* some rank has come */
	for (int i = 1; i < ROOT_IDS + 2; i++)
		id[i] = newRoot(1, VISIT_SECONDS);
	EXPECT(countFiles() <= files + 4);
	EXPECT(countEntries("/proc/self/task") <= threads + 1);
	for (int i = 0; i < 3; i++) {
		v = makeVisitor(&id[i], "", 0, 0, 1);
		startVisit(&v);
		if (i == 1)
			expectVisitFails(&v, "another secret: the id belongs to another job");
		else
			expectMet(&v);
	}
	close(used);
}

/* Does each thread but this one sleep? */
static int othersSleep(void)
{
	char path[64], state;
	int sleep = 1;
	DIR *tasks = opendir("/proc/self/task");

	EXPECT(tasks != NULL);
	for (struct dirent *task; (task = readdir(tasks));) {
		int number = atoi(task->d_name); /* 0: "." and ".." */
		if (!number || number == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", number);
		FILE *stat = fopen(path, "r");
		if (stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1)
			sleep &= state == 'S';
		if (stat)
			fclose(stat);
	}
	closedir(tasks);
	return sleep;
}

/*
 * A child process of fork() has no root of its parent's ids, and makes its own. The fork waits
 * until the root's thread sleeps: before, the thread may hold a lock of AddressSanitizer, for which
 * the child would wait.
 */
static void idOfAChild(void)
{
	struct rootContact first = newRoot(1, VISIT_SECONDS), own;
	struct visitor v = makeVisitor(&first, "", 0, 0, 1);
	int status;

	while (!othersSleep())
		usleep(1000);
	pid_t child = fork();
	if (!child) {
		EXPECT(!rootIsHere(&first));
		own = newRoot(1, VISIT_SECONDS);
		v = makeVisitor(&own, "", 0, 0, 1);
		startVisit(&v);
		expectMet(&v);
		_exit(expectFailures != 0);
	}
	EXPECT(waitpid(child, &status, 0) == child && !status);
	startVisit(&v);
	expectMet(&v);
}

/* Two communicators use one id at a time: neither has ranks of both. */
static void idUsedTwice(void)
{
	int files = countFiles(), threads = countThreads();
	struct rootContact contact = newRoot(1, VISIT_SECONDS);
	struct visitor v[4];

	for (uint32_t i = 0; i < 4; i++)
		v[i] = makeVisitor(&contact, "", 0, i / 2, 3);
	v[0].fd = askRoot(&v[0]);
	startVisits(&v[1], 3);
	expectVisitsFail(v, 4, "two processes say that they are rank");
	v[0] = makeVisitor(&contact, "", 0, 2, 3);
	startVisit(&v[0]);
	expectVisitFails(&v[0], "two processes say that they are rank");
	expectCountsSoon(files, threads);
}

/* The program forks while ranks wait: the child has all connections, and never closes them. */
static void forkMeanwhile(void)
{
	struct rootContact contact = newRoot(0, VISIT_SECONDS);
	struct rootContact once = newRoot(1, VISIT_SECONDS);
	struct visitor v[3], alone = makeVisitor(&once, "", 0, 0, 1);
	int status;

	for (uint32_t r = 0; r < 3; r++)
		v[r] = makeVisitor(&contact, "fork", 0, r, 3);
	arrive(&v[0]);
	arrive(&v[1]);
	pid_t child = fork();
	if (!child)
		pauseForTest();
	startVisit(&v[2]);
	expectAllMet(v, 3);
	for (int i = 0; i < 10; i++)
		expectServes(&contact);
	startVisit(&alone);
	expectMet(&alone);
	startVisit(&alone);
	expectVisitFails(&alone, "Connection re"); /* refused, or reset if it came in between */
	kill(child, SIGKILL);
	EXPECT(waitpid(child, &status, 0) == child);
}

/* An id has the addresses that fit, also where the next one lacks a single byte. */
static void endsOfIds(void)
{
	const size_t room = ROOT_ID_BYTES - offsetof(struct rootContact, address);
	int edges = 0;

	for (unsigned v4 = 0; v4 <= ROOT_ADDRESSES; v4++) {
		struct rootContact in = {.addresses = ROOT_ADDRESSES}, out;
		uint8_t id[ROOT_ID_BYTES + 1] = {0};
		unsigned fit = 0;
		size_t used = 0;
		for (unsigned i = 0; i < ROOT_ADDRESSES; i++) {
			in.address[i].family = i < v4 ? AF_INET : AF_INET6;
			memset(in.address[i].bytes, (int)i + 1, i < v4 ? 4 : 16);
			used += i < v4 ? 5 : 17;
			fit += used <= room;
			edges += used == room + 1;
		}
		id[ROOT_ID_BYTES] = 0x5a;
		rootToId(&in, id);
		EXPECT_EQUAL(id[ROOT_ID_BYTES], 0x5a);
		rootFromId(id, &out);
		EXPECT_EQUAL(out.addresses, fit);
		EXPECT(!memcmp(out.address, in.address, fit * sizeof(in.address[0])));
		id[offsetof(struct rootContact, addresses)] = ROOT_ADDRESSES;
		id[ROOT_ID_BYTES - 16] = 16; /* it begins an address, or is within the last one */
		rootFromId(id, &out);
		EXPECT(fit == ROOT_ADDRESSES || out.addresses <= fit);
	}
	EXPECT(edges > 0);
}

int main(void)
{
	prepareTests();
	expectChild("once, and gone", onceAndGone);
	expectChild("many ids", manyIds);
	expectChild("ids that nobody uses", unusedIds);
#ifdef __SANITIZE_THREAD__
	printf("left out: an id of a child process: ThreadSanitizer allows no thread after "
	       "fork()\n");
	(void)idOfAChild;
#else
	expectChild("an id of a child process", idOfAChild);
#endif
	expectChild("ends of ids", endsOfIds);
	expectChild("an id used twice", idUsedTwice);
	expectChild("a fork meanwhile", forkMeanwhile);
	return expectFailures != 0;
}
