/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach.c - gin_info --attach: what running processes of this host wait for
 *
 * Asks each process that has a communicator of the given process: lib/attach.c answers. Nothing in
 * these processes stops.
 */
#include "attach.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MOST_SECONDS 10 /* in which all processes have to answer */

/* A rank waits for another. */
struct edge {
	int from, to;
};

/* Connects to a socket of the list, if a process of this user or root's answers. */
static int connectTo(const char *name, int pid)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct ucred asked = {0};
	socklen_t bytes = sizeof(asked);
	size_t length = strlen(name);
	int fd;

	if (length >= sizeof(to.sun_path))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	memcpy(to.sun_path + 1, name, length);
	if (!connect(fd, (const struct sockaddr *)&to,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &asked, &bytes) && asked.pid == pid &&
	    (asked.uid == geteuid() || !geteuid()))
		return fd;
	close(fd);
	return -1;
}

static int addAttached(struct attachedAll *all, int fd, int pid, unsigned number)
{
	struct attached *more = realloc(all->of, ((size_t)all->count + 1) * sizeof(*more));

	if (!more)
		return close(fd);
	all->of = more;
	more[all->count++] = (struct attached){.fd = fd, .pid = pid, .number = number, .rank = -1};
	return 0;
}

static int isKnown(const struct attachedAll *all, int pid, unsigned number)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->of[i].pid == pid && all->of[i].number == number)
			return 1;
	return 0;
}

/*
 * Connects to all processes that listen: /proc/net/unix lists an abstract name after an @. A
 * connection, for example of another gin_info, has the name of its socket, too.
 */
static void findAll(struct attachedAll *all)
{
	FILE *list = fopen("/proc/net/unix", "r");
	char line[512];

	while (list && fgets(line, sizeof(line), list)) {
		char *name = strstr(line, " @gin.");
		int pid, fd;
		unsigned number;
		line[strcspn(line, "\n")] = '\0';
		if (!name || sscanf(name, " @gin.%d.%u", &pid, &number) != 2)
			continue;
		fd = isKnown(all, pid, number) ? -1 : connectTo(name + 2, pid);
		if (fd >= 0)
			addAttached(all, fd, pid, number);
	}
	if (list)
		fclose(list);
}

/* Takes what has arrived; closes at the end. */
static void take(struct attached *a)
{
	char part[4096];
	ssize_t got = read(a->fd, part, sizeof(part));
	char *more = got > 0 ? realloc(a->text, a->bytes + (size_t)got + 1) : NULL;

	if (got < 0 && errno == EINTR)
		return;
	if (!more) {
		close(a->fd);
		a->fd = -1;
		return;
	}
	a->text = more;
	memcpy(more + a->bytes, part, (size_t)got);
	a->bytes += (size_t)got;
	more[a->bytes] = '\0';
}

static void takeAll(struct attachedAll *all)
{
	struct pollfd *fds = calloc(all->count, sizeof(*fds));
	time_t end = time(NULL) + MOST_SECONDS;
	unsigned open = all->count;

	while (fds && open && time(NULL) < end) {
		for (unsigned i = 0; i < all->count; i++)
			fds[i] = (struct pollfd){.fd = all->of[i].fd, .events = POLLIN};
		poll(fds, all->count, 200);
		open = 0;
		for (unsigned i = 0; i < all->count; i++) {
			if (all->of[i].fd >= 0 && fds[i].revents)
				take(&all->of[i]);
			open += all->of[i].fd >= 0;
		}
	}
	free(fds);
}

static void readHeads(struct attachedAll *all)
{
	for (unsigned i = 0; i < all->count; i++) {
		struct attached *a = &all->of[i];
		if (!a->text || sscanf(a->text, "libgin 1 %llx %d %d %*d %63s", &a->name, &a->rank,
				       &a->nRanks, a->host) != 4)
			a->rank = -1;
	}
}

static void release(struct attached *a)
{
	if (a->fd >= 0)
		close(a->fd);
	free(a->text);
}

static void printRank(const struct attached *a)
{
	printf("rank %d of %d, process %d on %s\n", a->rank, a->nRanks, a->pid, a->host);
	for (const char *line = strchr(a->text, '\n'); line && line[1]; line = strchr(line, '\n')) {
		int length = (int)strcspn(++line, "\n"), rank, skip = 0;
		unsigned seconds;
		if (sscanf(line, "wait %d %u %n", &rank, &seconds, &skip) == 2)
			printf("    waits for %u s: %.*s\n", seconds, length - skip, line + skip);
		else
			printf("  %.*s\n", length, line);
	}
}

/* Adds the ranks for which this one waits. `edges` has room for them. */
static int addEdges(const struct attached *a, struct edge *edges, int count, int most)
{
	int rank;

	for (const char *line = strchr(a->text, '\n'); line && line[1]; line = strchr(line, '\n'))
		if (sscanf(++line, "wait %d", &rank) == 1 && rank >= 0 && count < most)
			edges[count++] = (struct edge){a->rank, rank};
	return count;
}

