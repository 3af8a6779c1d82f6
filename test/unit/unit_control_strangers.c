/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_control_strangers.c - connections to the control plane's listener from strangers: the ranks
 * still connect, and deadlines, log lines and listening addresses stay bounded
 */
#include "control_team.h"
#include "files.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CROWD 200 /* more than the control plane serves at a time */

static const struct netAddress v4 = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
static uint16_t rootPort;
static int crowd[CROWD];
static int ended; /* rank 0 has returned */

static int connectRoot(void)
{
	return socketConnect(&v4, rootPort, clockNow() + TEAM_SECONDS * SECOND);
}

static void startTeam(struct team *team, int nRanks, int started)
{
	team->nRanks = nRanks;
	pthread_barrier_init(&team->barrier, NULL, (unsigned)started);
	for (int r = 0; r < nRanks; r++)
		teamPrepare(team, &team->member[r], r);
	rootPort = team->ranks[0].port;
}

static void runTeam(struct team *team, int started)
{
	for (int r = 0; r < started; r++)
		EXPECT(!pthread_create(&team->member[r].thread, NULL, teamThread,
				       &team->member[r]));
}

static void well(struct member *m)
{
	EXPECT_SUCCESS(m->opened);
	teamExpectWell(m);
}

/* Strangers connect before the ranks and send nothing, or some bytes of an answer. */
static void silentCrowd(void)
{
	static struct team team = {.body = well};

	setenv("GIN_TIMEOUT", "15", 1);
	startTeam(&team, 17, 17);
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = connectRoot();
		EXPECT(crowd[i] >= 0);
		if (i % 2)
			EXPECT(!socketSend(crowd[i], "gin1", 4, clockNow() + SECOND));
	}
	runTeam(&team, 17);
	teamJoin(&team);
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}

static void *flood(void *arg)
{
	static const char garbage[4096];
	uint64_t end = clockNow() + TEAM_SECONDS * SECOND;

	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE) && clockNow() < end) {
		int fd = connectRoot();
		if (fd >= 0) {
			(void)!send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL | MSG_DONTWAIT);
			close(fd);
		}
	}
	expectThat(__atomic_load_n(&ended, __ATOMIC_ACQUIRE), __FILE__, __LINE__,
		   "rank 0 waits while connections keep coming");
	return arg;
}

static void timesOut(struct member *m)
{
	if (m->rank)
		return;
	EXPECT_EQUAL(m->opened, ginErrorTimeout);
	EXPECT_HAS(ginGetLastError(), "rank 2 (host ");
	EXPECT_HAS(ginGetLastError(), "has not connected");
}

/* Sends the log to a file. */
static int logLines(FILE *log)
{
	int lines = 0, c;

	rewind(log);
	while ((c = fgetc(log)) != EOF)
		lines += c == '\n';
	return lines;
}

/* Rank 2 never opens; connections keep coming until rank 0 has given up. */
static void endlessFlood(void)
{
	static struct team team = {.body = timesOut};
	FILE *log = tmpfile();
	pthread_t thread;
	int err = dup(2);

	setenv("GIN_TIMEOUT", "2", 1);
	setenv("GIN_LOG", "warn", 1);
	startTeam(&team, 3, 2);
	EXPECT(log && !fcntl(fileno(log), F_SETFL, O_APPEND) && dup2(fileno(log), 2) == 2);
	EXPECT(!pthread_create(&thread, NULL, flood, NULL));
	runTeam(&team, 2);
	pthread_join(team.member[0].thread, NULL);
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	pthread_join(team.member[1].thread, NULL);
	pthread_join(thread, NULL);
	EXPECT(dup2(err, 2) == 2);
	controlClose(&team.member[2].control);
	int lines = logLines(log);
	printf("%d log lines\n", lines);
	EXPECT(lines > 0 && lines < 20);
}

static int holdCrowd(void)
{
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
	return child;
}

/* Rank 2 never opens; another process has silent connections to rank 0. */
static void fewDescriptors(void)
{
	static struct team team = {.body = timesOut};
	const struct rlimit few = {128, 128};
	int most = 0;

	setenv("GIN_TIMEOUT", "2", 1);
	startTeam(&team, 3, 2);
	for (int i = 0; i < CROWD; i++)
		crowd[i] = connectRoot();
	pid_t stranger = holdCrowd();
	EXPECT(!setrlimit(RLIMIT_NOFILE, &few));
	int before = countFiles();
	runTeam(&team, 2);
	pthread_t waits = team.member[0].thread;
	while (pthread_tryjoin_np(waits, NULL)) {
		int files = countFiles();
		most = files > most ? files : most;
		usleep(1000);
	}
	pthread_join(team.member[1].thread, NULL);
	controlClose(&team.member[2].control);
	EXPECT(!kill(stranger, SIGKILL) && waitpid(stranger, NULL, 0) == stranger);
	printf("%d descriptors, then %d\n", before, most);
	EXPECT(most > before && most <= before + 128 / 8 + 8);
}

static int boundTo(int fd, struct netAddress *at)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &length))
		return -1;
	socketAddress((struct sockaddr *)&name, at);
	return 0;
}

/* The name of an interface that other hosts may reach, or "". */
static void anyInterface(char *out, size_t bytes)
{
	struct ifaddrs *list;

	out[0] = '\0';
	EXPECT(!getifaddrs(&list));
	for (const struct ifaddrs *i = list; i && !*out; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
		    !(i->ifa_flags & IFF_LOOPBACK))
			snprintf(out, bytes, "%s", i->ifa_name);
	freeifaddrs(list);
}

static void expectListensAt(struct identity *me, const struct netAddress *address)
{
	struct control c;
	struct netAddress at;

	EXPECT_SUCCESS(controlPrepare(&c, 0, 2, me));
	EXPECT(!boundTo(c.listener, &at));
	EXPECT(!memcmp(&at, address, sizeof(at)));
	EXPECT_EQUAL(me->addresses, 1);
	EXPECT(!memcmp(&me->address[0], address, sizeof(at)));
	EXPECT_EQUAL(me->loopback, address->bytes[0] == 127);
	controlClose(&c);
}

/* Ranks without children listen for ranks that lose their parents. A rank alone does not listen. */
static void aloneAndLocal(void)
{
	struct identity me;
	struct control c;

	EXPECT_SUCCESS(identityMake(&me));
	EXPECT_SUCCESS(controlPrepare(&c, 0, 1, &me));
	EXPECT_EQUAL(c.listener, -1);
	EXPECT_EQUAL(me.port, 0);
	controlClose(&c);
	EXPECT_SUCCESS(controlPrepare(&c, 1, 2, &me));
	EXPECT(c.listener >= 0 && me.port);
	controlClose(&c);
	me.local = 1;
	expectListensAt(&me, &v4);
}

static void oneInterface(void)
{
	char name[IF_NAMESIZE];
	struct identity me;

	anyInterface(name, sizeof(name));
	if (!*name) {
		printf("left out: this host has no address of its own\n");
		return;
	}
	setenv("GIN_SOCKET_IFNAME", name, 1);
	EXPECT_SUCCESS(identityMake(&me));
	struct netAddress address = me.address[0];
	expectListensAt(&me, &address);
}

static void wellThere(void)
{
	char name[IF_NAMESIZE];

	anyInterface(name, sizeof(name));
	setenv("GIN_SOCKET_IFNAME", name, 1);
	setenv("GIN_TIMEOUT", "15", 1);
	static struct team team = {.body = well};
	startTeam(&team, 20, 20);
	runTeam(&team, 20);
	teamJoin(&team);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	expectChild("a silent crowd", silentCrowd);
	expectChild("connections without end", endlessFlood);
	expectChild("a silent crowd, and few descriptors", fewDescriptors);
	expectChild("a rank alone, and ranks of one host", aloneAndLocal);
	expectChild("GIN_SOCKET_IFNAME", oneInterface);
	expectChild("ranks at GIN_SOCKET_IFNAME", wellThere);
	return expectFailures != 0;
}