/* Follows the edges from the last rank of the path to its first one. Returns the ring's length. */
static int follow(const struct edge *edges, int count, int *path, int length, char *seen)
{
	for (int i = 0; i < count; i++) {
		if (edges[i].from != path[length - 1])
			continue;
		if (edges[i].to == path[0])
			return length;
		if (seen[edges[i].to])
			continue;
		seen[edges[i].to] = 1;
		path[length] = edges[i].to;
		int ring = follow(edges, count, path, length + 1, seen);
		if (ring)
			return ring;
	}
	return 0;
}

static void printRing(const struct edge *edges, int count, int nRanks)
{
	int *path = calloc((size_t)nRanks + 1, sizeof(*path));
	char *seen = calloc((size_t)nRanks + 1, 1);
	int ring = 0;

	for (int i = 0; path && seen && i < count && !ring; i++) {
		memset(seen, 0, (size_t)nRanks);
		path[0] = edges[i].from;
		ring = follow(edges, count, path, 1, seen);
	}
	if (ring) {
		printf("a ring of waits: ");
		for (int i = 0; i < ring; i++)
			printf("rank %d waits for ", path[i]);
		printf("rank %d\n", path[0]);
	}
	free(path);
	free(seen);
}

static int isIn(const struct edge *edges, int count, int rank)
{
	for (int i = 0; i < count; i++)
		if (edges[i].from == rank)
			return 1;
	return 0;
}

/* Ranks for which others wait, and that wait for nobody: the place to look. */
static void printRoots(const struct edge *edges, int count)
{
	for (int i = 0; i < count; i++) {
		int known = isIn(edges, count, edges[i].to);
		for (int k = 0; k < i && !known; k++)
			known = edges[k].to == edges[i].to;
		if (!known)
			printf("rank %d waits for rank %d, which waits for no rank that is known\n",
			       edges[i].from, edges[i].to);
	}
}

static void printGraph(const struct attachedAll *all, unsigned long long name)
{
	enum { MOST = 4096 };
	struct edge *edges = calloc(MOST, sizeof(*edges));
	int count = 0, nRanks = 0;

	for (unsigned i = 0; edges && i < all->count; i++) {
		const struct attached *a = &all->of[i];
		if (a->rank < 0 || a->name != name)
			continue;
		nRanks = a->nRanks;
		count = addEdges(a, edges, count, MOST);
	}
	for (int i = 0; i < count; i++)
		if (edges[i].to >= nRanks || edges[i].from >= nRanks)
			count = 0; /* not a text of libgin */
	printRoots(edges, count);
	printRing(edges, count, nRanks);
	free(edges);
}

static int byRank(const void *a, const void *b)
{
	const struct attached *one = a, *other = b;

	if (one->name != other->name)
		return one->name < other->name ? -1 : 1;
	return (one->rank > other->rank) - (one->rank < other->rank);
}

/* All ranks on this host of the communicator. */
static void printCommunicator(const struct attachedAll *all, unsigned long long name)
{
	int here = 0, nRanks = 0;

	for (unsigned i = 0; i < all->count; i++) {
		if (all->of[i].rank < 0 || all->of[i].name != name)
			continue;
		printRank(&all->of[i]);
		nRanks = all->of[i].nRanks;
		here++;
	}
	if (here < nRanks)
		printf("%d ranks of %d have answered: run gin_info on the other hosts, too\n", here,
		       nRanks);
	printGraph(all, name);
}

static int hasProcess(const struct attachedAll *all, unsigned long long name, int pid)
{
	for (unsigned i = 0; i < all->count; i++)
		if (all->of[i].rank >= 0 && all->of[i].pid == pid && all->of[i].name == name)
			return 1;
	return 0;
}

/* Keeps the ranks that have answered, of communicators of the process. */
static void keepOf(struct attachedAll *all, int pid)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < all->count; i++)
		all->of[i].isKept = all->of[i].rank >= 0 && hasProcess(all, all->of[i].name, pid);
	for (unsigned i = 0; i < all->count; i++) {
		if (all->of[i].isKept)
			all->of[kept++] = all->of[i];
		else
			release(&all->of[i]);
	}
	all->count = kept;
}

/* The list is sorted: ranks of a communicator follow each other. */
static void printAll(const struct attachedAll *all)
{
	for (unsigned i = 0; i < all->count; i++)
		if (!i || all->of[i].name != all->of[i - 1].name)
			printCommunicator(all, all->of[i].name);
}

int attachPrint(int pid, int asMetrics)
{
	struct attachedAll all = {0};

	findAll(&all);
	if (all.count > 0) {
		takeAll(&all);
		readHeads(&all);
		qsort(all.of, all.count, sizeof(*all.of), byRank);
	}
	keepOf(&all, pid);
	int found = all.count > 0;
	if (asMetrics)
		metricsPrint(&all);
	else
		printAll(&all);
	if (!found)
		fprintf(stderr,
			"gin_info: process %d does not answer: it has no communicator, belongs to "
			"another user, is stopped, runs in another network namespace, or has "
			"GIN_ATTACH=off\n",
			pid);
	for (unsigned i = 0; i < all.count; i++)
		release(&all.of[i]);
	free(all.of);
	return !found;
}
